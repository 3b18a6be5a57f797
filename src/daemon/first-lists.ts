/**
 * Waits until every source has listed once. The Node is waited for as long as kube-proxy does and no longer: what does
 * not depend on it goes on without. While the Node is unknown nothing may be removed.
 */
import type { ObjectKind } from '../service/objects.ts'

export interface FirstListsOptions {
  /** The Node has listed; comes before `onComplete`. */
  readonly onNode: () => void
  /** Everything but the Node has listed, which is waited for so long from now on. */
  readonly onNodeAwaited?: (timeoutMs: number) => void
  /** Everything has listed, or (`mayRemove` false) everything but the Node; called at most once each, in that order at last. */
  readonly onComplete: (mayRemove: boolean) => void
}

/** As long as kube-proxy waits for its Node object at a start. */
const NODE_WAIT_MS = 30_000

export class FirstLists {
  readonly #options: FirstListsOptions
  readonly #awaited = new Set<ObjectKind>(['services', 'endpointslices', 'nodes'])
  #nodeTimer: NodeJS.Timeout | undefined

  constructor(options: FirstListsOptions) {
    this.#options = options
  }

  /** Kinds that have not listed yet. */
  get awaited(): ReadonlySet<ObjectKind> {
    return this.#awaited
  }

  listed(kind: ObjectKind): void {
    this.#awaited.delete(kind)
    if (kind === 'nodes') this.#options.onNode()
    if (this.#awaited.size === 0) {
      clearTimeout(this.#nodeTimer)
      this.#options.onComplete(true)
    } else if (this.#awaited.size === 1 && this.#awaited.has('nodes')) {
      this.#options.onNodeAwaited?.(NODE_WAIT_MS)
      this.#nodeTimer = setTimeout(() => this.#options.onComplete(false), NODE_WAIT_MS)
    }
  }

  close(): void {
    clearTimeout(this.#nodeTimer)
  }
}
