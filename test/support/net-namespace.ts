/**
 * Sockets in any network namespace, from this one process: a socket stays in the namespace in which
 * it was made. setns(2) moves the calling thread, so everything done inside a namespace is
 * synchronous; errno is that of the last call.
 */
import { closeSync, openSync } from 'node:fs'
import { getSystemErrorName } from 'node:util'
import koffi from 'koffi'
import { familyOf, readAddress, writeAddress } from '../../src/values/address.ts'
import { FAMILY_NUMBER, PROTOCOL_NUMBER, type IpFamily, type Protocol } from '../../src/values/protocol.ts'

/** The place of a socket: a namespace of `ip netns`, or undefined for this process's own. */
export type Namespace = string | undefined
/** An address and port in a protocol. `ping` has no port. */
export interface Place {
  readonly protocol: Protocol | 'ping'
  readonly address: string
  readonly port: number
}
/** The name of a kernel error: `ECONNREFUSED`. */
export type ErrorName = `E${string}`

/** linux/sched.h, linux/socket.h, asm-generic/socket.h, linux/in.h, linux/in6.h */
const CLONE_NEWNET = 0x40000000
/** umount2(2): hidden at once, unmounted when it is no longer in use. */
const MNT_DETACH = 2
const SOCK_STREAM = 1
const SOCK_DGRAM = 2
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_REUSEADDR = 2
const SO_ERROR = 4
/** Level and name of IP_RECVERR and IPV6_RECVERR. */
const RECVERR = { IPv4: [0, 11], IPv6: [41, 25] } as const
const ON = new Uint8Array([1, 0, 0, 0])
const IPPROTO_ICMP = { IPv4: 1, IPv6: 58 } as const
const EINPROGRESS = 115
const EAGAIN = 11

interface Calls {
  setns(fd: number, kind: number): number
  unshare(flags: number): number
  umount2(target: string, flags: number): number
  mount(source: string, target: string, type: string, flags: number, data: null): number
  socket(family: number, type: number, protocol: number): number
  bind(fd: number, address: Uint8Array, length: number): number
  connect(fd: number, address: Uint8Array, length: number): number
  getsockname(fd: number, address: Uint8Array, length: Uint8Array): number
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array): number
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, length: number): number
  send(fd: number, bytes: Uint8Array, length: number, flags: number): number
  recv(fd: number, into: Uint8Array, length: number, flags: number): number
  close(fd: number): number
}

const library = koffi.load('libc.so.6')
// koffi's functions have no types; the prototypes are beside them.
const c = {
  setns: library.func('int setns(int, int)'),
  unshare: library.func('int unshare(int)'),
  umount2: library.func('int umount2(const char *, int)'),
  mount: library.func('int mount(const char *, const char *, const char *, unsigned long, void *)'),
  socket: library.func('int socket(int, int, int)'),
  bind: library.func('int bind(int, void *, uint32_t)'),
  connect: library.func('int connect(int, void *, uint32_t)'),
  getsockname: library.func('int getsockname(int, void *, void *)'),
  getsockopt: library.func('int getsockopt(int, int, int, void *, void *)'),
  setsockopt: library.func('int setsockopt(int, int, int, void *, uint32_t)'),
  send: library.func('long send(int, void *, size_t, int)'),
  recv: library.func('long recv(int, void *, size_t, int)'),
  close: library.func('int close(int)'),
} as unknown as Calls

const namespaces = new Map<string, number>()
let homeNamespace = openSync('/proc/thread-self/ns/net', 'r')

/**
 * Moves this process's main thread to a new network namespace, in which its later sockets and
 * processes are. Node's other threads stay: they do what is asynchronous about files, so files
 * below /proc/sys/net are read and written by synchronous calls. /sys is mounted again, because it
 * shows the network namespace in which it was mounted.
 */
export function enterNewNamespace(): void {
  check('unshare', c.unshare(CLONE_NEWNET))
  closeSync(homeNamespace)
  homeNamespace = openSync('/proc/thread-self/ns/net', 'r')
  c.umount2('/sys', MNT_DETACH) // fails when it is not mounted
  check('mount of /sys', c.mount('sys', '/sys', 'sysfs', 0, null))
}

/** A network namespace to which this process can return. */
export interface Home {
  /** Moves this process's main thread there, as `enterNewNamespace` does; /sys still shows another one. */
  enter(): void
  /** Ends the namespace, unless something else holds it. */
  leave(): void
}

/** The network namespace in which this process is now. */
export function thisHome(): Home {
  const fd = openSync('/proc/thread-self/ns/net', 'r')
  return {
    enter() {
      check('setns', c.setns(fd, CLONE_NEWNET))
      closeSync(homeNamespace)
      homeNamespace = openSync('/proc/thread-self/ns/net', 'r')
    },
    leave() {
      closeSync(fd)
    },
  }
}

/** Calls `act` inside a namespace; its processes and sockets are in that namespace. */
export function inside<T>(namespace: Namespace, act: () => T): T {
  if (namespace === undefined) return act()
  const fd = namespaces.get(namespace) ?? openSync(`/run/netns/${namespace}`, 'r')
  namespaces.set(namespace, fd)
  check('setns', c.setns(fd, CLONE_NEWNET))
  try {
    return act()
  } finally {
    check('setns', c.setns(homeNamespace, CLONE_NEWNET))
  }
}

/** Closes a namespace before it is deleted. */
export function leave(namespace: string): void {
  const fd = namespaces.get(namespace)
  if (fd !== undefined) closeSync(fd)
  namespaces.delete(namespace)
}

