/** AF_NETLINK sockets of the kernel. */
import { KernelError, netlinkError } from '../src/netlink/errors.ts'
import type { Transport } from '../src/netlink/transport.ts'
import { type Libc, libc, type PollHandle } from './libc.ts'

// linux/socket.h, asm-generic/socket.h, linux/netlink.h, asm-generic/errno-base.h
const AF_NETLINK = 16
const SOCK_RAW = 3
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
const MSG_TRUNC = 0x20
const MSG_DONTWAIT = 0x40
const SOL_SOCKET = 1
const SO_SNDBUF = 7
const SO_RCVBUF = 8
const SO_ATTACH_FILTER = 26
const SO_SNDBUFFORCE = 32
const SO_RCVBUFFORCE = 33
const SOL_NETLINK = 270
const NETLINK_ADD_MEMBERSHIP = 1
const NETLINK_CAP_ACK = 10
const NETLINK_EXT_ACK = 11
const NETLINK_GET_STRICT_CHK = 12
const EINTR = 4
const EAGAIN = 11

const SOCKADDR_NL_BYTES = 12
const DEFAULT_BUFFER_BYTES = 8 << 20
/** The kernel sends dumps in datagrams of up to 32 KiB; a longer one makes the buffer grow. */
const RECEIVE_BYTES = 64 << 10

export interface NetlinkSocketOptions {
  /** Receive queue of the kernel in bytes, default 8 MiB; without CAP_NET_ADMIN net.core.rmem_max caps it. */
  readonly receiveBufferBytes?: number
  /** Multicast groups to join (RTNLGRP_*). */
  readonly groups?: readonly number[]
  /** NETLINK_GET_STRICT_CHK: rtnetlink dumps honour the filters in their request. */
  readonly strictChecking?: boolean
  /** The kernel drops announcements caused by requests from sockets with these port ids (nlmsg_pid). */
  readonly ignorePortIds?: readonly number[]
}

/**
 * An AF_NETLINK socket. After an overrun libuv stops polling the descriptor (POLLERR), so the poll
 * handle must be stopped and started again, or the socket stays silent.
 */
export class NetlinkSocket implements Transport {
  readonly fd: number
  readonly portId: number
  readonly #libc: Libc
  readonly #kernel = sockaddr()
  readonly #sender = sockaddr()
  readonly #senderLength = u32(SOCKADDR_NL_BYTES)
  #buffer: Uint8Array = new Uint8Array(RECEIVE_BYTES)
  #poll: PollHandle | undefined
  #listener: (() => void) | undefined
  #polling = false
  #closed = false

