/** Reads `ipvsadm` commands that `formatOperation` has written, to test that they contain everything. */
import {
  addressOfKey,
  FLAG_ONE_PACKET,
  FLAG_PERSISTENT,
  FLAG_SCHED_1,
  FLAG_SCHED_2,
  FLAG_SCHED_3,
  type RealServer,
  type VirtualServer,
  virtualServerKey,
  type VirtualServerOperation,
} from '../../src/ipvs/types.ts'
import { familyOf } from '../../src/values/address.ts'
import type { Protocol } from '../../src/values/protocol.ts'

const PROTOCOLS = new Map<string, Protocol>([
  ['-t', 'tcp'],
  ['-u', 'udp'],
  ['--sctp-service', 'sctp'],
])
const COMMANDS = new Map<string, VirtualServerOperation['kind']>([
  ['-A', 'add-virtual-server'],
  ['-E', 'edit-virtual-server'],
  ['-D', 'delete-virtual-server'],
  ['-a', 'add-real-server'],
  ['-e', 'edit-real-server'],
  ['-d', 'delete-real-server'],
])

/** The operation of a command that `formatOperation` made; undefined for any other text. */
export function parseOperation(text: string): VirtualServerOperation | undefined {
  const [program, command = '', service = '', endpoint, ...rest] = text.split(' ')
  const kind = COMMANDS.get(command)
  const protocol = PROTOCOLS.get(service)
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
    netmask: mask === undefined ? (family === 'IPv4' ? 0xffffffff : 128) : parseNetmask(mask),
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
