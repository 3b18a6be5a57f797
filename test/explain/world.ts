/**
 * A node for predictions without a kernel: eth0 with 10.0.2.15, Pods at 10.244.0.0/24 behind the
 * bridge cni0, and other Pods behind 10.0.2.16. Rules, sets and virtual servers are given as the
 * programs print them, for example those of a recorded kube-proxy.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import type { KernelPicture, RouteAnswer, RouteQuestion } from '../../src/explain/picture.ts'
import { predictPath } from '../../src/explain/predict.ts'
import { wholeTables } from '../../src/iptables/whole-tables.ts'
import { PacketSet } from '../../src/explain/sets.ts'
import type { Packet, PacketPath } from '../../src/explain/types.ts'
import type { SetType } from '../../src/ipset/catalogue.ts'
import { type RealServer, type VirtualServerFields, virtualServerKey } from '../../src/ipvs/types.ts'
import { familyOf, parseEndpoint } from '../../src/values/address.ts'
import { contains, parseCidr } from '../../src/values/cidr.ts'
import { recordingPath } from '../support/recordings.ts'

export interface World {
  readonly picture: KernelPicture
  /** Real servers by the key of their virtual server. */
  readonly realServers: ReadonlyMap<string, readonly RealServer[]>
}

export interface WorldText {
  /** What iptables-save prints. */
  readonly rules?: string
  /** What `ipset save` prints. */
  readonly sets?: string
  /** What `ipvsadm -S -n` prints. */
  readonly servers?: string
  /** Addresses of kube-ipvs0, one a line, with their lengths. */
  readonly addresses?: string
  readonly more?: Partial<KernelPicture>
}

export function worldOf({ rules = '', sets = '', servers = '', addresses = '', more = {} }: WorldText): World {
  const { virtualServers, realServers } = parseServers(servers)
  const virtualIps = new Set(Array.from(addresses.matchAll(/^([\d.]+)\/\d+$/gm), ([, address = '']) => address))
  const picture: KernelPicture = {
    rules: { IPv4: wholeTables(rules), IPv6: new Map() },
    privateTables: {},
    sets: parseSets(sets),
    virtualServers,
    fwmarks: new Set(),
    ipvsTracksConnections: true,
    forwards: { IPv4: true, IPv6: true },
    seesBridged: { IPv4: true, IPv6: true },
    interfaces: new Map([
      ['lo', { kind: '', addresses: [], isUplink: false }],
      ['eth0', { kind: '', addresses: ['10.0.2.15'], isUplink: true }],
      ['cni0', { kind: 'bridge', addresses: ['10.244.0.254'], isUplink: false }],
    ]),
    virtualIps,
    limits: [],
    ...more,
  }
  return { picture, realServers }
}

/** One step of a recorded case of kube-proxy. */
export function recordedWorld(
  name: string,
  mode: 'ipvs' | 'iptables',
  step = 1,
  more: Partial<KernelPicture> = {},
): World {
  const read = (file: string): string => {
    const path = recordingPath(`cases/${name}/recorded/${mode}/${step}/${file}.txt`)
    return existsSync(path) ? readFileSync(path, 'utf8') : ''
  }
  return worldOf({
    rules: read('iptables'),
    sets: read('ipset'),
    servers: read('ipvs'),
    addresses: read('addresses'),
    more,
  })
}

/** The complete path. */
export function explain({ picture, realServers }: World, packet: Partial<Packet>): PacketPath {
  const routes = new Map<string, RouteAnswer>()
  const whole = { source: '10.0.2.100', destination: '10.96.10.1', port: 80, protocol: 'tcp', ...packet } as const
  for (let round = 0; round < 20; round++) {
    const { path, questions } = predictPath(picture, { routes, realServers }, whole)
    if (questions.routes.size === 0 && questions.realServers.size === 0) return path
    assert.equal(questions.realServers.size, 0, 'the real servers of every virtual server are known')
    for (const [key, question] of questions.routes) routes.set(key, routeOf(picture, question))
  }
  throw new Error('the prediction asks on and on')
}

const PODS = cidr('10.244.0.0/24')
const OTHER_PODS = cidr('10.244.0.0/16')
const NEIGHBOURS = cidr('10.0.2.0/24')

