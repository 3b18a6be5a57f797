/**
 * Ports, flags and types of packets, compared as rules do. A client's port is unknown: it is one of
 * those that the kernel hands out, and none that a rule names alone.
 */
import type { RuleOption } from '../iptables/rule-parts.ts'
import { FALSE, type Judgement, TRUE, unknown } from './judgement.ts'
import type { PacketState } from './state.ts'

/** net/ipv4/ip_local_port_range as the kernel sets it. */
const CLIENT_PORTS = { first: 32_768, last: 60_999 } as const
const LAST_PORT = 65_535

/** `80`, `80:90`, `:1023`, `1024:`; undefined when it is no range. */
function rangeOf(text: string): { readonly first: number; readonly last: number } | undefined {
  const found = /^(\d*)(:?)(\d*)$/.exec(text)
  if (found === null || text === '' || text === ':') return undefined
  const [, first = '', colon, last = ''] = found
  if (colon === '') return { first: Number(first), last: Number(first) }
  return { first: first === '' ? 0 : Number(first), last: last === '' ? LAST_PORT : Number(last) }
}

/** Whether the port is in a list of ranges, `80,443,8000:8080`; undefined when that is not known. */
function isAmong(port: number | undefined, list: string): boolean | undefined {
  let isOpen = false
  for (const text of list.split(',')) {
    const range = rangeOf(text)
    if (range === undefined) return undefined
    if (port !== undefined) {
      if (port >= range.first && port <= range.last) return true
    } else if (range.first <= CLIENT_PORTS.first && range.last >= CLIENT_PORTS.last) return true
    else if (range.first < range.last && range.first <= CLIENT_PORTS.last && range.last >= CLIENT_PORTS.first)
      isOpen = true
  }
  return isOpen ? undefined : false
}

export function isPort(port: number | undefined, list: string, { negated, name }: RuleOption): Judgement {
  const found = isAmong(port, list)
  if (found === undefined) return unknown(`${name} ${list}`)
  return found === negated ? FALSE : TRUE
}

/** Whether one of the ports is in the list. */
export function isPortOf(
  ports: readonly (number | undefined)[],
  list: string,
  { negated, name }: RuleOption,
): Judgement {
  const found = ports.map((port) => isAmong(port, list))
  if (!found.includes(true) && found.includes(undefined)) return unknown(`${name} ${list}`)
  return found.includes(true) === negated ? FALSE : TRUE
}

/** The flags of the packet that begins a connection, and of its answer. */
const FLAGS = { NEW: ['SYN'], ESTABLISHED: ['SYN', 'ACK'] } as const
const ALL_FLAGS = ['FIN', 'SYN', 'RST', 'PSH', 'ACK', 'URG']

/** --tcp-flags: of the flags in `mask`, exactly those in `set`. Both may be ALL or NONE. */
export function isFlagged(connection: PacketState['connection'], mask: string, set: string): boolean {
  const flags: readonly string[] = FLAGS[connection]
  const [examined, wanted] = [flagsOf(mask), flagsOf(set)]
  return examined.every((flag) => flags.includes(flag) === wanted.includes(flag))
}

function flagsOf(list: string): readonly string[] {
  if (list === 'ALL') return ALL_FLAGS
  return list === 'NONE' ? [] : list.split(',')
}

/** Types of an echo request and its answer. */
const ECHO = { IPv4: { NEW: 8, ESTABLISHED: 0 }, IPv6: { NEW: 128, ESTABLISHED: 129 } } as const

/** --icmp-type: `8`, `8/0`, `any`. */
export function isIcmpType(text: string, { negated }: RuleOption, { family, connection }: PacketState): Judgement {
  const [type = '', code = '0'] = text.split('/')
  if (type !== 'any' && !/^\d+$/.test(type)) return unknown(`the ICMP type ${type}`)
  const found = type === 'any' || (Number(type) === ECHO[family][connection] && code === '0')
  return found === negated ? FALSE : TRUE
}
