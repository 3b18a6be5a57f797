/**
 * The way of an endpoint's answer. Only this node can translate it back, so the client hears
 * nothing when the answer goes past it, or when a rule drops it here. Of other nodes nothing is
 * known: that they send the answer by the shortest way is taken for granted.
 */
import type { HookWalk } from './hooks.ts'
import { listOf, type PacketState, type Prediction } from './state.ts'
import type { AnswerPath, End, PathStep } from './types.ts'

type EndpointEnd = End & { readonly kind: 'endpoint' }

/** How an address is reached from here. */
type Reach =
  /** An address of this node. */
  | { readonly kind: 'here' }
  /** A neighbour at an interface that leads to no other machine: a Pod of this node. */
  | { readonly kind: 'attached'; readonly interface: string }
  | { readonly kind: 'elsewhere'; readonly interface: string }
  | { readonly kind: 'nowhere' }

/**
 * undefined when the kernel has to be asked first.
 * @param state the packet as the endpoint gets it
 * @param client the source that the packet began with
 */
export function answerPath(
  prediction: Prediction,
  newWalk: () => HookWalk,
  state: PacketState,
  end: EndpointEnd,
  client: string,
): AnswerPath | undefined {
  const endpoint = reachOf(prediction, end.address)
  const from = reachOf(prediction, client)
  if (endpoint === undefined || from === undefined) return undefined
  if (end.source.kind === 'own') {
    const passed = bypass(prediction, state, endpoint, from, client)
    if (passed !== undefined) return passed
  }
  return walkAnswer(prediction, newWalk(), state, end, endpoint, client)
}

function reachOf(prediction: Prediction, address: string): Reach | undefined {
  const answer = prediction.route({ destination: address, source: undefined, arrivesAt: undefined, mark: 0 })
  if (answer === undefined) return undefined
  const { decision } = answer
  if (decision.kind === 'local') return { kind: 'here' }
  if (decision.kind === 'none') return { kind: 'nowhere' }
  const isUplink = prediction.picture.interfaces.get(decision.interface)?.isUplink ?? true
  const kind = decision.gateway === undefined && !isUplink ? 'attached' : 'elsewhere'
  return { kind, interface: decision.interface }
}

/** Why the answer to a client that is not masqueraded may not come through this node; undefined when it does. */
function bypass(
  { picture }: Prediction,
  { family }: PacketState,
  endpoint: Reach,
  from: Reach,
  client: string,
): AnswerPath | undefined {
  if (endpoint.kind === 'here') return undefined
  if (endpoint.kind === 'attached') {
    const isSameBridge = from.kind === 'attached' && from.interface === endpoint.interface
    if (!isSameBridge || picture.seesBridged[family]) return undefined
    return {
      kind: 'bypasses',
      because: `the endpoint and the client are neighbours at ${endpoint.interface}, and the kernel does not show rules what passes a bridge`,
    }
  }
  if (from.kind === 'attached') return undefined
  if (from.kind === 'here') {
    if (!picture.virtualIps.has(client)) return undefined
    return {
      kind: 'unsure',
      because: `the endpoint sees the virtual IP ${client}, which its own node may answer for too`,
    }
  }
  return {
    kind: 'bypasses',
    because: 'the endpoint is on another node, sees the address of the client and answers it directly',
  }
}

/** The first packet of the answer at this node, with its translation undone as far as the rules see it. */
function walkAnswer(
  prediction: Prediction,
  walk: HookWalk,
  state: PacketState,
  end: EndpointEnd,
  endpoint: Reach,
  client: string,
): AnswerPath | undefined {
  const answer: PacketState = {
    ...state,
    source: end.address,
    destination: client,
    sourcePort: end.port,
    port: undefined,
    inInterface: endpoint.kind === 'attached' || endpoint.kind === 'elsewhere' ? endpoint.interface : '',
    outInterface: '',
    mark: 0,
    connection: 'ESTABLISHED',
    virtualServer: undefined,
    share: 1,
    conditions: undefined,
    doublings: 0,
    steps: undefined,
  }
  if (endpoint.kind === 'here') {
    const route = prediction.route({ destination: client, source: undefined, arrivesAt: undefined, mark: 0 })
    if (route === undefined) return undefined
    walk.send(answer, route.decision)
  } else walk.arrive(answer)
  const lost = walk.ended.filter(
    ({ end: { kind } }) => kind === 'dropped' || kind === 'refused' || kind === 'unroutable',
  )
  const [first] = lost
  if (first === undefined) return walk.ended.length === 0 ? undefined : { kind: 'returns' }
  const steps: readonly PathStep[] = listOf(first.state.steps)
  if (lost.length === walk.ended.length) return { kind: 'dropped', steps }
  return { kind: 'unsure', because: `the answer passes only if this rule lets it pass: ${steps.at(-1)?.rule ?? ''}` }
}
