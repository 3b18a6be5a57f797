/**
 * The package koffi as `npm run bench -- --burst-with-probe` gives it to the program: the real one, which also keeps the log of writes. The
 * kernel runs a datagram of IPVS inside `sendto`, so the time after that call is when the kernel had what it says.
 */
import { createRequire } from 'node:module'
import { openWriteLog } from './write-log.ts'

/** The path of the real package, which the bundler fills in. */
declare const REAL_KOFFI: string

type Koffi = typeof import('koffi')
type Sendto = (descriptor: number, bytes: Uint8Array, length: number, ...rest: readonly unknown[]) => number

/** linux/netlink.h */
const NETLINK_GENERIC = 16

const real: Koffi = createRequire(__filename)(REAL_KOFFI)
const log = openWriteLog()
/** The sockets of NETLINK_GENERIC. */
const generic = new Set<number>()

const WRAPPERS: Readonly<Record<string, (call: never) => unknown>> = {
  socket:
    (call: (family: number, type: number, protocol: number) => number) =>
    (family: number, type: number, protocol: number): number => {
      const descriptor = call(family, type, protocol)
      if (protocol === NETLINK_GENERIC) generic.add(descriptor)
      return descriptor
    },
  sendto:
    (call: Sendto): Sendto =>
    (descriptor, bytes, length, ...rest) => {
      const sent = call(descriptor, bytes, length, ...rest)
      // errno must be read directly after a call that failed.
      if (sent > 0 && generic.has(descriptor))
        log?.add(bytes.subarray(0, length), Number(process.hrtime.bigint()) / 1e6)
      return sent
    },
  close:
    (call: (descriptor: number) => number) =>
    (descriptor: number): number => {
      generic.delete(descriptor)
      return call(descriptor)
    },
}

export const { node, errno, address } = real
export function load(path: string | null): object {
  const library = real.load(path)
  return {
    func: (prototype: string): unknown => {
      const call = library.func(prototype)
      return WRAPPERS[/ (\w+)\(/.exec(prototype)?.[1] ?? '']?.(call as never) ?? call
    },
  }
}
