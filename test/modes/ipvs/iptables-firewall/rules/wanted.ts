/**
 * Input of the renderer with every set filled and every kind of rule in use, for tests of the pure
 * part and of the kernel.
 */
import { CATALOGUE, type SetName } from '../../../../../src/ipset/catalogue.ts'
import { localTrafficOf } from '../../../../../src/iptables/local-traffic.ts'
import type { RuleInput } from '../../../../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import type { IpFamily } from '../../../../../src/values/protocol.ts'

export const ALL_SETS: ReadonlySet<SetName> = new Set(CATALOGUE.map(({ name }) => name))

export function localTraffic(family: IpFamily): RuleInput['localTraffic'] {
  return localTrafficOf(
    {
      detectLocalMode: 'ClusterCIDR',
      clusterCIDR: '10.244.0.0/16,fd00:10:244::/56',
      detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
    },
    [],
    family,
  )
}

/** Input for the rules of a family: everything is in use, but for what `change` says. */
export function everything(family: IpFamily, change: Partial<RuleInput> = {}): RuleInput {
  const address = family === 'IPv4' ? '203.0.113.10' : '2001:db8:cb::10'
  return {
    family,
    filled: ALL_SETS,
    localTraffic: localTraffic(family),
    masqueradeAll: false,
    masqueradeBit: 14,
    randomFully: true,
    outFilter: [
      { address, port: 80, protocol: 'tcp' },
      { address, port: 53, protocol: 'udp' },
      { address, port: 9000, protocol: 'sctp' },
    ],
    missingMatches: new Set(),
    unusableSets: new Set(),
    virtualAddresses: 'addresses',
    ...change,
  }
}
