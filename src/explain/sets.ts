/**
 * Sets of addresses and ports, and how a rule finds a packet in one. The kernel's types look at
 * other parts of a packet: `hash:ip,port` at the protocol too, and `bitmap:port` at the ports of
 * TCP and UDP only (ip_set_bitmap_port.c).
 */
import type { SetType } from '../ipset/catalogue.ts'
import type { SetEntry } from '../ipset/types.ts'
import { type Cidr, contains, parseCidr } from '../values/cidr.ts'
import type { PacketProtocol } from './types.ts'

/** What a set looks at in a packet, for each of the words `src` and `dst` of a rule. */
export interface SetQuestion {
  readonly source: string
  readonly destination: string
  readonly protocol: PacketProtocol
  /** undefined: the client's, which is one of many that no entry names. */
  readonly sourcePort: number | undefined
  readonly port: number | undefined
}

export class PacketSet {
  readonly type: SetType
  readonly #entries = new Set<string>()
  /** Of hash:ip,port,net: the networks by the part before them, those with the longest prefix first. */
  readonly #networks = new Map<string, { readonly cidr: Cidr; readonly entry: string; readonly noMatch: boolean }[]>()

  constructor(type: SetType, entries: Iterable<Pick<SetEntry, 'entry' | 'noMatch'>>) {
    this.type = type
    for (const { entry, noMatch = false } of entries) {
      if (type !== 'hash:ip,port,net') this.#entries.add(entry)
      else this.#addNetwork(entry, noMatch)
    }
    for (const networks of this.#networks.values())
      networks.sort((a, b) => b.cidr.prefixLength - a.cidr.prefixLength || (a.entry < b.entry ? -1 : 1))
  }

  #addNetwork(entry: string, noMatch: boolean): void {
    const comma = entry.lastIndexOf(',')
    const [before, text] = [entry.slice(0, comma), entry.slice(comma + 1)]
    const cidr = parseCidr(text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`)
    if (cidr === undefined) return
    const networks = this.#networks.get(before)
    if (networks === undefined) this.#networks.set(before, [{ cidr, entry, noMatch }])
    else networks.push({ cidr, entry, noMatch })
  }

  /** The entry that matches; undefined when none does. @param directions of `--match-set`: `src`, `dst,dst,src` */
  find(directions: string, question: SetQuestion): string | undefined {
    const words = directions.split(',')
    const address = (at: number): string => (words[at] === 'src' ? question.source : question.destination)
    if (this.type === 'hash:ip') return this.#find(address(0))
    const port = portOf(words[this.type === 'bitmap:port' ? 0 : 1] ?? '', question)
    if (port === undefined) return undefined
    switch (this.type) {
      case 'bitmap:port':
        return question.protocol === 'tcp' || question.protocol === 'udp' ? this.#find(String(port)) : undefined
      case 'hash:ip,port':
        return this.#find(`${address(0)},${portText(question, port)}`)
      case 'hash:ip,port,ip':
        return this.#find(`${address(0)},${portText(question, port)},${address(2)}`)
      case 'hash:ip,port,net': {
        const networks = this.#networks.get(`${address(0)},${portText(question, port)}`)
        const found = networks?.find(({ cidr }) => contains(cidr, address(2)))
        return found === undefined || found.noMatch ? undefined : found.entry
      }
    }
  }

  #find(entry: string): string | undefined {
    return this.#entries.has(entry) ? entry : undefined
  }
}

function portOf(direction: string, { sourcePort, port, protocol }: SetQuestion): number | undefined {
  // The port of ICMP is its type and code in either direction.
  if (protocol === 'icmp') return 0
  return direction === 'src' ? sourcePort : port
}

/** `tcp:443`; for an echo request its type and code. */
function portText({ protocol, destination }: SetQuestion, port: number): string {
  if (protocol !== 'icmp') return `${protocol}:${port}`
  return destination.includes(':') ? 'icmpv6:128/0' : 'icmp:8/0'
}
