/**
 * What iptables mode serves, read back from its rules: kube-proxy and this program name the Service of each rule in its comment. Pure.
 * A rule without such a comment is left out, so that nothing is shown under a wrong name.
 */
import { familyOf, formatEndpoint } from '../../values/address.ts'
import type { IpFamily } from '../../values/protocol.ts'
import type { SavedTable, SavedTables } from '../../iptables/save-text.ts'
import { wordsOf } from '../../iptables/rule-text.ts'
import { ANY_ADDRESS } from '../../values/well-known.ts'

/** What becomes of a connection that no endpoint takes. */
export type WithoutEndpoints = 'refused' | 'dropped'

/** One address or node port of a Service, as clients see it. */
export interface SavedFrontend {
  /** `namespace/name:port`, or `namespace/name` when the port has no name. */
  readonly service: string
  /** `10.96.0.1:80/tcp`; of a node port `0.0.0.0:30080/tcp` or `[::]:30080/tcp`, which stands for the node's addresses. */
  readonly key: string
  readonly kind: SavedKind
  /** `10.244.0.1:8080`, in the order of the rules, each once. */
  readonly endpoints: readonly string[]
  /** undefined while there is an endpoint. */
  readonly without: WithoutEndpoints | undefined
}

/** `external`: an external IP or an address of a load balancer; rules that refuse do not say which. */
export type SavedKind = 'cluster IP' | 'external IP' | 'load balancer' | 'external' | 'node port'

const KINDS: Readonly<Record<string, SavedKind>> = {
  'cluster IP': 'cluster IP',
  'external IP': 'external IP',
  'loadbalancer IP': 'load balancer',
}

/** Whether these rules are those of iptables mode, even without any Service. */
export function isOfIptablesMode(saved: SavedTables): boolean {
  return saved.get('filter')?.has('KUBE-EXTERNAL-SERVICES') === true
}

/** All of a family, sorted by Service and key. */
export function savedFrontends(saved: SavedTables, family: IpFamily): readonly SavedFrontend[] {
  const nat: SavedTable = saved.get('nat') ?? new Map()
  const filter: SavedTable = saved.get('filter') ?? new Map()
  const found = new Map<string, SavedFrontend>()
  const add = (frontend: SavedFrontend): void => {
    const before = found.get(frontend.key)
    // What is refused or dropped has no endpoint for clients from outside, whatever the rule in nat leads to.
    if (before === undefined) found.set(frontend.key, frontend)
    else if (frontend.without !== undefined)
      found.set(frontend.key, { ...before, without: frontend.without, endpoints: [] })
  }
  if (isOfIptablesMode(saved)) {
    for (const rule of [...(nat.get('KUBE-SERVICES') ?? []), ...(nat.get('KUBE-NODEPORTS') ?? [])])
      for (const frontend of servedBy(readRule(rule), nat, family)) add(frontend)
    for (const [chain, kind] of [
      ['KUBE-SERVICES', 'cluster IP'],
      ['KUBE-EXTERNAL-SERVICES', 'external'],
    ] as const)
      for (const rule of filter.get(chain) ?? [])
        for (const frontend of refusedBy(readRule(rule), kind, family)) add(frontend)
  }
  return Array.from(found.values()).sort((a, b) => compare(a.service, b.service) || compare(a.key, b.key))
}

interface Rule {
  readonly options: ReadonlyMap<string, string>
  readonly comment: string
  readonly target: string
}

/** The options that count here: each has one value. */
function readRule(text: string): Rule {
  const words = wordsOf(text)
  const options = new Map<string, string>()
  for (const [index, word] of words.entries())
    if (word.startsWith('-') && words[index - 1] !== '--comment') options.set(word, words[index + 1] ?? '')
  return { options, comment: options.get('--comment') ?? '', target: options.get('-j') ?? '' }
}

/** A rule of nat that leads to a Service. */
function servedBy({ options, comment, target }: Rule, nat: SavedTable, family: IpFamily): SavedFrontend[] {
  if (!/^KUBE-(SVC|SVL|EXT|FW)-/.test(target)) return []
  const [, service, words] = /^(\S+\/\S+?)(?: (.+))?$/.exec(comment) ?? []
  if (service === undefined) return []
  // The rule of node ports at loopback addresses is there twice, the second time for all addresses.
  const isNodePort = words === undefined && !options.has('-d')
  const kind = isNodePort ? 'node port' : KINDS[words ?? '']
  const key = keyOf(options, isNodePort, family)
  if (kind === undefined || key === undefined) return []
  const endpoints = [...new Set(endpointsOf(target, nat, 0))]
  return [{ service, key, kind, endpoints, without: undefined }]
}

/** A rule of filter that refuses or drops what nobody answers. */
function refusedBy({ options, comment, target }: Rule, kind: SavedKind, family: IpFamily): SavedFrontend[] {
  const [, service] = /^(\S+\/\S+) has no (?:local )?endpoints$/.exec(comment) ?? []
  if (service === undefined || (target !== 'REJECT' && target !== 'DROP')) return []
  const isNodePort = !options.has('-d')
  const key = keyOf(options, isNodePort, family)
  if (key === undefined) return []
  const without = target === 'REJECT' ? 'refused' : 'dropped'
  return [{ service, key, kind: isNodePort ? 'node port' : kind, endpoints: [], without }]
}

function keyOf(options: ReadonlyMap<string, string>, isNodePort: boolean, family: IpFamily): string | undefined {
  const address = isNodePort ? ANY_ADDRESS[family] : options.get('-d')?.split('/')[0]
  const port = Number(options.get('--dport'))
  const protocol = options.get('-p')
  if (address === undefined || protocol === undefined || !Number.isInteger(port)) return undefined
  return familyOf(address) === family ? `${formatEndpoint(address, port)}/${protocol}` : undefined
}

/** How far rules lead from a Service to its endpoints: FW, EXT, SVC or SVL, SEP. */
const DEEPEST = 4

/** Endpoints that a chain leads to for clients from outside the node. */
function endpointsOf(chain: string, nat: SavedTable, depth: number): readonly string[] {
  const rules = (nat.get(chain) ?? []).map(readRule)
  if (depth > DEEPEST) return []
  if (chain.startsWith('KUBE-SEP-')) return rules.flatMap(({ options }) => options.get('--to-destination') ?? [])
  if (chain.startsWith('KUBE-EXT-')) {
    // The rules before the last one are for masquerading and for clients of this node.
    const last = rules.at(-1)
    return last === undefined || !/^KUBE-SV[CL]-/.test(last.target) || last.options.size > 1
      ? []
      : endpointsOf(last.target, nat, depth + 1)
  }
  return rules.flatMap(({ target }) =>
    /^KUBE-(EXT|SVC|SVL|SEP)-/.test(target) ? endpointsOf(target, nat, depth + 1) : [],
  )
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
