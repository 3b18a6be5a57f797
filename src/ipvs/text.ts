/**
 * Operations as the `ipvsadm` commands an operator would type, and back.
 * What could break: parseOperation(formatOperation(x)) is x for every operation; a test holds the two together.
 */
import { familyOf, formatEndpoint } from '../values/address.ts'
import type { Protocol } from '../values/protocol.ts'
import { addressOfKey, virtualServerKey } from './key.ts'
import type { VirtualServerOperation } from './operation.ts'
import {
  FLAG_ONE_PACKET,
  FLAG_PERSISTENT,
  FLAG_SCHED_1,
  FLAG_SCHED_2,
  FLAG_SCHED_3,
  type ForwardingMethod,
  type RealServer,
  type VirtualServer,
} from './types.ts'

const SERVICE_OPTION: Readonly<Record<Protocol, string>> = { tcp: '-t', udp: '-u', sctp: '--sctp-service' }
const FORWARDING_OPTION: Readonly<Record<ForwardingMethod, string>> = {
  masquerade: '-m',
  tunnel: '-i',
  route: '-g',
  // ipvsadm has no option of its own for these two; the kernel makes them out of -g for an address of the node.
  local: '-g',
  bypass: '-g',
  // It is written as masquerading.
  unknown: '-m',
}
const COMMAND: Readonly<Record<VirtualServerOperation['kind'], string>> = {
  'add-virtual-server': '-A',
  'edit-virtual-server': '-E',
  'delete-virtual-server': '-D',
  'add-real-server': '-a',
  'edit-real-server': '-e',
  'delete-real-server': '-d',
}

/** `ipvsadm -a -t 10.96.0.1:443 -r 172.18.0.2:6443 -m -w 1` */
export function formatOperation(op: VirtualServerOperation): string {
  const words = [
    'ipvsadm',
    COMMAND[op.kind],
    SERVICE_OPTION[op.server.protocol],
    formatEndpoint(op.server.address, op.server.port),
  ]
  switch (op.kind) {
    case 'add-virtual-server':
    case 'edit-virtual-server':
      words.push(...formatFields(op.server))
      break
    case 'add-real-server':
    case 'edit-real-server':
      words.push('-r', formatEndpoint(op.realServer.address, op.realServer.port), ...formatRealServer(op.realServer))
      break
    case 'delete-real-server':
      words.push('-r', formatEndpoint(op.realServer.address, op.realServer.port))
      break
    case 'delete-virtual-server':
      break
  }
  return words.join(' ')
}

/** Names of the scheduler flags as ipvsadm spells them for this scheduler. */
export function schedulerFlagNames(scheduler: string, flags: number): string[] {
  const own = scheduler === 'sh' || scheduler === 'mh'
  const names: string[] = []
  if ((flags & FLAG_SCHED_1) !== 0) names.push(own ? `${scheduler}-fallback` : 'flag-1')
  if ((flags & FLAG_SCHED_2) !== 0) names.push(own ? `${scheduler}-port` : 'flag-2')
  if ((flags & FLAG_SCHED_3) !== 0) names.push('flag-3')
  return names
}

function formatFields(server: VirtualServer): string[] {
  const words = ['-s', server.scheduler]
  if ((server.flags & FLAG_PERSISTENT) !== 0) words.push('-p', String(server.timeoutSeconds))
  if (server.netmask !== defaultNetmask(server.family)) words.push('-M', formatNetmask(server))
  if ((server.flags & FLAG_ONE_PACKET) !== 0) words.push('-o')
  const flags = schedulerFlagNames(server.scheduler, server.flags)
  if (flags.length > 0) words.push('-b', flags.join(','))
  if (server.persistenceEngine !== '') words.push('--pe', server.persistenceEngine)
  return words
}

function formatRealServer(server: RealServer): string[] {
  const words = [FORWARDING_OPTION[server.forwarding], '-w', String(server.weight)]
  if (server.upperThreshold !== 0) words.push('-x', String(server.upperThreshold))
  if (server.lowerThreshold !== 0) words.push('-y', String(server.lowerThreshold))
  return words
}

