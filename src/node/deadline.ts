/**
 * Deadlines as signals. A signal of `AbortSignal.timeout` fails with "The operation was aborted due
 * to timeout", which names neither the operation nor the time.
 * @impure
 */
import { formatDuration } from '../values/duration.ts'
import { CodedError } from '../values/errors.ts'

/**
 * A signal that is aborted after a time, in milliseconds, with a CodedError `deadline`. It does not
 * keep the process alive.
 * @param what the operation, as the subject of a sentence: `opening the kernel`
 */
export function deadlineSignal(milliseconds: number, what: string): AbortSignal {
  const abort = new AbortController()
  const late = (): void =>
    abort.abort(new CodedError('deadline', `${what} took longer than ${formatDuration(milliseconds)}`))
  setTimeout(late, milliseconds).unref()
  return abort.signal
}
