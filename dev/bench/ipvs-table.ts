/**
 * Reads what ipvs mode writes: virtual servers with their real servers, and the virtual IPs, as
 * addresses of the node or as local routes.
 */
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { openNetlinkConnection, openRtnetlink } from '../../native/open.ts'
import { liveRoutes } from '../../src/ipvs/route-diff.ts'
import { listOwnRoutes } from '../../src/ipvs/routes.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import { type Expected, sameSet, SERVICE_PORT, type SeenTable } from './table-view.ts'

/** How long the kernel may take to list all routes. */
const ROUTES_MS = 30_000

export class IpvsTable implements SeenTable {
  readonly #ipvs: IpvsConnection
  readonly #rtnetlink = openRtnetlink()

  static async open(): Promise<IpvsTable> {
    return new IpvsTable(await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC)))
  }

  private constructor(ipvs: IpvsConnection) {
    this.#ipvs = ipvs
  }

  close(): void {
    this.#ipvs.close()
    this.#rtnetlink.close()
  }

  async isThere(expected: Expected): Promise<boolean> {
    return sameSet(await this.#realServers(expected), expected.endpoints) && (await isBound(expected.address))
  }

  async hasEndpoint(expected: Expected, endpoint: string): Promise<boolean> {
    return (await this.#realServers(expected)).has(endpoint)
  }

  async missing(all: readonly Expected[]): Promise<Expected[]> {
    const signal = AbortSignal.timeout(ROUTES_MS)
    const routes = liveRoutes(await listOwnRoutes(this.#rtnetlink, ['IPv4'], { signal }))
    const table = parseTable(readFileSync('/proc/net/ip_vs', 'latin1'))
    const incomplete = all.filter(({ address, endpoints }) => {
      const there = table.get(`${hexAddress(address)}:${hexPort(SERVICE_PORT)}`)
      if (there === undefined || there.size !== endpoints.size) return true
      for (const endpoint of endpoints) {
        const [host = '', port] = endpoint.split(':')
        if (!there.has(`${hexAddress(host)}:${hexPort(Number(port))}`)) return true
      }
      return false
    })
    if (incomplete.length > 0) return incomplete
    // One at a time: no list of all addresses can be read to its end while a program adds them.
    for (const expected of all)
      if (!routes.has(expected.address) && !(await isBound(expected.address))) return [expected]
    return []
  }

  /** Real servers that accept new connections; also empty when the virtual server does not exist. */
  async #realServers({ address }: Expected): Promise<Set<string>> {
    const destinations = await this.#ipvs.listDestinations({
      family: 'IPv4',
      address,
      port: SERVICE_PORT,
      protocol: 'tcp',
    })
    return new Set(
      destinations
        .filter(({ realServer }) => realServer.weight > 0)
        .map(({ realServer }) => `${realServer.address}:${realServer.port}`),
    )
  }
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
