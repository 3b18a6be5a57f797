/**
 * Sees from outside, in the same kernel, whether a table is complete, with next to no load: it looks at a few keys
 * until those are there, then at everything, and so on with what was missing.
 * What could break: only IPv4 and TCP, which is what the bench's API server makes.
 */
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openNetlinkConnection, openRtnetlink } from '../../native/open.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'

import { monotonicMs } from './clock.ts'

/** A virtual server that shall be there with exactly these real servers that take new connections. */
export interface Expected {
  readonly address: string
  readonly port: number
  /** `10.244.0.1:8080` */
  readonly realServers: ReadonlySet<string>
}

/** Keys looked at in one round before everything is. */
const SAMPLES = 48
/** Between two looks: at least this, and ten times what a look takes, so that looking costs less than 10 % of a core. */
const SHORTEST_PAUSE_MS = 2
const PAUSE_FACTOR = 10

export class KernelView {
  readonly #ipvs: IpvsConnection
  readonly #rtnetlink = openRtnetlink()

  static async open(): Promise<KernelView> {
    return new KernelView(await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC)))
  }

  private constructor(ipvs: IpvsConnection) {
    this.#ipvs = ipvs
  }

  close(): void {
    this.#ipvs.close()
    this.#rtnetlink.close()
  }

  /** Real servers of a virtual server that take new connections; empty, too, when it is not there. */
  async realServers({ address, port }: Pick<Expected, 'address' | 'port'>): Promise<Set<string>> {
    const destinations = await this.#ipvs.listDestinations({ family: 'IPv4', address, port, protocol: 'tcp' })
    return new Set(
      destinations
        .filter(({ realServer }) => realServer.weight > 0)
        .map(({ realServer }) => `${realServer.address}:${realServer.port}`),
    )
  }

  /**
   * Resolves to the time (monotonicMs) at which everything expected was there, or undefined when it was not by
   * `deadlineMs`. The time is that of the last look that had been waited for: keys that are found at once after it count
   * as having been there.
   */
  async whenComplete(all: readonly Expected[], deadlineMs: number, alive: () => boolean): Promise<number | undefined> {
    let missing = all
    for (;;) {
      // The last first: most programs come to it last, and then the others need no waiting.
      const pending = sample(missing, SAMPLES)
      let atMs = monotonicMs()
      let waited = false
      for (let expected = pending.at(-1); expected !== undefined; expected = pending.at(-1)) {
        const lookedMs = monotonicMs()
        if (await this.#isThere(expected)) {
          pending.pop()
          if (waited) atMs = lookedMs
          waited = false
          continue
        }
        if (monotonicMs() > deadlineMs || !alive()) return undefined
        waited = true
        await sleep(Math.max(SHORTEST_PAUSE_MS, (monotonicMs() - lookedMs) * PAUSE_FACTOR))
      }
      missing = await this.#missing(all)
      if (missing.length === 0) return atMs
    }
  }

  async #isThere(expected: Expected): Promise<boolean> {
    return sameSet(await this.realServers(expected), expected.realServers) && (await isBound(expected.address))
  }

  /** Resolves to the time at which the added real server took connections, or undefined. Looks as often as it can. */
  async whenAdded(
    change: { readonly expected: readonly Expected[]; readonly added: string },
    deadlineMs: number,
  ): Promise<number | undefined> {
    const [virtualServer] = change.expected
    if (virtualServer === undefined) return undefined
    for (;;) {
      if ((await this.realServers(virtualServer)).has(change.added)) return monotonicMs()
      if (monotonicMs() > deadlineMs) return undefined
      pause(POLL_MS)
    }
  }

  async #missing(all: readonly Expected[]): Promise<Expected[]> {
    const addresses = new Set((await this.#rtnetlink.listAddresses()).map(({ address }) => address))
    const table = parseTable(readFileSync('/proc/net/ip_vs', 'latin1'))
    return all.filter(({ address, port, realServers }) => {
      const there = table.get(`${hexAddress(address)}:${hexPort(port)}`)
      if (there === undefined || !addresses.has(address) || there.size !== realServers.size) return true
      for (const server of realServers) {
        const [host = '', serverPort] = server.split(':')
        if (!there.has(`${hexAddress(host)}:${hexPort(Number(serverPort))}`)) return true
      }
      return false
    })
  }
}

/** Between two looks at the one key that is about to change. */
const POLL_MS = 0.2
const pauseCell = new Int32Array(new SharedArrayBuffer(4))
/** A timer of node waits at least a whole millisecond; nothing else runs in this process meanwhile. */
function pause(ms: number): void {
  Atomics.wait(pauseCell, 0, 0, ms)
}

/** Real servers with a weight by virtual server, both as the kernel prints them (`0A600001:0050`). */
export function parseTable(text: string): Map<string, Set<string>> {
  const table = new Map<string, Set<string>>()
  let current: Set<string> | undefined
  for (const line of text.split('\n')) {
    const [first, key = '', , weight] = line.trim().split(/\s+/)
    if (first === '->') {
      if (Number(weight) > 0) current?.add(key)
    } else {
      current = first === 'TCP' ? new Set() : undefined
      if (current !== undefined) table.set(key, current)
    }
  }
  return table
}

const hexPort = (port: number): string => port.toString(16).toUpperCase().padStart(4, '0')
const hexAddress = (address: string): string =>
  address
    .split('.')
    .map((part) => Number(part).toString(16).toUpperCase().padStart(2, '0'))
    .join('')

const sameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  a.size === b.size && [...a].every((item) => b.has(item))

/** Up to `count` items evenly over the list, the last one among them. */
export function sample<T>(items: readonly T[], count: number): T[] {
  if (items.length <= count) return [...items]
  const step = items.length / count
  return Array.from(
    { length: count },
    (_, index) => items[Math.min(items.length - 1, Math.ceil((index + 1) * step) - 1)],
  ).filter((item) => item !== undefined)
}

/** Whether this machine has the address: only then can a socket be bound to it. */
function isBound(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4')
    socket.once('error', () => {
      socket.close()
      resolve(false)
    })
    socket.bind({ port: 0, address, exclusive: true }, () => {
      socket.close()
      resolve(true)
    })
  })
}
