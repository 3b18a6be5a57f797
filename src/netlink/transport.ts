/**
 * The narrow waist between netlink connections and the socket: everything that can go wrong in the kernel can be
 * played by a test behind this interface.
 * What could break: `receive` lends its buffer; what it returned is overwritten by the next call.
 */

export interface Transport {
  /** The socket's address (`nl_pid` of struct sockaddr_nl): who sent the requests that notifications name. */
  readonly portId: number
  /** One datagram to the kernel, which executes it before this returns. Throws KernelError (EMSGSIZE, EPERM, …). */
  send(bytes: Uint8Array): void
  /**
   * The next datagram from the kernel, or undefined when there is none now. Never blocks. The bytes are valid until
   * the next call. Throws KernelError (ENOBUFS after an overrun) and CodedError `netlink-truncated`.
   */
  receive(): Uint8Array | undefined
  /**
   * Calls the listener whenever something can be received, also an error. undefined stops it. While a listener is
   * set the process stays alive, unless `background` is true.
   */
  onReadable(listener: (() => void) | undefined, background?: boolean): void
  /** Frees the socket. Calling it again does nothing. */
  close(): void
}
