/**
 * Asks the kernel again while the proxy runs in iptables mode because ipvs mode could not start, and logs once when it could. The
 * mode stays until the next start.
 */
import { findLack } from '../modes/ipvs/kernel.ts'
import type { Log } from '../values/log.ts'

/** Asking loads a module that an operator has installed since. */
const PERIOD_MS = 300_000
const ANSWER_MS = 30_000

export interface FallbackWatchOptions {
  readonly log: Log
  /** Resolves to what ipvs mode lacks; undefined: nothing. */
  readonly ask?: (signal: AbortSignal) => Promise<string | undefined>
  readonly periodMs?: number
}

/** Never throws; does not keep the process alive. */
export function watchFallback(options: FallbackWatchOptions): { close(): void } {
  const { log, ask = findLack, periodMs = PERIOD_MS } = options
  const abort = new AbortController()
  let isAsking = false
  const look = async (): Promise<void> => {
    if (isAsking) return
    isAsking = true
    try {
      const lack = await ask(AbortSignal.any([abort.signal, AbortSignal.timeout(ANSWER_MS)]))
      if (lack !== undefined || abort.signal.aborted) return
      log.info('The kernel has everything for ipvs mode now; the next start of this program uses it')
      close()
    } catch (error) {
      if (!abort.signal.aborted) log.verbose(2, 'Cannot ask the kernel for what ipvs mode needs', { error })
    } finally {
      isAsking = false
    }
  }
  const timer = setInterval(() => void look(), periodMs).unref()
  const close = (): void => {
    clearInterval(timer)
    abort.abort()
  }
  return { close }
}
