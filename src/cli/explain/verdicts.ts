/**
 * Why an endpoint is used or not, in words: one sentence for each verdict, with the names and
 * policies that decided.
 */
import { firstNames } from '../../values/lists.ts'
import type { EndpointView, ServicePortView } from '../../inspect/view.ts'
import { isUsed, type Verdict } from '../../service/endpoints.ts'
import { quote } from '../../values/quote.ts'

/** Which of the two kinds of traffic a verdict is about: that to the cluster IP, or that to every other address. */
export type TrafficKind = 'internal' | 'external'

/** What sentences name of the node. */
export interface NodeNames {
  /** '' when it is not known. */
  readonly name: string
  /** Label topology.kubernetes.io/zone; null when it is not known, '' when the Node has none. */
  readonly zone: string | null
}

export interface VerdictWords {
  readonly verdict: Verdict
  readonly isUsed: boolean
  /** A whole clause without an actor: `it is ready`. */
  readonly because: string
  /** What decided, in the words of Kubernetes: `condition ready`, `hints for zones`. */
  readonly rule: string
}

/** Names of a list that a sentence repeats. */
const MAX_NAMES = 4

export function verdictWords(
  endpoint: EndpointView,
  kind: TrafficKind,
  port: Pick<ServicePortView, 'internalPolicy' | 'externalPolicy'>,
  node: NodeNames,
): VerdictWords {
  const verdict = endpoint[kind]
  const policy = kind === 'internal' ? 'internalTrafficPolicy' : 'externalTrafficPolicy'
  const isLocalPolicy = (kind === 'internal' ? port.internalPolicy : port.externalPolicy) === 'Local'
  const words = (because: string, rule: string): VerdictWords => ({ verdict, isUsed: isUsed(verdict), because, rule })
  switch (verdict) {
    case 'used':
      return words('it is ready', 'condition ready')
    case 'used-local':
      return words(`it is ready and runs on this node, and ${policy} is Local`, `${policy}: Local`)
    case 'used-node-hint':
      return words(`it is ready, and its hints name this node (${nameOf(node)})`, 'hints for nodes')
    case 'used-zone-hint':
      return words(`it is ready, and its hints name the zone of this node (${zoneOf(node)})`, 'hints for zones')
    case 'used-no-local':
      return words(
        `it is ready; ${policy} is Local and no endpoint runs on this node, so only clients inside the cluster are served, by ` +
          `endpoints elsewhere`,
        `${policy}: Local, without an endpoint on this node`,
      )
    case 'used-terminating':
      return words(
        `it terminates but still serves, and no endpoint${isLocalPolicy && endpoint.isLocal ? ' on this node' : ''} is ready`,
        'terminating endpoints when none is ready',
      )
    case 'not-ready':
      return words('it is not ready', 'condition ready')
    case 'not-serving':
      return words('it terminates and no longer serves', 'condition serving')
    case 'terminating':
      return words(
        `it terminates, and there are ready endpoints${isLocalPolicy ? ' that can be used' : ''}`,
        'condition terminating',
      )
    case 'not-local':
      return words(
        `it runs on ${endpoint.node === '' ? 'no known node' : `node ${quote(endpoint.node)}`}, not on this one, and ${policy} is Local`,
        `${policy}: Local`,
      )
    case 'other-node-hint':
      return words(
        `its hints are for ${listed(endpoint.nodeHints, 'node', 'nodes')}, and other endpoints are hinted to this node (${nameOf(node)})`,
        'hints for nodes',
      )
    case 'other-zone-hint':
      return words(
        `its hints are for ${listed(endpoint.zoneHints, 'zone', 'zones')}, and this node is in zone ${zoneOf(node)}`,
        'hints for zones',
      )
  }
}

function nameOf({ name }: NodeNames): string {
  return name === '' ? 'unknown' : quote(name)
}

function zoneOf({ zone }: NodeNames): string {
  return zone === null || zone === '' ? 'unknown' : quote(zone)
}

function listed(names: readonly string[], one: string, many: string): string {
  if (names.length === 0) return `no ${one}`
  return `${names.length === 1 ? one : many} ${firstNames(names.map(quote), MAX_NAMES)}`
}
