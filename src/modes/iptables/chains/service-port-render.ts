/**
 * The chains of one Service port in iptables mode, and its rules in the chains that all Services
 * share (kube-proxy's syncProxyRules). Rules have the order and the exact text in which
 * iptables-save 1.8.9 prints them, so that saved rules are compared without parsing them.
 */
import { formatCidr } from '../../../values/cidr.ts'
import { isLocal, type LocalTraffic, notLocal } from '../../../iptables/local-traffic.ts'
import { quoteWord } from '../../../iptables/rule-text.ts'
import { chainHash, endpointChain, serviceChain } from './chain-names.ts'
import type { ServicePort } from '../../../service/service-port.ts'
import type { NamedEndpoint, ServedPort } from './served-port.ts'

/** Chains with rules of all Services, as keys of a table's items: each after the chains that its rules jump to. */
export const SHARED_CHAINS = [
  'nat KUBE-NODEPORTS',
  'nat KUBE-SERVICES',
  'filter KUBE-SERVICES',
  'filter KUBE-EXTERNAL-SERVICES',
  'filter KUBE-PROXY-FIREWALL',
  'filter KUBE-NODEPORTS',
] as const
export type SharedChain = (typeof SHARED_CHAINS)[number]

export interface ServicePortRules {
  /** Rules of chains of nat, by name: each chain after the chains that its rules jump to. */
  readonly chains: ReadonlyMap<string, readonly string[]>
  /** Rules in shared chains, without chains that have none. */
  readonly shared: ReadonlyMap<SharedChain, readonly string[]>
}

export interface ServicePortSettings {
  /** undefined = no detector for the family. */
  readonly localTraffic: LocalTraffic | undefined
  readonly masqueradeAll: boolean
  /** Whether traffic to node ports at loopback is counted (nfacct): only of IPv4, and only when it is permitted. */
  readonly countsLoopback: boolean
  /** Whether the kernel has the match `recent`; without it sessions have no affinity. */
  readonly hasRecent: boolean
  /** Whether the kernel has the match `statistic`; without it the last endpoint gets all new connections. */
  readonly hasStatistic: boolean
  /** Whether rules of endpoints have comments. Without them they take a third less space. */
  readonly withComments: boolean
}

/** Counter of connections to node ports at 127.0.0.0/8. */
export const LOOPBACK_COUNTER = 'localhost_nps_accepted_pkts'