function defaultNetmask(family: VirtualServer['family']): number {
  return family === 'IPv4' ? 0xffffffff : 128
}

function formatNetmask(server: VirtualServer): string {
  const mask = server.netmask
  return server.family === 'IPv6' ? String(mask) : [24, 16, 8, 0].map((shift) => (mask >>> shift) & 0xff).join('.')
}

/** The operation that a command made by `formatOperation` says; undefined for any other text. */
export function parseOperation(text: string): VirtualServerOperation | undefined {
  const [program, command, service, endpoint, ...rest] = text.split(' ')
  const kind = keyOf(COMMAND, command)
  const protocol = keyOf(SERVICE_OPTION, service)
  if (program !== 'ipvsadm' || kind === undefined || protocol === undefined || endpoint === undefined) return undefined
  const options = parseOptions(rest)
  const server = parseServer(endpoint, protocol, options)
  const key = virtualServerKey(server)
  switch (kind) {
    case 'add-virtual-server':
    case 'edit-virtual-server':
    case 'delete-virtual-server':
      return { kind, key, server }
    case 'add-real-server':
    case 'edit-real-server':
    case 'delete-real-server': {
      const realServer = parseRealServer(options)
      return realServer === undefined ? undefined : { kind, key, server, realServer }
    }
  }
}

/** Options that take no value. */
const SWITCHES = new Set(['-m', '-i', '-g', '-o'])

function parseOptions(words: readonly string[]): Map<string, string> {
  const options = new Map<string, string>()
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? ''
    options.set(word, SWITCHES.has(word) ? '' : (words[++i] ?? ''))
  }
  return options
}

function parseServer(endpoint: string, protocol: Protocol, options: ReadonlyMap<string, string>): VirtualServer {
  const address = addressOfKey(endpoint)
  const family = familyOf(address)
  const mask = options.get('-M')
  let flags = 0
  if (options.has('-p')) flags |= FLAG_PERSISTENT
  if (options.has('-o')) flags |= FLAG_ONE_PACKET
  for (const name of options.get('-b')?.split(',') ?? []) {
    if (name.endsWith('-fallback') || name === 'flag-1') flags |= FLAG_SCHED_1
    if (name.endsWith('-port') || name === 'flag-2') flags |= FLAG_SCHED_2
    if (name === 'flag-3') flags |= FLAG_SCHED_3
  }
  return {
    family,
    address,
    port: portOf(endpoint),
    protocol,
    scheduler: options.get('-s') ?? '',
    flags,
    timeoutSeconds: Number(options.get('-p') ?? 0),
    netmask: mask === undefined ? defaultNetmask(family) : parseNetmask(mask),
    persistenceEngine: options.get('--pe') ?? '',
    realServers: [],
  }
}

function parseRealServer(options: ReadonlyMap<string, string>): RealServer | undefined {
  const endpoint = options.get('-r')
  if (endpoint === undefined) return undefined
  return {
    address: addressOfKey(endpoint),
    port: portOf(endpoint),
    weight: Number(options.get('-w') ?? 0),
    forwarding: options.has('-i') ? 'tunnel' : options.has('-g') ? 'route' : 'masquerade',
    upperThreshold: Number(options.get('-x') ?? 0),
    lowerThreshold: Number(options.get('-y') ?? 0),
  }
}

function portOf(endpoint: string): number {
  return Number(endpoint.slice(endpoint.lastIndexOf(':') + 1))
}

function parseNetmask(text: string): number {
  return text.includes('.') ? text.split('.').reduce((mask, octet) => mask * 256 + Number(octet), 0) : Number(text)
}

function keyOf<K extends string>(table: Readonly<Record<K, string>>, value: string | undefined): K | undefined {
  // Object.keys loses the key type; the table's own type says what they are.
  return (Object.keys(table) as K[]).find((key) => table[key] === value)
}
