/**
 * Which flows are stale: those to a UDP frontend that are answered by an endpoint that no longer
 * should. Pure. As in kube-proxy, address and port are compared, and a serving endpoint keeps its
 * flows, whatever policy and topology say and even while it terminates; an endpoint that is ready
 * but not serving does not. As in kube-proxy 1.37, a port without any serving endpoint keeps no
 * flow; unlike there, its node port keeps none either.
 */
import type { ServicePort } from '../service/service-port.ts'
import { frontendKey, type FrontendKey, parseFrontendKey } from '../service/frontends.ts'
import { familyOf, formatEndpoint } from '../values/address.ts'
import type { Flow, FlowFilter } from './types.ts'

/** The part of a Service port that decides which endpoints may answer its flows. */
export type FlowFrontend = Pick<ServicePort, 'candidates'>

/** UDP frontends whose flows may be stale, in their current state; undefined: the frontend does not exist any more. */
export type Suspects = ReadonlyMap<FrontendKey, FlowFrontend | undefined>

/** The endpoints that may continue to answer flows to a frontend, as `ip:port`: all that serve. */
export function servingEndpoints({ candidates }: FlowFrontend): ReadonlySet<string> {
  const serving = new Set<string>()
  for (const { address, port, source } of candidates) if (source.serving) serving.add(formatEndpoint(address, port))
  return serving
}

/**
 * A test for flows: true for a flow to a suspect that none of its serving endpoints answers. If the
 * frontend does not exist any more, every translated flow is stale; one without translation belongs
 * to the current owner of the address.
 */
export function staleRule(suspects: Suspects): (flow: Flow) => boolean {
  const serving = new Map<FlowFrontend, ReadonlySet<string>>()
  return ({ protocol, original, reply }) => {
    const key = frontendKey(original.destination, original.destinationPort, protocol)
    if (!suspects.has(key)) return false
    const frontend = suspects.get(key)
    if (frontend === undefined)
      return reply.source !== original.destination || reply.sourcePort !== original.destinationPort
    let endpoints = serving.get(frontend)
    if (endpoints === undefined) serving.set(frontend, (endpoints = servingEndpoints(frontend)))
    return !endpoints.has(formatEndpoint(reply.source, reply.sourcePort))
  }
}

/**
 * One filter that all flows to these suspects pass. There must be at least one suspect, and all
 * must be of one family.
 */
export function filterFor(suspects: Suspects): FlowFilter {
  let first: { readonly address: string; readonly port: number } | undefined
  let sameAddress = true
  let samePort = true
  for (const key of suspects.keys()) {
    const { address, port } = parseFrontendKey(key)
    first ??= { address, port }
    sameAddress &&= address === first.address
    samePort &&= port === first.port
    if (!sameAddress && !samePort) break
  }
  if (first === undefined) throw new TypeError('no frontend to make a filter for')
  return {
    family: familyOf(first.address),
    protocol: 'udp',
    ...(sameAddress ? { destination: first.address } : {}),
    ...(samePort ? { destinationPort: first.port } : {}),
  }
}
