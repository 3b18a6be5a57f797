/**
 * The way of a packet through the hooks of the kernel (linux/netfilter_ipv4.h): at each hook the
 * tables in the order of their priorities, between them the routing, and IPVS after the filter of
 * INPUT or before that of OUTPUT. What IPVS sends passes OUTPUT once more, and the rules of nat see
 * a connection only once before and once after the routing.
 */
import { realServerKey, type VirtualServerFields, virtualServerKey } from '../ipvs/types.ts'
import { FLAG_PERSISTENT } from '../ipvs/types.ts'
import { NAT_PRIORITY, passFilters, passNat, type Priorities } from './hook-chains.ts'
import { schedule } from './schedulers.ts'
import type { TableResult } from './chains.ts'
import type { KernelPicture } from './picture.ts'
import { type Ended, type PacketState, plainStep, type Prediction, times, withStep } from './state.ts'
import type { End, Hook, RouteDecision, SeenSource } from './types.ts'

/** Chains that see a packet before it is translated. */
const BEFORE_NAT = {
  PREROUTING: { to: NAT_PRIORITY.PREROUTING },
  INPUT: { to: NAT_PRIORITY.INPUT },
  OUTPUT: { to: NAT_PRIORITY.OUTPUT },
  POSTROUTING: { to: NAT_PRIORITY.POSTROUTING },
} as const satisfies Partial<Record<Hook, Priorities>>

export class HookWalk {
  readonly ended: Ended[] = []
  readonly #prediction: Prediction

  constructor(prediction: Prediction) {
    this.#prediction = prediction
  }

  /**
   * A packet that arrives at an interface. @param isLoop this node sent it to itself, and it keeps
   * the route that it had
   */
  arrive(state: PacketState, isLoop = false): void {
    for (const one of this.#filters('PREROUTING', BEFORE_NAT.PREROUTING, state))
      for (const two of this.#nat('PREROUTING', 'destination', one)) this.#routeArrived(two, isLoop)
  }

  #routeArrived(state: PacketState, isLoop: boolean): void {
    if (isLoop) return this.#input(state)
    const { destination, source, inInterface, mark } = state
    const answer = this.#prediction.route({ destination, source, arrivesAt: inInterface, mark })
    if (answer === undefined) return
    const { decision } = answer
    const routed = withStep(state, plainStep('PREROUTING', 'routing', { kind: 'route', decision }))
    if (decision.kind === 'local') this.#input(routed)
    else if (decision.kind === 'none') this.#end(routed, { kind: 'unroutable', error: decision.error })
    else this.#forward(routed, decision)
  }

  #input(state: PacketState): void {
    for (const one of this.#filters('INPUT', BEFORE_NAT.INPUT, state))
      if (!this.#balance('INPUT', one)) this.#deliver(one)
  }

  #deliver(state: PacketState): void {
    for (const one of this.#nat('INPUT', 'source', state)) this.#end(one, endOf(one, { kind: 'local' }))
  }

  #forward(state: PacketState, decision: RouteDecision & { readonly kind: 'out' }): void {
    if (!this.#prediction.picture.forwards[state.family])
      return this.#end(state, { kind: 'unroutable', error: 'this node does not forward packets' })
    const out = { ...state, outInterface: decision.interface }
    for (const one of this.#filters('FORWARD', {}, out)) this.#leave(one, decision)
  }

  /** A packet that this node itself sends, or IPVS. */
  send(state: PacketState, decision: RouteDecision): void {
    const out = { ...state, outInterface: decision.kind === 'out' ? decision.interface : 'lo' }
    for (const one of this.#filters('OUTPUT', BEFORE_NAT.OUTPUT, out)) {
      const marked = one.mark === out.mark ? { state: one, decision } : this.#routeAgain(one)
      if (marked === undefined) continue
      for (const two of this.#nat('OUTPUT', 'destination', marked.state)) {
        const isSame = two.destination === marked.state.destination
        const last = isSame ? { state: two, decision: marked.decision } : this.#routeAgain(two)
        if (last === undefined) continue
        if (!this.#balance('OUTPUT', last.state)) this.#filterOutput(last.state, last.decision)
      }
    }
  }

  /**
   * A packet that rules of OUTPUT have changed (ip_route_me_harder); undefined when it ended, or
   * when the kernel has to be asked first.
   */
  #routeAgain(state: PacketState): { readonly state: PacketState; readonly decision: RouteDecision } | undefined {
    const { destination, source, mark } = state
    const answer = this.#prediction.route({ destination, source, arrivesAt: undefined, mark })
    if (answer === undefined) return undefined
    const { decision } = answer
    const routed = withStep(state, plainStep('OUTPUT', 'routing', { kind: 'route', decision }))
    if (decision.kind === 'none') {
      this.#end(routed, { kind: 'unroutable', error: decision.error })
      return undefined
    }
    return { state: { ...routed, outInterface: decision.kind === 'out' ? decision.interface : 'lo' }, decision }
  }

  #filterOutput(state: PacketState, decision: RouteDecision): void {
    for (const one of this.#filters('OUTPUT', { from: NAT_PRIORITY.OUTPUT }, state)) this.#leave(one, decision)
  }

  #leave(state: PacketState, decision: RouteDecision): void {
    for (const one of this.#filters('POSTROUTING', BEFORE_NAT.POSTROUTING, state))
      for (const two of this.#nat('POSTROUTING', 'source', one)) {
        if (decision.kind !== 'local') this.#end(two, endOf(two, decision))
        else this.arrive({ ...two, inInterface: 'lo', outInterface: '', isBridged: false }, true)
      }
  }

  /** Whether IPVS took the packet. */
  #balance(hook: Hook, state: PacketState): boolean {
    const { picture } = this.#prediction
    // It leaves alone what it has sent itself, and pings.
    if (state.virtualServer !== undefined || state.protocol === 'icmp' || state.connection !== 'NEW') return false
    if (state.mark !== 0 && picture.fwmarks.has(state.mark))
      this.#prediction.limit(
        `IPVS has a virtual server for the firewall mark 0x${state.mark.toString(16)}, which is not followed`,
      )
    const server = virtualServerOf(picture, state)
    if (server === undefined) return false
    const key = virtualServerKey(server)
    const realServers = this.#prediction.realServers(key)
    if (realServers === undefined) return true
    const { servers, nobody, choice } = schedule(server, realServers)
    if (choice !== undefined) this.#prediction.choice = choice
    if ((server.flags & FLAG_PERSISTENT) !== 0)
      this.#prediction.affinitySeconds = Math.max(this.#prediction.affinitySeconds, server.timeoutSeconds)
    if (nobody > 0) {
      const refused = withStep(state, plainStep(hook, 'ipvs', { kind: 'no-real-server', virtualServer: key }))
      const by = state.family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'
      this.#end({ ...refused, share: times(state.share, nobody) }, { kind: 'refused', by })
    }
    for (const { server: realServer, share } of servers) {
      const { scheduler } = server
      const step = plainStep(hook, 'ipvs', {
        kind: 'balance',
        virtualServer: key,
        scheduler,
        realServer: realServerKey(realServer),
        share,
      })
      const chosen = withStep({ ...state, share: times(state.share, share) }, step)
      if (realServer.forwarding !== 'masquerade' && realServer.forwarding !== 'local')
        this.#prediction.limit(
          `the real server ${realServerKey(realServer)} has the forwarding method ${realServer.forwarding}: its way is taken to be that of masquerading`,
        )
      this.#sendBalanced(hook, chosen, server, realServer)
    }
    return true
  }

