/**
 * Reads from saved rules what iptables mode serves. kube-proxy and this program name the Service of
 * a rule in its comment; a rule without such a comment is ignored, so that nothing is shown under a
 * wrong name.
 */
import { familyOf, formatEndpoint } from '../../values/address.ts'
import { compareText } from '../../values/lists.ts'
import type { IpFamily } from '../../values/protocol.ts'
import type { SavedTable, SavedTables } from '../../iptables/save-text.ts'
import { optionValues } from '../../iptables/rule-parts.ts'
import { type FrontendKey, nodePortKey, parseFrontendKey } from '../../service/frontends.ts'
import { isOfMode } from '../modes-in-kernel.ts'
import { ANY_ADDRESS } from '../../values/well-known.ts'
import { ownMember } from '../../values/own-member.ts'

/** What happens to a connection when there is no endpoint for it. */
export type WithoutEndpoints = 'refused' | 'dropped'

/** One address or node port of a Service, as its clients see it. */
export interface SavedFrontend {
  /** `namespace/name:port`, or `namespace/name` when the port has no name. */
  readonly service: string
  /**
   * `10.96.0.1:80/tcp`; of a node port `0.0.0.0:30080/tcp` or `[::]:30080/tcp`, which means every
   * address of the node.
   */
  readonly key: string
  readonly kind: SavedKind
  /** `10.244.0.1:8080`, in the order of the rules, each once. */
  readonly endpoints: readonly string[]
  /** undefined when there is an endpoint. */
  readonly without: WithoutEndpoints | undefined
}

/** `external`: an external IP or an address of a load balancer; rules that reject or drop do not say which. */
export type SavedKind = 'cluster IP' | 'external IP' | 'load balancer' | 'external' | 'node port'

const KINDS: Readonly<Record<string, SavedKind>> = {
  'cluster IP': 'cluster IP',
  'external IP': 'external IP',
  'loadbalancer IP': 'load balancer',
}

/** Its key as frontends have it, where a node port has no address. */
export function keyOfSaved({ key, kind }: Pick<SavedFrontend, 'key' | 'kind'>): FrontendKey {
  if (kind !== 'node port') return key
  const { family, port, protocol } = parseFrontendKey(key)
  return nodePortKey(family, port, protocol)
}

/** All frontends of a family, sorted by Service and key. */
export function savedFrontends(saved: SavedTables, family: IpFamily): readonly SavedFrontend[] {
  const nat: SavedTable = saved.get('nat') ?? new Map()
  const filter: SavedTable = saved.get('filter') ?? new Map()
  const found = new Map<string, SavedFrontend>()
  const add = (frontend: SavedFrontend): void => {
    const before = found.get(frontend.key)
    // A rule that rejects or drops has precedence: clients from outside reach no endpoint, whatever nat has.
    if (before === undefined) found.set(frontend.key, frontend)
    else if (frontend.without !== undefined)
      found.set(frontend.key, { ...before, without: frontend.without, endpoints: [] })
  }
  if (isOfMode('iptables', saved)) {
    for (const frontend of servedFrontends(nat, family)) add(frontend)
    for (const [chain, kind] of [
      ['KUBE-SERVICES', 'cluster IP'],
      ['KUBE-EXTERNAL-SERVICES', 'external'],
    ] as const)
      for (const rule of filter.get(chain) ?? [])
        for (const frontend of refusedBy(readRule(rule), kind, family)) add(frontend)
  }
  return Array.from(found.values()).sort((a, b) => compareText(a.service, b.service) || compareText(a.key, b.key))
}

/** The frontends that rules of the table nat serve, those too that rules of filter refuse before. */
export function servedFrontends(nat: SavedTable, family: IpFamily): readonly SavedFrontend[] {
  const rules = [...(nat.get('KUBE-SERVICES') ?? []), ...(nat.get('KUBE-NODEPORTS') ?? [])]
  const endpoints = new Endpoints(nat)
  return rules.flatMap((rule) => servedBy(readRule(rule), endpoints, family))
}

interface Rule {
  readonly options: ReadonlyMap<string, string>
  readonly comment: string
  readonly target: string
}

function readRule(text: string): Rule {
  const options = optionValues(text)
  return { options, comment: options.get('--comment') ?? '', target: options.get('-j') ?? '' }
}

/** The frontend of a rule of nat that jumps to a chain of a Service. */
function servedBy({ options, comment, target }: Rule, all: Endpoints, family: IpFamily): SavedFrontend[] {
  if (!/^KUBE-(SVC|SVL|EXT|FW)-/.test(target)) return []
  const [, service, words] = /^([^\s/]+\/[^\s/]+)(?: (.+))?$/.exec(comment) ?? []
  if (service === undefined) return []
  // A node port may have two rules: one for loopback addresses (-d 127.0.0.0/8), then one for all addresses.
  const isNodePort = words === undefined && !options.has('-d')
  const kind = isNodePort ? 'node port' : ownMember(KINDS, words ?? '')
  const key = keyOf(options, isNodePort, family)
  if (kind === undefined || key === undefined) return []
  return [{ service, key, kind, endpoints: all.of(target), without: undefined }]
}

/** The frontend of a rule of filter that rejects or drops traffic because there is no endpoint. */
function refusedBy({ options, comment, target }: Rule, kind: SavedKind, family: IpFamily): SavedFrontend[] {
  const [, service] = /^([^\s/]+\/[^\s/]+) has no (?:local )?endpoints$/.exec(comment) ?? []
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

/** Chains on the way from a Service to its endpoints. A chain leads only to those of a later kind, so that no path is a circle. */
const KIND = /^KUBE-(?:(FW)|(EXT)|(SVC|SVL)|(SEP))-/

/** The place of a chain on that way, from 1; 0 for any other chain. */
function placeOf(chain: string): number {
  const [, ...kinds] = KIND.exec(chain) ?? []
  return kinds.findIndex((kind) => kind !== undefined) + 1
}

/** The endpoints of chains, each of which is read once however many rules lead to it. */
class Endpoints {
  readonly #nat: SavedTable
  readonly #found = new Map<string, readonly string[]>()

  constructor(nat: SavedTable) {
    this.#nat = nat
  }

  /** Endpoints that clients from outside the node reach through a chain, each once. */
  of(chain: string): readonly string[] {
    const known = this.#found.get(chain)
    if (known !== undefined) return known
    const found = [...new Set(this.#read(chain))]
    this.#found.set(chain, found)
    return found
  }

  #read(chain: string): readonly string[] {
    const rules = (this.#nat.get(chain) ?? []).map(readRule)
    if (chain.startsWith('KUBE-SEP-')) return rules.flatMap(({ options }) => options.get('--to-destination') ?? [])
    const place = placeOf(chain)
    if (chain.startsWith('KUBE-EXT-')) {
      // The rules before the last one are for masquerading and for clients on this node.
      const last = rules.at(-1)
      return last === undefined || !/^KUBE-SV[CL]-/.test(last.target) || last.options.size > 1
        ? []
        : this.of(last.target)
    }
    return rules.flatMap(({ target }) => (placeOf(target) > place ? this.of(target) : []))
  }
}
