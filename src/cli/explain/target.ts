/**
 * What `kube-ipvs explain` is asked about, and where the packet of `--from` comes from. Both are
 * foreign text until they are one of the few forms here.
 */
import type { FrontendKey, FrontendRole } from '../../service/frontends.ts'
import { parseFrontendKey, parseNodePortKey } from '../../service/frontends.ts'
import { familyOf, isLoopback, parseAddress } from '../../values/address.ts'
import { nearest } from '../../values/nearest.ts'
import { parseProtocol, type Protocol } from '../../values/protocol.ts'
import { quote } from '../../values/quote.ts'

export type Target =
  /** `demo/web`, `demo/web:http`, `demo/web:80`. `port`: name or number of a Service port; undefined: all. */
  | { readonly kind: 'service'; readonly service: string; readonly port: string | undefined }
  /** `10.96.0.1:80`, `[fd00::1]:80/tcp`. `protocol`: undefined for all. */
  | {
      readonly kind: 'address'
      readonly address: string
      readonly port: number
      readonly protocol: Protocol | undefined
    }
  /** `:30080`, `:30080/udp` */
  | { readonly kind: 'node-port'; readonly port: number; readonly protocol: Protocol | undefined }

/** Where a packet begins. */
export type PacketSource =
  /** A process of this node. */
  | { readonly kind: 'node' }
  | { readonly kind: 'address'; readonly address: string }
  /** A pod by its name, which the daemon or the source of objects resolves. */
  | { readonly kind: 'pod'; readonly pod: string }

export type Read<Value> = { readonly value: Value } | { readonly wrong: string }

const TARGET_FORMS = 'NAMESPACE/NAME[:PORT], VIP:PORT[/PROTOCOL] or :NODEPORT[/PROTOCOL]'
const SOURCE_FORMS = 'node, an IP address, or the NAMESPACE/NAME of a pod'

/** A namespace is a DNS label, the names of other objects are DNS names. */
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const NAME = '[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?'
const SERVICE = new RegExp(`^(${LABEL}/${NAME})(?::(${LABEL}))?$`)
const POD = new RegExp(`^${LABEL}/${NAME}$`)
const PLACE = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15}))?:([1-9][0-9]{0,4})(?:\/([a-zA-Z]{1,5}))?$/
const LAST_PORT = 65_535
/** Characters of a wrong text that a message repeats. */
const MAX_QUOTED = 80

export function parseTarget(text: string): Read<Target> {
  const place = PLACE.exec(text)
  if (place !== null) return parsePlace(text, place)
  const service = SERVICE.exec(text)
  if (service !== null) return { value: { kind: 'service', service: service[1] ?? '', port: service[2] } }
  return { wrong: `${shortly(text)} is not a target: it must be ${TARGET_FORMS}` }
}

function parsePlace(text: string, [, ipv6, ipv4, digits = '', word]: RegExpExecArray): Read<Target> {
  const port = Number(digits)
  if (port > LAST_PORT) return { wrong: `${shortly(text)}: a port is a number from 1 to ${LAST_PORT}` }
  const protocol = word === undefined ? undefined : parseProtocol(word.toUpperCase())
  if (word !== undefined && protocol === undefined)
    return { wrong: `${shortly(text)}: the protocol is tcp, udp or sctp` }
  const written = ipv6 ?? ipv4
  if (written === undefined) return { value: { kind: 'node-port', port, protocol } }
  const address = parseAddress(written)
  // Only IPv6 has brackets.
  if (address === undefined || (familyOf(address) === 'IPv6') !== (ipv6 !== undefined))
    return { wrong: `${shortly(text)}: ${shortly(written)} is not an IP address` }
  return { value: { kind: 'address', address, port, protocol } }
}

/** Whether it is an address and port that only a relay can serve: IPVS has no virtual servers there. */
export function isAtLoopback(target: Target): boolean {
  return target.kind === 'address' && isLoopback(target.address)
}

/** A port at a loopback address is the node port of that number. */
export function asNodePort<Asked extends Target>(target: Asked): Asked | Extract<Target, { kind: 'node-port' }> {
  if (target.kind !== 'address' || !isAtLoopback(target)) return target
  return { kind: 'node-port', port: target.port, protocol: target.protocol }
}

export function parseSource(text: string): Read<PacketSource> {
  if (text === 'node') return { value: { kind: 'node' } }
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text
  const address = bare.length > 45 ? undefined : parseAddress(bare)
  if (address !== undefined) return { value: { kind: 'address', address } }
  if (POD.test(text)) return { value: { kind: 'pod', pod: text } }
  return { wrong: `${shortly(text)} is not a source of packets: it must be ${SOURCE_FORMS}` }
}

function shortly(text: string): string {
  return quote(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text)
}

/** A frontend, as far as a target names it. */
export interface TargetedFrontend {
  readonly key: FrontendKey
  readonly roles: readonly FrontendRole[]
}

/** Whether a target that is no Service names this frontend. A node port of iptables mode answers at every address. */
export function isTargeted(target: Exclude<Target, { kind: 'service' }>, { key, roles }: TargetedFrontend): boolean {
  const everywhere = parseNodePortKey(key)
  const { port, protocol } = everywhere ?? parseFrontendKey(key)
  if (port !== target.port || (target.protocol !== undefined && protocol !== target.protocol)) return false
  if (target.kind === 'node-port') return roles.includes('NodePort')
  return everywhere === undefined && parseFrontendKey(key).address === target.address
}

/** Known names that a target may have meant, best first, at most `limit`. */
export function nearestTargets(
  target: Target,
  known: { readonly services: readonly string[]; readonly frontends: readonly TargetedFrontend[] },
  limit = 5,
): readonly string[] {
  if (target.kind === 'service') return nearestServices(target.service, known.services).slice(0, limit)
  const found = known.frontends.filter(({ key, roles }) => {
    const everywhere = parseNodePortKey(key)
    if (target.kind === 'node-port') return roles.includes('NodePort') && isNearPort(target.port, key)
    return everywhere === undefined && parseFrontendKey(key).address === target.address
  })
  if (found.length > 0) return found.map(({ key }) => key).slice(0, limit)
  if (target.kind === 'node-port') return []
  const samePort = known.frontends.filter(
    ({ key }) => parseNodePortKey(key) === undefined && portOf(key) === target.port,
  )
  const addresses = new Map(samePort.map(({ key }) => [parseFrontendKey(key).address, key]))
  const guess = nearest(target.address, [...addresses.keys()])
  const key = guess === undefined ? undefined : addresses.get(guess)
  return key === undefined ? [] : [key]
}

function portOf(key: FrontendKey): number {
  return (parseNodePortKey(key) ?? parseFrontendKey(key)).port
}

/** Whether a port differs in one digit. */
function isNearPort(port: number, key: FrontendKey): boolean {
  return nearest(String(port), [String(portOf(key))]) !== undefined && Math.abs(portOf(key) - port) < 10_000
}

/** A Service with the same name elsewhere, one of that namespace, and others that are spelled alike. */
function nearestServices(service: string, all: readonly string[]): readonly string[] {
  const [namespace = '', name = ''] = service.split('/')
  const sameName = all.filter((one) => one.endsWith(`/${name}`))
  const inNamespace = all.filter((one) => one.startsWith(`${namespace}/`)).map((one) => one.slice(namespace.length + 1))
  const near = nearest(name, inNamespace)
  const spelled = nearest(service, all)
  return [
    ...new Set([
      ...(near === undefined ? [] : [`${namespace}/${near}`]),
      ...(spelled === undefined ? [] : [spelled]),
      ...sameName,
    ]),
  ]
}
