/**
 * Virtual and real servers for tests: plain ones, and arbitrary ones with few addresses, so that
 * keys often collide.
 */
import fc from 'fast-check'
import { compareRealServers, type RealServer, realServerKey, type VirtualServer } from '../../src/ipvs/types.ts'

/** A real server as kube-ipvs writes it. */
export function makeRealServer(address: string, weight = 1, port = 80): RealServer {
  return { address, port, weight, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 }
}

/** An IPv4 TCP virtual server on port 80. */
export function makeVirtualServer(
  address: string,
  servers: readonly RealServer[] = [],
  more: Partial<VirtualServer> = {},
): VirtualServer {
  return {
    family: 'IPv4',
    address,
    port: 80,
    protocol: 'tcp',
    scheduler: 'rr',
    flags: 0,
    timeoutSeconds: 0,
    netmask: 0xffffffff,
    persistenceEngine: '',
    realServers: servers,
    ...more,
  }
}

const realServer: fc.Arbitrary<RealServer> = fc.record(
  {
    address: fc.constantFrom('10.244.0.1', '10.244.0.2', '10.244.0.10', 'fd00:10:244::1'),
    port: fc.constantFrom(80, 8080),
    weight: fc.constantFrom(0, 1, 7),
    forwarding: fc.constantFrom('masquerade', 'route', 'tunnel'),
    upperThreshold: fc.constantFrom(0, 100),
    lowerThreshold: fc.constantFrom(0, 10),
  },
  { noNullPrototype: true },
)

export const realServers: fc.Arbitrary<readonly RealServer[]> = fc
  .uniqueArray(realServer, { selector: realServerKey, maxLength: 6 })
  .map((servers) => servers.toSorted(compareRealServers))

/** Desired real servers always have a weight. */
export const wantedRealServers: fc.Arbitrary<readonly RealServer[]> = realServers.map((servers) =>
  servers.map((server) => ({ ...server, weight: Math.max(1, server.weight) })),
)

const fields = {
  port: fc.constantFrom(53, 80),
  protocol: fc.constantFrom('tcp', 'udp', 'sctp'),
  persistenceEngine: fc.constantFrom('', 'sip'),
} as const

const schedulerFlags = fc.constantFrom(0, 0x8, 0x10, 0x18, 0x4)

function virtualServer(servers: fc.Arbitrary<readonly RealServer[]>): fc.Arbitrary<VirtualServer> {
  return fc
    .record({
      ...fields,
      ip: fc.constantFrom(
        { family: 'IPv4' as const, address: '10.96.0.1', netmask: 0xffffffff },
        { family: 'IPv4' as const, address: '10.96.0.2', netmask: 0xffffff00 },
        { family: 'IPv6' as const, address: 'fd00:10:96::1', netmask: 128 },
        { family: 'IPv6' as const, address: 'fd00:10:96::2', netmask: 64 },
      ),
      scheduler: fc.constantFrom('rr', 'lc', 'sh', 'mh'),
      flags: schedulerFlags,
      timeoutSeconds: fc.constantFrom(0, 300, 10800),
      realServers: servers,
    })
    .map(({ ip, flags, timeoutSeconds, ...rest }) => ({
      ...ip,
      ...rest,
      timeoutSeconds,
      flags: timeoutSeconds > 0 ? flags | 1 : flags,
    }))
}

export const liveVirtualServer: fc.Arbitrary<VirtualServer> = virtualServer(realServers)
export const wantedVirtualServer: fc.Arbitrary<VirtualServer> = virtualServer(wantedRealServers)