function cidr(text: string) {
  const range = parseCidr(text)
  assert.ok(range !== undefined)
  return range
}

/** How the kernel of this node answers. */
function routeOf({ interfaces, virtualIps }: KernelPicture, { destination, arrivesAt }: RouteQuestion): RouteAnswer {
  const own = Array.from(interfaces.values()).flatMap(({ addresses }) => addresses)
  const chosen = (source: string): string | undefined => (arrivesAt === undefined ? source : undefined)
  if (own.includes(destination) || virtualIps.has(destination) || destination.startsWith('127.'))
    return { decision: { kind: 'local' }, source: chosen(destination) }
  if (contains(PODS, destination))
    return { decision: { kind: 'out', interface: 'cni0', gateway: undefined }, source: chosen('10.244.0.254') }
  const gateway = contains(OTHER_PODS, destination)
    ? '10.0.2.16'
    : contains(NEIGHBOURS, destination)
      ? undefined
      : '10.0.2.2'
  return { decision: { kind: 'out', interface: 'eth0', gateway }, source: chosen('10.0.2.15') }
}

function parseSets(text: string): ReadonlyMap<string, PacketSet> {
  const types = new Map(Array.from(text.matchAll(/^create (\S+) (\S+)/gm), ([, name = '', type = '']) => [name, type]))
  const entries = Map.groupBy(text.matchAll(/^add (\S+) (\S+)( nomatch)?/gm), ([, name = '']) => name)
  return new Map(
    Array.from(types, ([name, type]) => {
      const own = (entries.get(name) ?? []).map(([, , entry = '', noMatch]) =>
        noMatch === undefined ? { entry } : { entry, noMatch: true as const },
      )
      return [name, new PacketSet(type as SetType, own)] // recordings have no other types
    }),
  )
}

const PROTOCOL_OF_OPTION = { '-t': 'tcp', '-u': 'udp', '--sctp-service': 'sctp' } as const

function parseServers(text: string) {
  const virtualServers = new Map<string, VirtualServerFields>()
  const realServers = new Map<string, RealServer[]>()
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const words = line.split(' ')
    const [command, option = '-t', at = ''] = words
    const protocol = PROTOCOL_OF_OPTION[option as keyof typeof PROTOCOL_OF_OPTION]
    const after = (name: string, otherwise: string): string =>
      words.includes(name) ? (words[words.indexOf(name) + 1] ?? '') : otherwise
    const place = parseEndpoint(at)
    const key = virtualServerKey({ ...place, protocol })
    if (command === '-A') {
      realServers.set(key, [])
      virtualServers.set(key, {
        ...place,
        family: familyOf(place.address),
        protocol,
        scheduler: after('-s', 'wlc'),
        flags: words.includes('-p') ? 1 : 0,
        timeoutSeconds: Number(after('-p', '0')),
        netmask: 0xffffffff,
        persistenceEngine: '',
      })
    } else
      realServers.get(key)?.push({
        ...parseEndpoint(after('-r', '')),
        weight: Number(after('-w', '1')),
        forwarding: 'masquerade',
        upperThreshold: 0,
        lowerThreshold: 0,
      })
  }
  return { virtualServers, realServers }
}

/** `10.244.0.10:8080 own 0.5`, sorted; other ends by their kind. */
export function endsOf({ outcomes }: PacketPath): readonly string[] {
  return outcomes
    .map(({ end, share }) => {
      if (end.kind !== 'endpoint') return share === 1 ? end.kind : `${end.kind} ${share}`
      const answer = end.answer.kind === 'returns' ? '' : ` ${end.answer.kind}`
      return `${end.address}:${end.port} ${end.source.kind} ${share === null ? '?' : Math.round(share * 1000) / 1000}${answer}`
    })
    .sort()
}

/** To a process of this node itself, so that only the rules decide. */
export const PACKET: Packet = { source: '10.0.2.100', destination: '10.0.2.15', port: 80, protocol: 'tcp' }

/** A node with these rules in the filter table, which has the chains A and B. */
export function filterWorld(rules: readonly string[], more: WorldText = {}): World {
  const text = ['*filter', ':INPUT ACCEPT [0:0]', ':A - [0:0]', ':B - [0:0]', ...rules, 'COMMIT', ''].join('\n')
  return worldOf({ ...more, rules: text })
}
