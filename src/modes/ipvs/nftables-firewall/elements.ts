/**
 * The elements of one frontend in the sets of the private table, from its memberships. A frontend
 * is in one of the sets that decide about masquerading: the one that serves all its roles.
 */
import type { SetSize } from '../../../metrics/sources.ts'
import { NFT_FAMILY, type NftElement, type NftItem, nftKey, type NftOperation } from '../../../nftables/types.ts'
import type { AddressFrontend } from '../../../service/frontends.ts'
import { type Membership, type Role, rolesOf, sharedHairpins } from '../../../service/policy.ts'
import { Contributions } from '../../../sync/contributions.ts'
import type { TableSync } from '../../../sync/table-sync.ts'
import { type NftSetName, SET_NAMES } from './layout.ts'

/** Which elements belong in the sets; nothing is wanted yet. */
export function wantedElements(): Contributions<NftElement> {
  return new Contributions<NftElement>({
    key: nftKey,
    equal: (a, b) => a.set === b.set && a.value === b.value && a.family === b.family,
    set: (element) => element.set,
    rank: (set) => SET_NAMES.findIndex((name) => name === set),
  })
}

/**
 * The elements of one frontend in plain sets, without `hairpinElements`, in the order in which they
 * may be added.
 */
export function elementsOf(frontend: AddressFrontend): readonly NftElement[] {
  const roles = rolesOf(frontend)
  const { address, servicePort, firewall } = frontend
  const { family, service } = servicePort
  const value = placeOf(frontend)
  const found: NftElement[] = []
  const put = (set: NftSetName, text: string): void => void found.push({ kind: 'element', family, set, value: text })
  if (firewall?.allowsNode === false) put('closed-to-node', value)
  put(masqueradingSet(roles), value)
  if (roles.includes('health-check')) put('health-check-ports', `tcp . ${service.healthCheckNodePort}`)
  if (roles.includes('virtual-ip')) put('virtual-ips', address)
  return found
}

/**
 * A load-balancer or external address masquerades more than a cluster IP, and a cluster IP more than
 * policy Local; a node port masquerades as the former, but is no address of its own.
 */
function masqueradingSet(roles: readonly Role[]): NftSetName {
  const isExternal =
    roles.includes('load-balancer') || roles.includes('external-ip') || roles.includes('external-ip-local')
  const isLocal =
    roles.includes('load-balancer-local') || roles.includes('external-ip-local') || roles.includes('node-port-local')
  const isNodePort = roles.includes('node-port')
  if ((isExternal || (isNodePort && roles.includes('cluster-ip'))) && !isLocal) return 'external-ips'
  if (roles.includes('cluster-ip')) return 'cluster-ips'
  if (isExternal) return 'external-ips-local'
  return isLocal ? 'node-ports-local' : 'node-ports'
}

/** Address, protocol and port of a frontend, as sets hold them. */
export function placeOf({ address, port, servicePort }: AddressFrontend): string {
  return `${address} . ${servicePort.protocol} . ${port}`
}

/** The hairpin elements of a frontend. */
export const hairpinElements = sharedHairpins(hairpinElement)

function hairpinElement({ family, address, protocol, port, second }: Membership): NftElement {
  const value = `${address ?? ''} . ${protocol ?? 'tcp'} . ${port ?? 0} . ${second ?? ''}`
  return { kind: 'element', family, set: 'hairpins', value }
}

/** No set has a limit of ours; the kernel counts the elements in 32 bits. */
const MAX_ELEMENTS = 2 ** 32 - 1

/** How many elements the kernel has of each set that is not empty. */
export function sizesOf(sync: Pick<TableSync<NftItem, NftOperation>, 'forEachLive'>): readonly SetSize[] {
  const sizes = new Map<string, number>()
  sync.forEachLive((item) => {
    if (item.kind !== 'element') return
    const name = `${NFT_FAMILY[item.family]} ${item.set}`
    sizes.set(name, (sizes.get(name) ?? 0) + 1)
  })
  return Array.from(sizes, ([name, entries]) => ({ name, entries, maxEntries: MAX_ELEMENTS }))
}
