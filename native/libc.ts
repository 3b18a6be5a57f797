/**
 * The C library through koffi, bound when the first call needs it. Only this folder calls it,
 * because Node has no such calls. `errno()` is the thread's errno at the moment of the call, which
 * koffi does not save, so it must follow directly after the call that failed. If the engine makes a
 * failing call in between, the error has a wrong name. This does no harm: what was sent counts as
 * failed and is read again, as after any other error.
 */
import { createRequire } from 'node:module'
import { endianness } from 'node:os'
import { netlinkError } from '../src/netlink/errors.ts'
import { errorText } from '../src/values/errors.ts'

/** Watches a descriptor; a status below 0 means that libuv has stopped watching it. */
export interface PollHandle {
  start(callback: (status: number) => void): void
  stop(): void
  close(): void
  ref(): void
  unref(): void
}

/** The socket calls in use. All return -1 and set errno on failure. */
export interface Libc {
  socket(family: number, type: number, protocol: number): number
  bind(fd: number, address: Uint8Array, length: number): number
  getsockname(fd: number, address: Uint8Array, length: Uint8Array): number
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, length: number): number
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array): number
  sendto(
    fd: number,
    bytes: Uint8Array,
    length: number,
    flags: number,
    address: Uint8Array,
    addressLength: number,
  ): number
  recvfrom(
    fd: number,
    into: Uint8Array,
    length: number,
    flags: number,
    address: Uint8Array,
    addressLength: Uint8Array,
  ): number
  ioctl(fd: number, request: number, argument: Uint8Array): number
  close(fd: number): number
  errno(): number
  /** The address of the bytes in memory, for structures with a pointer. */
  addressOf(bytes: Uint8Array): bigint
  poll(fd: number, callback: (status: number) => void): PollHandle
}

let bound: Libc | undefined

/** The C library. Throws `native-unavailable`, which names what is missing. */
export function libc(): Libc {
  bound ??= bind()
  return bound
}

function bind(): Libc {
  if (process.platform !== 'linux')
    throw netlinkError('native-unavailable', `netlink needs Linux, this is ${process.platform}`)
  if (endianness() !== 'LE')
    throw netlinkError(
      'native-unavailable',
      `netlink messages are written for little-endian machines only, not for ${process.arch}`,
    )
  const koffi = loadKoffi()
  const library = loadLibrary(koffi)
  try {
    return {
      socket: library.func('int socket(int, int, int)'),
      bind: library.func('int bind(int, void *, uint32_t)'),
      getsockname: library.func('int getsockname(int, void *, void *)'),
      setsockopt: library.func('int setsockopt(int, int, int, void *, uint32_t)'),
      getsockopt: library.func('int getsockopt(int, int, int, void *, void *)'),
      // koffi has no ssize_t; on every Linux it is a long.
      sendto: library.func('long sendto(int, void *, size_t, int, void *, uint32_t)'),
      recvfrom: library.func('long recvfrom(int, void *, size_t, int, void *, void *)'),
      ioctl: library.func('int ioctl(int, unsigned long, void *)'),
      close: library.func('int close(int)'),
      errno: () => koffi.errno(),
      addressOf: (bytes) => koffi.address(bytes),
      // koffi declares the callback as (events), but calls it with (status, events).
      poll: (fd, callback) => koffi.node.poll(fd, callback as unknown as () => void) as unknown as PollHandle,
    }
  } catch (cause) {
    throw netlinkError('native-unavailable', `the C library lacks a socket call: ${errorText(cause)}`, { cause })
  }
}

function loadKoffi(): typeof import('koffi') {
  try {
    return createRequire(import.meta.url)('koffi')
  } catch (cause) {
    throw netlinkError(
      'native-unavailable',
      `the npm package koffi cannot be loaded (its binary is an optional dependency): ${errorText(cause)}`,
      { cause },
    )
  }
}

/** The C library, for calls that are not of sockets. Throws `native-unavailable`. */
export function loadLibrary(koffi = loadKoffi()): ReturnType<typeof koffi.load> {
  try {
    return koffi.load('libc.so.6')
  } catch {
    // musl has no such file, but the program itself has the C library's symbols.
    try {
      return koffi.load(null)
    } catch (cause) {
      throw netlinkError('native-unavailable', `the C library cannot be loaded: ${errorText(cause)}`, { cause })
    }
  }
}
