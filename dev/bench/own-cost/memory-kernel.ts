/**
 * The package koffi as `npm run bench -- --own-cost` gives it to the program: netlink sockets in this process that acknowledge every
 * message and answer every list as empty, so that only the program's own work is left. It writes what the process has used by
 * then into the file that KUBE_IPVS_OWN_COST names, once nothing was written for a while.
 */
import { writeFileSync } from 'node:fs'
import { PerformanceObserver } from 'node:perf_hooks'
import { openWriteLog } from '../writes/write-log.ts'
import { answerTo, type Counts, NETLINK_GENERIC, noCounts } from './answers.ts'

/** What the process has used since its start. */
export interface Mark {
  /** User and system time of all threads, without children. */
  readonly cpuMs: number
  /** The part of it that the kernel used: page faults, the socket to the API server, starts of processes. */
  readonly systemMs: number
  readonly minorFaults: number
}

/** The file. */
export interface OwnCost {
  /** Node has started and has loaded the program, and the program opens its first socket. */
  readonly firstContact: Mark
  /** Just before the first virtual server of a Service is written: the lists are there and their frontends are made. */
  readonly firstWrite: Mark
  /** After the last message. */
  readonly lastWrite: Mark
  /** After the collections that follow the first pass. */
  readonly settled: Mark
  readonly counts: Counts
  readonly collections: number
  /** Real time: longer on a busy machine. */
  readonly collectionMs: number
  readonly peakRssMiB: number
  readonly rssMiB: number
}

/** The program collects its garbage until five seconds after the first pass (src/daemon/process.ts). */
const QUIET_MS = 6_000
const CHECK_MS = 100
/** errno of asm-generic/errno-base.h. */
const EAGAIN = 11
const MIB = 1024 * 1024

const log = openWriteLog()
const sockets = new Map<number, { readonly protocol: number; readonly datagrams: Uint8Array[] }>()
const counts = noCounts()
const collected = { count: 0, ms: 0 }
let nextDescriptor = 1_000
let firstContact: Mark | undefined
let firstWrite: Mark | undefined
let lastWrite: Mark | undefined
let lastWriteAtMs = 0

function mark(): Mark {
  const { userCPUTime, systemCPUTime, minorPageFault } = process.resourceUsage()
  return {
    cpuMs: (userCPUTime + systemCPUTime) / 1000,
    systemMs: systemCPUTime / 1000,
    minorFaults: minorPageFault,
  }
}

function watch(file: string): void {
  firstContact = mark()
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
      collected.count++
      collected.ms += duration
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  const timer = setInterval(() => {
    if (firstWrite === undefined) return
    // Read late, but nothing else runs between the last message and the next check of an idle process.
    if (performance.now() - lastWriteAtMs < QUIET_MS) return
    clearInterval(timer)
    write(file)
  }, CHECK_MS)
  timer.unref()
}

function write(file: string): void {
  if (firstContact === undefined || firstWrite === undefined || lastWrite === undefined) return
  const { maxRSS } = process.resourceUsage()
  const cost: OwnCost = {
    firstContact,
    firstWrite,
    lastWrite,
    settled: mark(),
    counts,
    collections: collected.count,
    collectionMs: collected.ms,
    peakRssMiB: maxRSS / 1024,
    rssMiB: process.memoryUsage.rss() / MIB,
  }
  writeFileSync(file, JSON.stringify(cost))
}

function socket(_family: number, _type: number, protocol: number): number {
  const descriptor = nextDescriptor++
  sockets.set(descriptor, { protocol, datagrams: [] })
  return descriptor
}

function sendto(descriptor: number, bytes: Uint8Array, length: number): number {
  const there = sockets.get(descriptor)
  if (there === undefined) return -1
  const before = counts.destinations
  const beforeWrite = firstWrite === undefined ? mark() : undefined
  counts.datagrams++
  answerTo(there.protocol, bytes.subarray(0, length), there.datagrams, counts)
  if (there.protocol === NETLINK_GENERIC) log?.add(bytes.subarray(0, length), Number(process.hrtime.bigint()) / 1e6)
  if (counts.destinations > before) firstWrite ??= beforeWrite
  if (firstWrite !== undefined) {
    lastWriteAtMs = performance.now()
    lastWrite = mark()
  }
  return length
}

/** The sender is the kernel: port id 0, as the caller has filled in. */
function recvfrom(descriptor: number, into: Uint8Array): number {
  const datagram = sockets.get(descriptor)?.datagrams.shift()
  if (datagram === undefined) return -1
  into.set(datagram)
  return datagram.length
}

function getsockname(descriptor: number, address: Uint8Array): number {
  new DataView(address.buffer, address.byteOffset).setUint32(4, descriptor, true)
  return 0
}

function close(descriptor: number): number {
  sockets.delete(descriptor)
  return 0
}

/** By the name in the C prototype. All others succeed and do nothing. */
const CALLS: Readonly<Record<string, unknown>> = { socket, sendto, recvfrom, getsockname, close }

/** Keeps the process alive like a descriptor that is polled; nothing ever arrives later than its request. */
function poll(): object {
  const timer = setInterval(() => undefined, 0x7fffffff)
  const nothing = (): void => undefined
  return {
    start: nothing,
    stop: nothing,
    close: () => clearInterval(timer),
    ref: () => timer.ref(),
    unref: () => timer.unref(),
  }
}

export const node = { poll }
export const errno = (): number => EAGAIN
export const address = (): bigint => 0n
export function load(): object {
  if (firstContact === undefined) watch(process.env['KUBE_IPVS_OWN_COST'] ?? '/dev/null')
  return { func: (prototype: string) => CALLS[/ (\w+)\(/.exec(prototype)?.[1] ?? ''] ?? ((): number => 0) }
}
