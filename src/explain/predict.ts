/**
 * Predicts the path of the first packet of a connection through this node. Everything that decides
 * is in the picture and the answers; the same input gives the same prediction.
 */
import { familyOf } from '../values/address.ts'
import { answerPath } from './answers.ts'
import { virtualServerKey } from '../ipvs/types.ts'
import { HookWalk, virtualServerOf } from './hooks.ts'
import { mergedOutcomes } from './outcomes.ts'
import type { Answers, KernelPicture, Questions } from './picture.ts'
import { type Ended, type PacketState, plainStep, Prediction, withStep } from './state.ts'
import type { Packet, PacketPath, RouteDecision } from './types.ts'

export interface PredictedPath {
  /** Complete only when there are no questions. */
  readonly path: PacketPath
  /** What the kernel has to be asked before the same prediction is made again with the answers. */
  readonly questions: Questions
}

/** The path of the packet, as far as the answers reach. */
export function predictPath(picture: KernelPicture, answers: Answers, packet: Packet): PredictedPath {
  const prediction = new Prediction(picture, answers)
  const server = virtualServerOf(picture, packet)
  if (server !== undefined) prediction.expectServers(virtualServerKey(server))
  const start = startOf(prediction, packet)
  const ended =
    start === undefined ? [] : walkFrom(prediction, start).flatMap((one) => withAnswer(prediction, one, start.state))
  const { steps, outcomes } = mergedOutcomes(ended)
  return {
    path: {
      source: start?.state.source,
      arrivesAt: start?.state.inInterface === '' ? undefined : start?.state.inInterface,
      steps,
      outcomes,
      choice: outcomes.length > 1 ? prediction.choice : undefined,
      affinitySeconds: prediction.affinitySeconds,
      limits: prediction.limits,
    },
    questions: prediction.questions,
  }
}

interface Start {
  readonly state: PacketState
  /** How the kernel routes a packet of this node itself; undefined for one that arrives. */
  readonly decision: RouteDecision | undefined
}

/** undefined when the kernel has to be asked first. */
function startOf(prediction: Prediction, packet: Packet): Start | undefined {
  const { source, destination, arrivesAt } = packet
  const { picture } = prediction
  const family = familyOf(destination)
  if (picture.rules[family] === undefined) prediction.limit(`the rules of ${family} cannot be read`)
  const unspecified = family === 'IPv4' ? '0.0.0.0' : '::'
  const ownRoute = { destination, arrivesAt: undefined, mark: 0 }
  if (source === undefined) {
    const answer = prediction.route({ ...ownRoute, source: undefined })
    const chosen = answer?.source ?? unspecified
    return answer && { state: newState(picture, packet, chosen, ''), decision: answer.decision }
  }
  if (arrivesAt !== undefined) return { state: newState(picture, packet, source, arrivesAt), decision: undefined }
  const back = prediction.route({ ...ownRoute, destination: source, source: undefined })
  switch (back?.decision.kind) {
    case undefined:
      return undefined
    case 'local': {
      const answer = prediction.route({ ...ownRoute, source })
      return answer && { state: newState(picture, packet, source, ''), decision: answer.decision }
    }
    case 'out':
      return { state: newState(picture, packet, source, back?.decision.interface ?? ''), decision: undefined }
    case 'none':
      prediction.limit(`this node has no route to ${source}: at which interface the packet arrives is not known`)
      return { state: newState(picture, packet, source, ''), decision: undefined }
  }
}

function newState(
  picture: KernelPicture,
  { destination, port, protocol }: Packet,
  source: string,
  inInterface: string,
): PacketState {
  const family = familyOf(destination)
  return {
    family,
    protocol,
    source,
    destination,
    sourcePort: undefined,
    port,
    inInterface,
    outInterface: '',
    isBridged: picture.seesBridged[family] && picture.interfaces.get(inInterface)?.kind === 'bridge',
    mark: 0,
    connectionMark: 0,
    connection: 'NEW',
    isTracked: true,
    translated: undefined,
    natDone: { destination: false, source: false },
    masquerade: undefined,
    virtualServer: undefined,
    share: 1,
    conditions: undefined,
    doublings: 0,
    steps: undefined,
  }
}

function walkFrom(prediction: Prediction, { state, decision }: Start): readonly Ended[] {
  const walk = new HookWalk(prediction)
  if (decision === undefined) {
    walk.arrive(state)
    return walk.ended
  }
  const routed = withStep(state, plainStep('OUTPUT', 'routing', { kind: 'route', decision }))
  if (decision.kind === 'none') return [{ state: routed, end: { kind: 'unroutable', error: decision.error } }]
  walk.send(routed, decision)
  return walk.ended
}

/** The end with the way of its answer; nothing while that is not known. */
function withAnswer(prediction: Prediction, { state, end }: Ended, start: PacketState): readonly Ended[] {
  if (end.kind !== 'endpoint') return [{ state, end }]
  const answer = answerPath(prediction, () => new HookWalk(prediction), state, end, start.source)
  return answer === undefined ? [] : [{ state, end: { ...end, answer } }]
}
