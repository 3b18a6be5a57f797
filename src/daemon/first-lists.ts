/** Which kinds of objects a source has listed, and the wait for all of them. */
import type { ObjectKind } from '../service/objects.ts'
import { CodedError } from '../values/errors.ts'

export class FirstLists {
  readonly #awaited = new Set<ObjectKind>(['services', 'endpointslices', 'nodes'])
  readonly #complete = Promise.withResolvers<void>()

  /** Kinds that have not listed yet. */
  get awaited(): ReadonlySet<ObjectKind> {
    return this.#awaited
  }

  /** Resolves when every kind has listed. */
  get complete(): Promise<void> {
    return this.#complete.promise
  }

  listed(kind: ObjectKind): void {
    this.#awaited.delete(kind)
    if (this.#awaited.size === 0) this.#complete.resolve()
  }
}

/** Length of a wait that a user notices, in milliseconds. */
const NOTICED_MS = 500

/**
 * Waits for a source that reports its lists to `lists`, for commands that read the objects once and
 * end. Rejects with `source-timeout` when some are missing after the deadline. Calls `onWait` at
 * most once, with what is missing when a user notices the wait.
 */
export async function listOnce(
  lists: FirstLists,
  deadlineMs: number,
  onWait: (awaited: readonly ObjectKind[]) => void = () => undefined,
): Promise<void> {
  const late = Promise.withResolvers<never>()
  const deadline = setTimeout(() => {
    const message = `no complete list of ${[...lists.awaited].join(', ')} within ${deadlineMs / 1000} s`
    late.reject(new CodedError('source-timeout', message))
  }, deadlineMs)
  const notice = setTimeout(() => onWait([...lists.awaited]), NOTICED_MS)
  try {
    await Promise.race([lists.complete, late.promise])
  } finally {
    clearTimeout(deadline)
    clearTimeout(notice)
  }
}
