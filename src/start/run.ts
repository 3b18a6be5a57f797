/**
 * `kube-ipvs`: the daemon, and with --once one pass. The exit codes are kube-proxy's: 1 for what
 * only a restart can repair, 128 and the signal's number after a signal.
 */
import { exitNow } from '../../native/exit-now.ts'
import { runDaemon } from '../daemon/daemon.ts'
import { openLog } from '../serve/log.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { writeEarlyLine } from './early-lines.ts'
import { flagTexts } from './flag-value.ts'
import type { FlagValues } from './flags.ts'
import { NEEDS_RIGHTS, nextStep } from './next-step.ts'
import { isErrorTerminal, printErrorText, printJson } from './output.ts'
import { loadSettings, logWarnings } from './settings.ts'

/** The exit codes of a process that the signal killed, which is what kube-proxy's are: 128 and the signal's number. */
const SIGNAL_EXIT_CODE = { SIGTERM: 143, SIGINT: 130, SIGHUP: 129 } as const
export type EndSignal = keyof typeof SIGNAL_EXIT_CODE
const SIGNALS: readonly EndSignal[] = ['SIGTERM', 'SIGINT', 'SIGHUP']

export async function run(flags: FlagValues): Promise<number> {
  const { ended: signal, onHangup } = endSignal()
  const settings = await loadSettings(flags, writeEarlyLine)
  const { format, verbosity, vmodule } = settings.configuration.logging
  const log = await openLog({ format, verbosity, vmodule })
  process.on('uncaughtException', (error) => {
    log.error('Unexpected failure', { error: error.stack ?? error.message })
    log.close()
    exitNow(1)
  })
  try {
    logWarnings(settings.warnings, log)
    if (flags.initOnly === true) {
      await (await import('../daemon/initialize.ts')).initializeOnly(settings.configuration, log)
      return 0
    }
    const { isStopped, passes } = await runDaemon({
      ...settings,
      once: flags.once === true,
      configurationFile: flags.config || undefined,
      readConfiguration: async () => (await loadSettings(flags)).configuration,
      flags: () => flagTexts(flags),
      stop: signal,
      onHangup,
      log,
    })
    if (isStopped) return SIGNAL_EXIT_CODE[await signal]
    const { operations, failures } = passes
    if (flags.output === 'json') printJson({ operations, failures })
    return failures === 0 ? 0 : 1
  } catch (error) {
    const reason = reasonOf(error, log)
    log.error('Error running ProxyServer', { error: reason })
    log.error('command failed', { error: reason })
    const step = isErrorTerminal() ? nextStep(error) : undefined
    if (step !== undefined) printErrorText(step)
    return 1
  } finally {
    log.close()
  }
}

/** What ends the process, in kube-proxy's words where it has some. A bug of this program is reported with its stack. */
function reasonOf(error: unknown, log: Log): unknown {
  if (!(error instanceof CodedError)) return error instanceof Error ? (error.stack ?? error) : error
  if (error.code === 'EPERM') log.error(NEEDS_RIGHTS, { error })
  if (error.code !== 'ipvs-missing') return error
  log.error('The kernel lacks what ipvs mode needs', { error })
  return "can't use the IPVS proxier: ipvs not supported"
}

export interface EndSignals {
  /**
   * Resolves with the first signal that asks the process to end. The second ends it at once, even
   * if a pass is still writing.
   */
  readonly ended: Promise<EndSignal>
  /** From now on a SIGHUP for which the function returns true does not end the process. */
  readonly onHangup: (take: () => boolean) => void
}

export function endSignal(): EndSignals {
  // Without a handler node would open its debugger on a port of the host.
  process.on('SIGUSR1', () => undefined)
  const { promise: ended, resolve } = Promise.withResolvers<EndSignal>()
  let takeHangup = (): boolean => false
  let isStopping = false
  for (const signal of SIGNALS)
    process.on(signal, () => {
      if (isStopping) exitNow(SIGNAL_EXIT_CODE[signal])
      if (signal === 'SIGHUP' && takeHangup()) return
      isStopping = true
      resolve(signal)
    })
  return {
    ended,
    onHangup: (take) => {
      takeHangup = take
    },
  }
}
