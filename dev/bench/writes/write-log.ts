/**
 * When the program added or removed which real server, and when it removed which virtual server: read from its messages of IPVS once the
 * kernel has run them. Only IPv4, as the API server of the bench makes. A package koffi that the bench gives to the program keeps this log.
 */
import { writeFileSync } from 'node:fs'
import { attributesOf, IPVS_ATTRIBUTE, IPVS_COMMAND } from './ipvs-message.ts'

/** A real server that was added or removed; with `realServer` 0 a virtual server that was removed. Addresses as numbers, the time on CLOCK_MONOTONIC. */
export interface LoggedWrite {
  readonly virtualServer: number
  readonly realServer: number
  readonly atMs: number
  readonly isRemoval: boolean
}

/** The file that a program with such a koffi writes at each even SIGUSR2: what was written since the signal before. */
export const WRITE_LOG_VARIABLE = 'KUBE_IPVS_WRITE_LOG'
/** linux/genetlink.h: the messages that only look up a family. The program uses no other family than that of IPVS. */
const GENL_ID_CTRL = 0x10
/** Entries between two signals. */
const MOST_ENTRIES = 200_000
/** Bytes of struct nlmsghdr and struct genlmsghdr. */
const HEADER_BYTES = 16
const GENERIC_HEADER_BYTES = 4
const FIELDS = 4
const LOGGED: readonly number[] = [IPVS_COMMAND.newDestination, IPVS_COMMAND.delDestination, IPVS_COMMAND.delService]

/** Entries that were written in one datagram have one time, that of its end. */
export class WriteLog {
  readonly #entries: Float64Array
  #length = 0
  #isWatched = true

  /** @param limit further entries are not kept */
  constructor(limit: number) {
    this.#entries = new Float64Array(limit * FIELDS)
  }

  /** A datagram of NETLINK_GENERIC that the kernel has run by `atMs`. */
  add(bytes: Uint8Array, atMs: number): void {
    if (!this.#isWatched) return
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    for (let at = 0; at + HEADER_BYTES <= bytes.length; ) {
      const length = view.getUint32(at, true)
      if (view.getUint16(at + 4, true) > GENL_ID_CTRL)
        this.#message(bytes.subarray(at + HEADER_BYTES, at + length), atMs)
      at += (length + 3) & ~3
    }
  }

  /** Keeps entries only from each odd SIGUSR2 to the next, as the program's probe watches (src/modes/bench-probe.ts), which then writes `file`. */
  followSignals(file: string): void {
    this.#isWatched = false
    process.on('SIGUSR2', () => {
      if (this.#isWatched) writeFileSync(file, JSON.stringify(this.take()))
      this.#isWatched = !this.#isWatched
    })
  }

  /** The entries since the last call, in their order. */
  take(): LoggedWrite[] {
    const all: LoggedWrite[] = []
    for (let at = 0; at < this.#length; at += FIELDS) {
      const [virtualServer = 0, realServer = 0, atMs = 0, command] = this.#entries.subarray(at, at + FIELDS)
      all.push({ virtualServer, realServer, atMs, isRemoval: command !== IPVS_COMMAND.newDestination })
    }
    this.#length = 0
    return all
  }

  /** @param payload struct genlmsghdr and its attributes */
  #message(payload: Uint8Array, atMs: number): void {
    const [command = 0] = payload
    if (!LOGGED.includes(command)) return
    if (this.#length + FIELDS > this.#entries.length) return
    let [virtualServer, realServer] = [0, 0]
    for (const [type, from, to] of attributesOf(payload, GENERIC_HEADER_BYTES, payload.length)) {
      const value = payload.subarray(from, to)
      if (type === IPVS_ATTRIBUTE.service) virtualServer = addressIn(value, IPVS_ATTRIBUTE.serviceAddress)
      else if (type === IPVS_ATTRIBUTE.destination) realServer = addressIn(value, IPVS_ATTRIBUTE.address)
    }
    this.#entries.set([virtualServer, realServer, atMs, command], this.#length)
    this.#length += FIELDS
  }
}

/** An address has 16 bytes, of which IPv4 uses the first four. */
function addressIn(bytes: Uint8Array, type: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (const [found, from] of attributesOf(bytes, 0, bytes.length))
    if (found === type) return view.getUint32(from, false)
  return 0
}

/** The log that the environment asks for; undefined: none. */
export function openWriteLog(): WriteLog | undefined {
  const file = process.env[WRITE_LOG_VARIABLE]
  if (file === undefined) return undefined
  const log = new WriteLog(MOST_ENTRIES)
  log.followSignals(file)
  return log
}
