/**
 * Recognises traffic from this node's own pods (detectLocalMode); all other traffic to cluster IPs
 * is masqueraded. Without a detector only traffic that has a cluster IP as its source is
 * masqueraded.
 */
import { type Cidr, formatCidr, parseCidr } from '../values/cidr.ts'
import type { IpFamily } from '../values/protocol.ts'
import { quoteWord } from './rule-text.ts'

export type LocalTraffic =
  /** Its source is one of these addresses. */
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  /** It arrives at the interface of this name. */
  | { readonly kind: 'interface'; readonly name: string }
  /** It arrives at an interface whose name begins with this. */
  | { readonly kind: 'interface-prefix'; readonly prefix: string }

export interface LocalTrafficSettings {
  readonly detectLocalMode: 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix'
  /** One CIDR, or several separated by commas; '' = not known. */
  readonly clusterCIDR: string
  readonly detectLocal: { readonly bridgeInterface: string; readonly interfaceNamePrefix: string }
}

/** The part of KubeProxyConfiguration that the rules of ipvs mode depend on. */
export interface RuleSettings extends LocalTrafficSettings {
  readonly iptables: { readonly masqueradeAll: boolean; readonly masqueradeBit: number }
}

/** The detector of one family; undefined when there is none. `podCidrs` are the Node's. */
export function localTrafficOf(
  settings: LocalTrafficSettings,
  podCidrs: readonly string[],
  family: IpFamily,
): LocalTraffic | undefined {
  switch (settings.detectLocalMode) {
    case 'ClusterCIDR':
      return firstOfFamily(settings.clusterCIDR.split(','), family)
    case 'NodeCIDR':
      return firstOfFamily(podCidrs, family)
    case 'BridgeInterface':
      return { kind: 'interface', name: settings.detectLocal.bridgeInterface }
    case 'InterfaceNamePrefix':
      return { kind: 'interface-prefix', prefix: settings.detectLocal.interfaceNamePrefix }
  }
}

function firstOfFamily(texts: readonly string[], family: IpFamily): LocalTraffic | undefined {
  for (const text of texts) {
    const cidr = parseCidr(text.trim())
    if (cidr?.family === family) return { kind: 'cidr', cidr }
  }
  return undefined
}

/**
 * The words of a rule that match traffic which is not local; undefined when all traffic is local (a
 * CIDR of length 0, whose negation the kernel refuses).
 */
export function notLocal(local: LocalTraffic): string | undefined {
  switch (local.kind) {
    case 'cidr':
      return local.cidr.prefixLength === 0 ? undefined : `! -s ${formatCidr(local.cidr)}`
    case 'interface':
      return `! -i ${interfaceWord(local.name)}`
    case 'interface-prefix':
      return `! -i ${interfaceWord(local.prefix)}+`
  }
}

/** The words of a rule that match local traffic, with a space after them; '' when all traffic is local. */
export function isLocal(local: LocalTraffic): string {
  switch (local.kind) {
    case 'cidr':
      return local.cidr.prefixLength === 0 ? '' : `-s ${formatCidr(local.cidr)} `
    case 'interface':
      return `-i ${interfaceWord(local.name)} `
    case 'interface-prefix':
      return `-i ${interfaceWord(local.prefix)}+ `
  }
}

/** Names of interfaces may contain characters that end a word. */
function interfaceWord(name: string): string {
  return /[\s"'\\]/.test(name) ? quoteWord(name) : name
}
