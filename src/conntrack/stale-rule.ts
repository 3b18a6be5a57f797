/**
 * Which flows are stale: those to a UDP frontend that are answered by somebody who no longer should. Pure. As in
 * kube-proxy, address and port are compared, and only an endpoint that serves keeps its flows: it does whatever policy,
 * topology or its end say, and an endpoint that is ready without serving does not. Unlike in kube-proxy 1.36, a port
 * without any serving endpoint keeps no flow.
 */
import { type FrontendKey, frontendKey } from '../service/frontends.ts'
import type { ServicePort } from '../service/service-port.ts'
import { familyOf, formatEndpoint, parseEndpoint } from '../values/address.ts'
import type { Flow, FlowFilter } from './types.ts'

/** What of a frontend says who may answer its flows. */
export type FlowFrontend = Pick<ServicePort, 'candidates'>

/** UDP frontends whose flows may be stale, as they are now; undefined: it is no more. */
export type Suspects = ReadonlyMap<FrontendKey, FlowFrontend | undefined>

/** Who may go on answering flows to a frontend, as `ip:port`: every endpoint that serves. */
export function keptEndpoints({ candidates }: FlowFrontend): ReadonlySet<string> {
  const kept = new Set<string>()
  for (const { address, port, source } of candidates) if (source.serving) kept.add(formatEndpoint(address, port))
  return kept
}

/**
 * A test for flows: true for one that goes to a suspect and is not answered by one of those it keeps. Where the frontend is
 * no more that is every flow that was sent on to somewhere else; one that is not translated belongs to whoever has the
 * address now.
 */
export function staleRule(suspects: Suspects): (flow: Flow) => boolean {
  const kept = new Map<FlowFrontend, ReadonlySet<string>>()
  return ({ protocol, original, reply }) => {
    const key = frontendKey(original.destination, original.destinationPort, protocol)
    if (!suspects.has(key)) return false
    const frontend = suspects.get(key)
    if (frontend === undefined)
      return reply.source !== original.destination || reply.sourcePort !== original.destinationPort
    let endpoints = kept.get(frontend)
    if (endpoints === undefined) kept.set(frontend, (endpoints = keptEndpoints(frontend)))
    return !endpoints.has(formatEndpoint(reply.source, reply.sourcePort))
  }
}

/** One filter that lets the flows to every one of these suspects through; they are of one family, and at least one. */
export function filterFor(suspects: Suspects): FlowFilter {
  let first: { readonly address: string; readonly port: number } | undefined
  let sameAddress = true
  let samePort = true
  for (const key of suspects.keys()) {
    const { address, port } = parseEndpoint(key.slice(0, key.lastIndexOf('/')))
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