/** A socket that is connected or connecting, or the error. */
export function openSocket(namespace: Namespace, to: Place, address: string, port: number): number | ErrorName {
  const fd = newSocket(namespace, to)
  const [level, name] = RECVERR[familyOf(to.address)]
  // Otherwise SCTP does not end at a refusal by ICMP.
  if (to.protocol === 'sctp') check('setsockopt', c.setsockopt(fd, level, name, ON, ON.length))
  const local = socketAddress(to.protocol === 'sctp' ? oneAddress(namespace, to, address) : address, port)
  const remote = socketAddress(to.address, to.port)
  const result = c.bind(fd, local, local.length) || c.connect(fd, remote, remote.length)
  const error = result === 0 ? 0 : koffi.errno()
  if (error === 0 || error === EINPROGRESS) return fd
  c.close(fd)
  return nameOf(error)
}

/**
 * The address itself, or for 0.0.0.0 and :: the one that the kernel chooses. A socket of SCTP at all
 * addresses names each of them to its peer, which then sends to each, virtual IPs included: the
 * refusal of one would end the connection, and another would take the place of its flow in conntrack.
 */
function oneAddress(namespace: Namespace, to: Place, address: string): string {
  if (address !== '0.0.0.0' && address !== '::') return address
  const fd = newSocket(namespace, { ...to, protocol: 'udp' })
  const remote = socketAddress(to.address, to.port)
  const [chosen = address] = c.connect(fd, remote, remote.length) === 0 ? localOf(fd, familyOf(address)).split(' ') : []
  c.close(fd)
  return chosen
}

/** A bound socket, ready for `listen` or `recv`. */
export function boundSocket(namespace: Namespace, at: Place): number {
  const fd = newSocket(namespace, at)
  check('setsockopt', c.setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, ON, ON.length))
  const local = socketAddress(at.address, at.port)
  check(`bind to ${at.address}:${at.port}`, c.bind(fd, local, local.length))
  return fd
}

function newSocket(namespace: Namespace, { protocol, address }: Place): number {
  const family = familyOf(address)
  const type = protocol === 'udp' || protocol === 'ping' ? SOCK_DGRAM : SOCK_STREAM
  const number = protocol === 'ping' ? IPPROTO_ICMP[family] : PROTOCOL_NUMBER[protocol]
  return inside(namespace, () => {
    const fd = c.socket(FAMILY_NUMBER[family], type | SOCK_NONBLOCK | SOCK_CLOEXEC, number)
    return fd >= 0 ? fd : check(`socket of ${protocol}`, fd)
  })
}

/** Why a connect failed; undefined when it did not. */
export function connectError(fd: number): ErrorName | undefined {
  const error = new Uint8Array(4)
  check('getsockopt', c.getsockopt(fd, SOL_SOCKET, SO_ERROR, error, new Uint8Array([4, 0, 0, 0])))
  const errno = new DataView(error.buffer).getInt32(0, true)
  return errno === 0 ? undefined : nameOf(errno)
}

export function send(fd: number, bytes: Uint8Array): ErrorName | undefined {
  return c.send(fd, bytes, bytes.length, 0) < 0 ? nameOf(koffi.errno()) : undefined
}

/** The data that has arrived; undefined without any. */
export function receive(fd: number): Uint8Array | ErrorName | undefined {
  const into = new Uint8Array(2000)
  const length = c.recv(fd, into, into.length, 0)
  if (length >= 0) return into.subarray(0, length)
  return koffi.errno() === EAGAIN ? undefined : nameOf(koffi.errno())
}

export const closeSocket = (fd: number): number => c.close(fd)

/**
 * Calls `look` whenever the socket is ready until it returns a result; undefined after the time
 * limit. Data that has arrived by then counts even if the event loop was blocked: sockets are
 * checked once more after the timer.
 */
export function watch<T>(
  fd: number,
  events: { readonly readable?: boolean; readonly writable?: boolean },
  withinMs: number,
  look: () => T | undefined,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    let isOver = false
    const end = (result: T | undefined): void => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      handle.stop()
      handle.close()
      resolve(result)
    }
    const timer = setTimeout(() => setImmediate(end, undefined), withinMs)
    const onEvent = (): void => {
      const result = look()
      if (result !== undefined) return end(result)
      handle.stop() // libuv stops to watch after an error
      handle.start(events, onEvent)
    }
    const handle = koffi.node.poll(fd, events, onEvent)
  })
}

/** `ADDRESS PORT` at this end. */
export function localOf(fd: number, family: IpFamily): string {
  const name = new Uint8Array(28)
  check('getsockname', c.getsockname(fd, name, new Uint8Array([28, 0, 0, 0])))
  return `${readAddress(name, family === 'IPv4' ? 4 : 8, family)} ${new DataView(name.buffer).getUint16(2)}`
}

/** struct sockaddr_in and sockaddr_in6 */
function socketAddress(address: string, port: number): Uint8Array {
  const family = familyOf(address)
  const bytes = new Uint8Array(family === 'IPv4' ? 16 : 28)
  const view = new DataView(bytes.buffer)
  view.setUint16(0, FAMILY_NUMBER[family], true)
  view.setUint16(2, port)
  writeAddress(address, bytes, family === 'IPv4' ? 4 : 8)
  return bytes
}

/** `ECONNREFUSED` */
const nameOf = (errno: number): ErrorName => getSystemErrorName(-errno) as ErrorName // names of errors start with E

function check(what: string, result: number): number {
  if (result < 0) throw new Error(`${what} failed: ${nameOf(koffi.errno())}`)
  return result
}
