/**
 * Keeps listening to announcements of the kernel: a socket that fails is opened again. What was announced meanwhile is
 * lost, so whoever listens hears of that after each opening, when nothing can be missed any more.
 */

export interface Listening {
  /**
   * Opens a socket and listens; `onFailed` is called once, when the socket is of no more use and closed. May throw.
   */
  readonly open: (onFailed: (cause: unknown) => void) => { close(): void }
  /** Announcements may have been lost: everything they are about may have changed. */
  readonly onLost: () => void
  /** The socket failed, or could not be opened again; it is tried again until it works. */
  readonly onError: (error: unknown) => void
}

/** From a failure to the next try to open a socket. */
const REOPEN_MS = 1000

/** Throws when the first socket cannot be opened. */
export function keepListening({ open, onLost, onError }: Listening): { close(): void } {
  let timer: NodeJS.Timeout | undefined
  const failed = (cause: unknown): void => {
    timer = setTimeout(reopen, REOPEN_MS)
    onError(cause)
    onLost()
  }
  const reopen = (): void => {
    try {
      socket = open(failed)
    } catch (error) {
      timer = setTimeout(reopen, REOPEN_MS)
      return onError(error)
    }
    onLost()
  }
  let socket = open(failed)
  return {
    close() {
      clearTimeout(timer)
      socket.close()
    },
  }
}
