/**
 * The signals that end the process, heard from the first moment on.
 * What could break: exit codes are those of a process that the signal killed, which is what kube-proxy's is; a second
 * signal means now, whatever is still being written.
 */

/** 128 and the signal's number. */
export const SIGNAL_EXIT_CODE = { SIGTERM: 143, SIGINT: 130, SIGHUP: 129 } as const
export type EndSignal = keyof typeof SIGNAL_EXIT_CODE

const SIGNALS: readonly EndSignal[] = ['SIGTERM', 'SIGINT', 'SIGHUP']

/** Resolves with the first signal that asks the process to end; the second ends it at once. */
export function endSignal(): Promise<EndSignal> {
  // Node would open its debugger on a port of the host's.
  process.on('SIGUSR1', () => undefined)
  return new Promise((resolve) => {
    let stopping = false
    for (const signal of SIGNALS)
      process.on(signal, () => {
        if (stopping) process.exit(SIGNAL_EXIT_CODE[signal])
        stopping = true
        resolve(signal)
      })
  })
}
