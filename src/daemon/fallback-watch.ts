/**
 * Asks the kernel again while the proxy runs in iptables mode because ipvs mode could not start:
 * every five minutes, on SIGHUP, and when the configuration changes. Requests the return to ipvs
 * mode only when nothing is missing.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { lacksOfIpvsMode } from '../modes/ipvs/node-preparation.ts'
import { deadlineSignal } from '../node/deadline.ts'
import type { Log } from '../values/log.ts'

/** Asking loads a module that an operator has installed since. */
const PERIOD_MS = 300_000
const ANSWER_MS = 30_000

export interface FallbackWatchOptions {
  /** The configuration in force. */
  readonly configuration: () => KubeProxyConfiguration
  /** Nothing is missing, and kubeIPVS.switchBack is on. Called after every such answer. */
  readonly onReady: () => void
  readonly log: Log
  /** Resolves to what ipvs mode lacks, for people. */
  readonly ask?: (configuration: KubeProxyConfiguration, signal: AbortSignal) => Promise<readonly string[]>
  readonly periodMs?: number
}

export interface FallbackWatch {
  /** Asks at once, or once more after the question that is under way. */
  ask(): void
  close(): void
}

/** Never throws; does not keep the process alive. */
export function watchFallback(options: FallbackWatchOptions): FallbackWatch {
  const { log, ask = lacksOfIpvsMode, periodMs = PERIOD_MS } = options
  const abort = new AbortController()
  let asking: Promise<void> | undefined
  let isAskedAgain = false
  /** What was logged last; the same answer is logged once. */
  let logged: string | undefined
  const say = (what: string, write: () => void): void => {
    if (logged !== what) write()
    logged = what
  }
  const once = async (): Promise<void> => {
    const configuration = options.configuration()
    try {
      const lacks = await ask(
        configuration,
        AbortSignal.any([abort.signal, deadlineSignal(ANSWER_MS, 'asking the kernel for what ipvs mode needs')]),
      )
      // Another question follows a change of the configuration.
      if (abort.signal.aborted || options.configuration() !== configuration) return
      const text = lacks.join('; ')
      if (text !== '')
        return say(text, () =>
          log.info('The kernel lacks a part of what ipvs mode needs; iptables mode stays', { lacks: text }),
        )
      if (configuration.kubeIPVS.switchBack) return options.onReady()
      say(text, () =>
        log.info(
          'The kernel has everything for ipvs mode now; the next start of this program uses it, or kubeIPVS.switchBack: true',
        ),
      )
    } catch (error) {
      if (!abort.signal.aborted) log.verbose(2, 'Cannot ask the kernel for what ipvs mode needs', { error })
    }
  }
  const look = (): void => {
    isAskedAgain = asking !== undefined
    asking ??= once().finally(() => {
      asking = undefined
      if (isAskedAgain && !abort.signal.aborted) look()
    })
  }
  const timer = setInterval(look, periodMs).unref()
  return {
    ask: look,
    close: () => {
      clearInterval(timer)
      abort.abort()
    },
  }
}