  /** Opens a socket of a netlink family (NETLINK_ROUTE …). Throws KernelError, or `native-unavailable`. */
  static open(protocol: number, options: NetlinkSocketOptions = {}): NetlinkSocket {
    const c = libc()
    const fd = c.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol)
    if (fd < 0) throw new KernelError(c.errno(), `socket(AF_NETLINK, ${protocol})`)
    try {
      return new NetlinkSocket(c, fd, options)
    } catch (error) {
      c.close(fd)
      throw error
    }
  }

  private constructor(c: Libc, fd: number, options: NetlinkSocketOptions) {
    this.#libc = c
    this.fd = fd
    const receiveBytes = options.receiveBufferBytes ?? DEFAULT_BUFFER_BYTES
    if (!this.#option(SOL_SOCKET, SO_RCVBUFFORCE, receiveBytes)) this.#option(SOL_SOCKET, SO_RCVBUF, receiveBytes)
    // The largest datagram; net.core.wmem_max caps it without CAP_NET_ADMIN.
    if (!this.#option(SOL_SOCKET, SO_SNDBUFFORCE, DEFAULT_BUFFER_BYTES))
      this.#option(SOL_SOCKET, SO_SNDBUF, DEFAULT_BUFFER_BYTES)
    // Kernels before 4.12 have neither: error texts are then missing and echoes longer, nothing else changes.
    this.#option(SOL_NETLINK, NETLINK_EXT_ACK, 1)
    this.#option(SOL_NETLINK, NETLINK_CAP_ACK, 1)
    if (options.strictChecking === true) this.#option(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
    // Before joining, so that no announcement passes before the filter is set.
    if (options.ignorePortIds !== undefined && options.ignorePortIds.length > 0)
      this.#attachFilter(options.ignorePortIds)
    if (c.bind(fd, this.#kernel, SOCKADDR_NL_BYTES) < 0) throw new KernelError(c.errno(), 'bind')
    for (const group of options.groups ?? []) this.join(group)
    const address = sockaddr()
    if (c.getsockname(fd, address, u32(SOCKADDR_NL_BYTES)) < 0) throw new KernelError(c.errno(), 'getsockname')
    this.portId = new DataView(address.buffer).getUint32(4, true)
  }

  /** Joins a multicast group (RTNLGRP_*). */
  join(group: number): void {
    if (!this.#option(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group))
      throw new KernelError(this.#libc.errno(), `NETLINK_ADD_MEMBERSHIP ${group}`)
  }

  send(bytes: Uint8Array): void {
    for (;;) {
      this.#throwIfClosed()
      const sent = Number(
        this.#libc.sendto(this.fd, bytes, bytes.length, MSG_DONTWAIT, this.#kernel, SOCKADDR_NL_BYTES),
      )
      if (sent === bytes.length) return
      if (sent >= 0) throw netlinkError('netlink-truncated', `the kernel took ${sent} of ${bytes.length} bytes`)
      const errno = this.#libc.errno()
      if (errno !== EINTR) throw new KernelError(errno, 'sendto')
    }
  }

  receive(): Uint8Array | undefined {
    const c = this.#libc
    for (;;) {
      this.#throwIfClosed()
      const buffer = this.#buffer
      this.#senderLength[0] = SOCKADDR_NL_BYTES
      // With MSG_TRUNC the result is the datagram's full length, even if it did not fit.
      const length = Number(
        c.recvfrom(this.fd, buffer, buffer.length, MSG_DONTWAIT | MSG_TRUNC, this.#sender, this.#senderLength),
      )
      if (length < 0) {
        const errno = c.errno()
        if (errno === EAGAIN) return undefined
        if (errno === EINTR) continue
        throw new KernelError(errno, 'recvfrom')
      }
      // Another process may send to our port id: only the kernel has port id 0.
      if (this.#sender[4] !== 0 || this.#sender[5] !== 0 || this.#sender[6] !== 0 || this.#sender[7] !== 0) continue
      if (length > buffer.length) {
        this.#buffer = new Uint8Array(Math.ceil(length / RECEIVE_BYTES) * RECEIVE_BYTES)
        throw netlinkError('netlink-truncated', `a datagram of ${length} bytes did not fit into ${buffer.length}`)
      }
      return buffer.subarray(0, length)
    }
  }

  onReadable(listener: (() => void) | undefined, background = false): void {
    if (this.#closed) return
    this.#listener = listener
    if (listener === undefined) {
      if (this.#polling) this.#poll?.stop()
      this.#polling = false
      return
    }
    if (this.#poll === undefined) this.#poll = this.#libc.poll(this.fd, this.#onPoll)
    else if (!this.#polling) this.#poll.start(this.#onPoll)
    this.#polling = true
    if (background) this.#poll.unref()
    else this.#poll.ref()
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#listener = undefined
    this.#poll?.close()
    this.#libc.close(this.fd)
  }

  readonly #onPoll = (status: number): void => {
    this.#listener?.()
    if (status < 0 && this.#polling && !this.#closed) {
      this.#poll?.stop()
      this.#poll?.start(this.#onPoll)
    }
  }

  #option(level: number, name: number, value: number): boolean {
    return this.#libc.setsockopt(this.fd, level, name, u32(value), 4) === 0
  }

  /** Classic BPF (linux/filter.h) on the message header; an announcement is one message in one datagram. */
  #attachFilter(portIds: readonly number[]): void {
    const code = ignoreFilter(portIds)
    // struct sock_fprog: unsigned short len; struct sock_filter *filter
    const program = new Uint8Array(16)
    const view = new DataView(program.buffer)
    view.setUint16(0, code.length / 8, true)
    view.setBigUint64(8, this.#libc.addressOf(code), true)
    if (this.#libc.setsockopt(this.fd, SOL_SOCKET, SO_ATTACH_FILTER, program, program.length) < 0)
      throw new KernelError(this.#libc.errno(), 'SO_ATTACH_FILTER')
  }

  #throwIfClosed(): void {
    if (this.#closed) throw netlinkError('netlink-closed', 'the netlink socket is closed')
  }
}

/**
 * A program (array of struct sock_filter) that drops messages with one of these nlmsg_pid and
 * passes all others. BPF loads are big endian while nlmsg_pid is little endian, hence the swapped
 * constants.
 */
export function ignoreFilter(portIds: readonly number[]): Uint8Array {
  const BPF_LD_W_ABS = 0x20
  const BPF_JEQ_K = 0x15
  const BPF_RET_K = 0x06
  const NLMSG_PID_OFFSET = 12
  if (portIds.length > 200)
    throw netlinkError('netlink-unencodable', `${portIds.length} port ids to ignore, at most 200`)
  const code = new Uint8Array(8 * (portIds.length + 3))
  const view = new DataView(code.buffer)
  let at = 0
  const instruction = (operation: number, jumpTrue: number, constant: number): void => {
    view.setUint16(at, operation, true)
    view.setUint8(at + 2, jumpTrue)
    view.setUint32(at + 4, constant, true)
    at += 8
  }
  instruction(BPF_LD_W_ABS, 0, NLMSG_PID_OFFSET)
  portIds.forEach((portId, index) => instruction(BPF_JEQ_K, portIds.length - index, byteSwapped(portId)))
  instruction(BPF_RET_K, 0, 0xffffffff)
  instruction(BPF_RET_K, 0, 0)
  return code
}

function byteSwapped(value: number): number {
  return (((value & 0xff) << 24) | ((value & 0xff00) << 8) | ((value >>> 8) & 0xff00) | (value >>> 24)) >>> 0
}

/** struct sockaddr_nl of the kernel: port id 0, no groups. */
function sockaddr(): Uint8Array<ArrayBuffer> {
  const address = new Uint8Array(SOCKADDR_NL_BYTES)
  address[0] = AF_NETLINK
  return address
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value, true)
  return bytes
}