export function renderServicePort(served: ServedPort, settings: ServicePortSettings): ServicePortRules {
  const { servicePort, isExternal } = served
  const { name, protocol, internal, external: outside } = servicePort
  const chains = new Map<string, readonly string[]>()
  const chainOf = new Map<string, string>()
  for (const { text } of [...served.cluster, ...served.local])
    if (!chainOf.has(text)) chainOf.set(text, endpointChain(name + protocol, text))
  const shared = new Map<SharedChain, string[]>()
  const add = (chain: SharedChain, rule: string): void => {
    const rules = shared.get(chain)
    if (rules === undefined) shared.set(chain, [rule])
    else rules.push(rule)
  }
  const words = wordsOf(servicePort)
  const [cluster, local, external, firewall] = (['SVC', 'SVL', 'EXT', 'FW'] as const).map((kind) =>
    serviceChain(kind, words.hash),
  ) as [string, string, string, string] // four kinds, four names
  const hasAny = hasEndpoint(servicePort)
  const internalChain = internal.policy === 'Local' ? local : cluster
  const hasInternal = hasAny && (internal.policy === 'Cluster' || served.local.length > 0)
  const hasExternal = hasAny && (outside.policy === 'Cluster' || served.local.length > 0)
  const guard = hasAny && served.vips.length > 0 ? servicePort.firewall : undefined

  if (served.clusterIp !== undefined) {
    const to = words.to(served.clusterIp)
    if (hasInternal) {
      add('nat KUBE-SERVICES', `${to} ${words.cluster} -j ${internalChain}`)
    } else add('filter KUBE-SERVICES', `${to} ${words.refuse}`)
  }
  // An address in both roles keeps its source ranges, as in ipvs mode: the rule of the external IP
  // would let every source pass.
  const isGuarded = (address: string): boolean => guard !== undefined && served.vips.includes(address)
  for (const address of served.externalIps) {
    if (hasAny && !isGuarded(address))
      add('nat KUBE-SERVICES', `${words.to(address)} ${words.rule('external IP')} -j ${external}`)
    if (!hasExternal) add('filter KUBE-EXTERNAL-SERVICES', `${words.to(address)} ${words.refuse}`)
  }
  for (const address of served.vips) {
    const to = words.to(address)
    if (hasAny)
      add('nat KUBE-SERVICES', `${to} ${words.rule('loadbalancer IP')} -j ${guard === undefined ? external : firewall}`)
    if (guard !== undefined)
      add('filter KUBE-PROXY-FIREWALL', `${to} ${words.rule(`traffic not accepted by ${firewall}`)} -j DROP`)
    if (!hasExternal) add('filter KUBE-EXTERNAL-SERVICES', `${to} ${words.refuse}`)
  }
  if (served.nodePort !== 0) {
    const match = `-p ${protocol} ${comment(name)} -m ${protocol} --dport ${served.nodePort}`
    if (hasAny) {
      if (settings.countsLoopback)
        // iptables-save prints two spaces after --nfacct-name.
        add('nat KUBE-NODEPORTS', `-d 127.0.0.0/8 ${match} -m nfacct --nfacct-name  ${LOOPBACK_COUNTER} -j ${external}`)
      add('nat KUBE-NODEPORTS', `${match} -j ${external}`)
    }
    if (!hasExternal)
      add(
        'filter KUBE-EXTERNAL-SERVICES',
        `-p ${protocol} ${comment(words.why)} -m addrtype --dst-type LOCAL -m ${protocol} --dport ${served.nodePort} ${words.target}`,
      )
  }
  const { healthCheckNodePort } = servicePort.service
  if (healthCheckNodePort !== 0)
    add(
      'filter KUBE-NODEPORTS',
      `-p tcp ${comment(`${name} health check node port`)} -m tcp --dport ${healthCheckNodePort} -j ACCEPT`,
    )

  for (const endpoint of [...served.cluster, ...served.local]) {
    const chain = chainOf.get(endpoint.text) ?? ''
    if (!chains.has(chain)) chains.set(chain, endpointRules(servicePort, endpoint, chain, settings))
  }
  const masquerade =
    hasInternal && served.clusterIp !== undefined ? masqueradeRule(served.clusterIp, words.cluster, settings) : []
  if (served.cluster.length > 0 || (internalChain === cluster && masquerade.length > 0))
    chains.set(cluster, [
      ...(internalChain === cluster ? masquerade : []),
      ...balance(servicePort, served.cluster, chainOf, settings),
    ])
  if (served.local.length > 0 || (internalChain === local && masquerade.length > 0))
    chains.set(local, [
      ...(internalChain === local ? masquerade : []),
      ...balance(servicePort, served.local, chainOf, settings),
    ])
  if (hasAny && isExternal) {
    const last = hasExternal ? [`-j ${outside.policy === 'Local' ? local : cluster}`] : []
    chains.set(external, [...externalRules(servicePort, cluster, settings), ...last])
  }
  if (guard !== undefined) {
    const { ranges, allowsNode } = guard
    const rule = `${comment(`${name} loadbalancer IP`)} -j ${external}`
    chains.set(firewall, [
      ...ranges.map((range) => `-s ${formatCidr(range)} ${rule}`),
      // The node connects to a VIP with the VIP as its source.
      ...(allowsNode ? served.vips.map((address) => `-s ${host(address)} ${rule}`) : []),
      comment(`other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`),
    ])
  }
  return { chains, shared }
}

/** Whether an endpoint on any node can be used. */
function hasEndpoint({ cluster }: ServicePort): boolean {
  return cluster.endpoints.length > 0
}

/** Parts of rules that several rules of a port have in common. */
function wordsOf(servicePort: ServicePort) {
  const { name, protocol, port, family } = servicePort
  const hasAny = hasEndpoint(servicePort)
  const rule = (what: string): string => `-p ${protocol} ${comment(`${name} ${what}`)} -m ${protocol} --dport ${port}`
  const target = hasAny
    ? '-j DROP'
    : `-j REJECT --reject-with ${family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'}`
  const what = hasAny ? 'has no local endpoints' : 'has no endpoints'
  return {
    hash: chainHash(name + protocol),
    to: (address: string): string => `-d ${host(address)}`,
    rule,
    cluster: rule('cluster IP'),
    refuse: `${rule(what)} ${target}`,
    why: `${name} ${what}`,
    target,
  }
}