  #sendBalanced(
    hook: Hook,
    state: PacketState,
    server: VirtualServerFields,
    to: { readonly address: string; readonly port: number },
  ): void {
    const { ipvsTracksConnections: tracks } = this.#prediction.picture
    const sent: PacketState = {
      ...state,
      destination: to.address,
      port: to.port === 0 ? state.port : to.port,
      translated: 'ipvs',
      virtualServer: { address: server.address, port: state.port ?? server.port },
      isTracked: state.isTracked && tracks,
      natDone: { ...state.natDone, destination: true },
    }
    // IPVS asks without the mark and without a source.
    const answer = this.#prediction.route({ destination: to.address, source: undefined, arrivesAt: undefined, mark: 0 })
    if (answer === undefined) return
    const { decision } = answer
    if (decision.kind === 'none') return this.#end(sent, { kind: 'unroutable', error: decision.error })
    // For an endpoint on this node itself the packet goes on where it was.
    if (decision.kind === 'local') return hook === 'INPUT' ? this.#deliver(sent) : this.#filterOutput(sent, decision)
    const routed = withStep(sent, plainStep('OUTPUT', 'routing', { kind: 'route', decision }))
    this.send({ ...routed, inInterface: '' }, decision)
  }

  /** The rules of nat, which a connection passes once before the routing and once after it. */
  #nat(hook: Hook, part: 'destination' | 'source', state: PacketState): readonly PacketState[] {
    if (!state.isTracked || state.natDone[part] || state.connection !== 'NEW') return [state]
    return this.#follow(passNat(this.#prediction, hook, part, state))
  }

  /** The ways on which the packet passes the chains of these priorities. */
  #filters(hook: Hook, priorities: Priorities, state: PacketState): readonly PacketState[] {
    return this.#follow(passFilters(this.#prediction, hook, priorities, state))
  }

  #follow({ passed, ended }: TableResult): readonly PacketState[] {
    this.ended.push(...ended)
    return passed
  }

  #end(state: PacketState, end: End): void {
    this.ended.push({ state, end })
  }
}

/** The virtual server that takes a packet: that of its port, or else that of all ports. */
export function virtualServerOf(
  { virtualServers }: KernelPicture,
  { destination, port, protocol }: Pick<PacketState, 'destination' | 'port' | 'protocol'>,
): VirtualServerFields | undefined {
  if (protocol === 'icmp' || port === undefined) return undefined
  const at = (candidate: number): VirtualServerFields | undefined =>
    virtualServers.get(virtualServerKey({ address: destination, port: candidate, protocol }))
  return at(port) ?? at(0)
}

/** The source that the receiver sees. */
function seenSource({ masquerade, source }: PacketState): SeenSource {
  return masquerade === undefined ? { kind: 'own', address: source } : { kind: 'node', address: masquerade.address }
}

function endOf(state: PacketState, decision: RouteDecision): End {
  const source = seenSource(state)
  const { destination: address, port = 0, translated } = state
  if (translated !== undefined) {
    const isLocal = decision.kind === 'local'
    // The way of the answer is found after all ways of the packet are known.
    return { kind: 'endpoint', by: translated, address, port, source, isLocal, answer: { kind: 'returns' } }
  }
  if (decision.kind === 'out')
    return { kind: 'forwarded', interface: decision.interface, gateway: decision.gateway, source }
  return { kind: 'delivered', address, port, source }
}
