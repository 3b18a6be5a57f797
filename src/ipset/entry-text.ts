/**
 * Entries of the five set types as the text `ipset save` prints, and back. Each entry has exactly
 * one text: a /32 (or /128) network is printed without its length, IPv6 without brackets.
 */
import { familyOf, parseAddress } from '../values/address.ts'
import { type IpFamily, PROTOCOL_NUMBER, type Protocol, protocolOfNumber } from '../values/protocol.ts'
import type { SetType } from './catalogue.ts'
import type { EntryParts } from './types.ts'
import { ownMember } from '../values/own-member.ts'

/** Protocols that only other programs use, by the names of the ipset command. */
const FOREIGN_PROTOCOLS: Readonly<Record<string, number>> = { udplite: 136, icmp: 1, icmpv6: 58 }
/** For these the port is an ICMP type (high byte) and code. */
const ICMP: ReadonlySet<number> = new Set([1, 58])

/** Prefix length of a host address. */
export function fullLength(family: IpFamily): number {
  return family === 'IPv4' ? 32 : 128
}

/** IANA number of an entry's protocol. */
export function protocolNumber(protocol: Protocol | number): number {
  return typeof protocol === 'number' ? protocol : PROTOCOL_NUMBER[protocol]
}

/** `10.96.0.1,tcp:443`, `10.244.0.5,tcp:8080,10.244.0.5`, `203.0.113.1,tcp:80,10.0.0.0/8`, `30080` */
export function formatEntry(parts: EntryParts): string {
  const { address, port, protocol } = parts
  // Nearly every entry is an address with a port.
  if (address !== undefined && port !== undefined && typeof protocol === 'string' && parts.second === undefined)
    return `${address},${protocol}:${port}`
  const words: string[] = []
  if (parts.address !== undefined) words.push(parts.address)
  if (parts.port !== undefined)
    words.push(parts.protocol === undefined ? String(parts.port) : formatPort(parts.protocol, parts.port))
  if (parts.second !== undefined) {
    const { second, secondLength } = parts
    const whole = secondLength === undefined || secondLength === fullLength(familyOf(second))
    words.push(whole ? second : `${second}/${secondLength}`)
  }
  return words.join(',')
}

function formatPort(protocol: Protocol | number, port: number): string {
  if (typeof protocol === 'string') return `${protocol}:${port}`
  const name = Object.entries(FOREIGN_PROTOCOLS).find(([, number]) => number === protocol)?.[0] ?? String(protocol)
  return ICMP.has(protocol) ? `${name}:${port >>> 8}/${port & 0xff}` : `${name}:${port}`
}

/** The parts of an entry's text; undefined when it is no entry of a set of that type and family. */
export function parseEntry(type: SetType, family: IpFamily, text: string): EntryParts | undefined {
  const words = text.split(',')
  if (words.length !== WORDS[type]) return undefined
  const [first = '', second = '', third = ''] = words
  if (type === 'bitmap:port') {
    const port = parseNumber(first, 0xffff)
    return port === undefined ? undefined : { port }
  }
  const address = parseOwnAddress(first, family)
  if (address === undefined) return undefined
  if (type === 'hash:ip') return { address }
  const port = parsePort(second)
  if (port === undefined) return undefined
  if (type === 'hash:ip,port') return { address, ...port }
  if (type === 'hash:ip,port,ip') {
    const other = parseOwnAddress(third, family)
    return other === undefined ? undefined : { address, ...port, second: other }
  }
  const [network = '', lengthText = String(fullLength(family)), ...rest] = third.split('/')
  const base = parseOwnAddress(network, family)
  const secondLength = parseNumber(lengthText, fullLength(family))
  if (base === undefined || secondLength === undefined || rest.length > 0) return undefined
  return { address, ...port, second: base, secondLength }
}

const WORDS: Readonly<Record<SetType, number>> = {
  'bitmap:port': 1,
  'hash:ip': 1,
  'hash:ip,port': 2,
  'hash:ip,port,ip': 3,
  'hash:ip,port,net': 3,
}

function parseOwnAddress(text: string, family: IpFamily): string | undefined {
  const address = parseAddress(text)
  return address !== undefined && familyOf(address) === family ? address : undefined
}

function parsePort(text: string): Pick<EntryParts, 'protocol' | 'port'> | undefined {
  const colon = text.indexOf(':')
  const name = text.slice(0, colon)
  const rest = text.slice(colon + 1)
  if (colon < 0) return undefined
  if (name === 'tcp' || name === 'udp' || name === 'sctp') {
    const port = parseNumber(rest, 0xffff)
    return port === undefined ? undefined : { protocol: name, port }
  }
  const number = ownMember(FOREIGN_PROTOCOLS, name) ?? parseNumber(name, 0xff)
  if (number === undefined) return undefined
  const protocol = protocolOfNumber(number) ?? number
  if (typeof protocol === 'number' && ICMP.has(protocol)) {
    const [kind, code] = rest.split('/').map((part) => parseNumber(part, 0xff))
    return kind === undefined || code === undefined ? undefined : { protocol, port: kind * 256 + code }
  }
  const port = parseNumber(rest, 0xffff)
  return port === undefined ? undefined : { protocol, port }
}

function parseNumber(text: string, largest: number): number | undefined {
  if (!/^[0-9]{1,5}$/.test(text)) return undefined
  const number = Number(text)
  return number <= largest ? number : undefined
}
