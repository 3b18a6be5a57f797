/** Operations as the `ipvsadm` commands that an operator would type. A test parses each command. */
import { formatEndpoint } from '../values/address.ts'
import type { Protocol } from '../values/protocol.ts'
import { schedulerTraits } from '../values/schedulers.ts'
import {
  FLAG_ONE_PACKET,
  FLAG_PERSISTENT,
  FLAG_SCHED_1,
  FLAG_SCHED_2,
  FLAG_SCHED_3,
  type ForwardingMethod,
  type RealServer,
  type VirtualServer,
  type VirtualServerOperation,
} from './types.ts'

const SERVICE_OPTION: Readonly<Record<Protocol, string>> = { tcp: '-t', udp: '-u', sctp: '--sctp-service' }
const FORWARDING_OPTION: Readonly<Record<ForwardingMethod, string>> = {
  masquerade: '-m',
  tunnel: '-i',
  route: '-g',
  // ipvsadm has no option for these two; the kernel makes them from -g for an address of the node.
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

/** How a virtual server chooses, for people. */
export interface SettingsInWords {
  readonly scheduler: string
  readonly flags: readonly string[]
  /** Seconds; 0 when not persistent. */
  readonly persistenceTimeoutSeconds: number
}

export function settingsInWords({
  scheduler,
  flags,
  timeoutSeconds,
}: Omit<VirtualServer, 'realServers'>): SettingsInWords {
  const isPersistent = (flags & FLAG_PERSISTENT) !== 0
  return {
    scheduler,
    flags: [
      ...(isPersistent ? ['persistent'] : []),
      ...((flags & FLAG_ONE_PACKET) === 0 ? [] : ['one-packet']),
      ...schedulerFlagNames(scheduler, flags),
    ],
    persistenceTimeoutSeconds: isPersistent ? timeoutSeconds : 0,
  }
}

/** ipvsadm's names of the scheduler flags for this scheduler. */
function schedulerFlagNames(scheduler: string, flags: number): string[] {
  const own = schedulerTraits(scheduler).hasFlags === true
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