const comment = (text: string): string => `-m comment --comment ${quoteWord(text)}`
const host = (address: string): string => `${address}/${address.includes(':') ? 128 : 32}`

/** The rule that marks traffic to the cluster IP for masquerading. */
function masqueradeRule(
  clusterIp: string,
  match: string,
  { localTraffic, masqueradeAll }: ServicePortSettings,
): readonly string[] {
  const rule = `${match} -j KUBE-MARK-MASQ`
  const to = `-d ${host(clusterIp)}`
  if (masqueradeAll) return [`${to} ${rule}`]
  const outside = localTraffic === undefined ? undefined : notLocal(localTraffic)
  if (outside === undefined) return []
  // The order in which iptables-save prints them: source, destination, interface.
  return [localTraffic?.kind === 'cidr' ? `${outside} ${to} ${rule}` : `${to} ${outside} ${rule}`]
}

/**
 * The rules for external traffic before the jump to endpoints. @param cluster the chain for traffic
 * that may use all endpoints
 */
function externalRules(
  { name, external }: ServicePort,
  cluster: string,
  { localTraffic }: ServicePortSettings,
): readonly string[] {
  if (external.policy === 'Cluster')
    return [`${comment(`masquerade traffic for ${name} external destinations`)} -j KUBE-MARK-MASQ`]
  const inside = localTraffic === undefined ? undefined : isLocal(localTraffic)
  const fromNode = '-m addrtype --src-type LOCAL'
  return [
    ...(inside === undefined
      ? []
      : [`${inside}${comment(`pod traffic for ${name} external destinations`)} -j ${cluster}`]),
    `${comment(`masquerade LOCAL traffic for ${name} external destinations`)} ${fromNode} -j KUBE-MARK-MASQ`,
    `${comment(`route LOCAL traffic for ${name} external destinations`)} ${fromNode} -j ${cluster}`,
  ]
}

/** The kernel keeps a probability as a fraction of 2^31, and that is what iptables-save prints. */
const PROBABILITY_ONE = 2 ** 31

function balance(
  { name, service: { affinityTimeoutSeconds: seconds } }: ServicePort,
  endpoints: readonly NamedEndpoint[],
  chainOf: ReadonlyMap<string, string>,
  { withComments, hasRecent, hasStatistic }: ServicePortSettings,
): readonly string[] {
  const places = endpoints.map(({ address, text }) => ({
    chain: chainOf.get(text) ?? '',
    words: withComments ? `${comment(`${name} -> ${text}`)} ` : '',
    mask: maskOf(address),
  }))
  const returning =
    seconds === 0 || !hasRecent
      ? []
      : places.map(
          ({ chain, words, mask }) =>
            `${words}-m recent --rcheck --seconds ${seconds} --reap --name ${chain} --mask ${mask} --rsource -j ${chain}`,
        )
  const fresh = (hasStatistic ? places : places.slice(-1)).map(({ chain, words }, index, all) => {
    const left = all.length - index
    if (left === 1) return `${words}-j ${chain}`
    const probability = (Math.round(PROBABILITY_ONE / left) / PROBABILITY_ONE).toFixed(11)
    return `${words}-m statistic --mode random --probability ${probability} -j ${chain}`
  })
  return [...returning, ...fresh]
}

function endpointRules(
  { name, protocol, service: { affinityTimeoutSeconds } }: ServicePort,
  { address, text }: NamedEndpoint,
  chain: string,
  { withComments, hasRecent }: ServicePortSettings,
): readonly string[] {
  const words = withComments ? `${comment(name)} ` : ''
  const remember =
    affinityTimeoutSeconds === 0 || !hasRecent
      ? ''
      : `-m recent --set --name ${chain} --mask ${maskOf(address)} --rsource `
  return [
    // The answer of an endpoint to itself must return through this node (hairpin).
    `-s ${host(address)} ${words}-j KUBE-MARK-MASQ`,
    `-p ${protocol} ${words}${remember}-m ${protocol} -j DNAT --to-destination ${text}`,
  ]
}

function maskOf(address: string): string {
  return address.includes(':') ? 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' : '255.255.255.255'
}
