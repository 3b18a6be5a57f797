/**
 * One port of a Service in one family, with its endpoints selected: made once, so that nothing
 * selects endpoints a second time.
 */
import { sameList } from '../values/lists.ts'
import type { IpFamily, Protocol } from '../values/protocol.ts'
import type { ServiceChoices } from './annotations.ts'
import type { Endpoint, PortSelections, Selection } from './endpoints.ts'
import type { Service, ServicePortSpec, SliceEndpoint } from './objects.ts'
import { type SourceRanges, sameSourceRanges } from './source-ranges.ts'
import { DEFAULT_WEIGHT } from './weights.ts'

/** What all ports of one Service have in common in one family. */
export interface FamilyOfService {
  readonly service: Service
  readonly choices: ServiceChoices
  readonly family: IpFamily
  readonly vips: ReadonlySet<string>
  readonly externalIps: ReadonlySet<string>
  readonly ignoresExternalIps: boolean
  readonly firewall: SourceRanges | undefined
}

/** The endpoints of a Service port, selected. Ports of one Service with the same endpoints share it. */
export interface PortEndpoints extends PortSelections {
  /** All endpoints of the port, used or not. `verdicts[index]` of a selection is about `candidates[index]`. */
  readonly candidates: readonly Endpoint[]
  /**
   * The weights that the Service chooses: `weights[index]` is that of `candidates[index]`. Absent:
   * all have the same.
   */
  readonly weights?: readonly number[] | undefined
}

export interface ServicePort extends PortEndpoints {
  /** `namespace/name:port`, or `namespace/name` when the port has no name (Kubernetes' ServicePortName). */
  readonly name: string
  readonly family: IpFamily
  readonly protocol: Protocol
  /** 1-65535 */
  readonly port: number
  /** 1-65535; 0: the port has none. */
  readonly nodePort: number
  /**
   * The fields of the Service that `sameServicePort` compares. A frontend that did not change may
   * hold an older Service.
   */
  readonly service: Pick<
    Service,
    'namespace' | 'name' | 'createdAtMs' | 'healthCheckNodePort' | 'affinityTimeoutSeconds'
  >
  /** Compared with `===`. */
  readonly choices: ServiceChoices
  /**
   * The addresses in status.loadBalancer.ingress that this node permits, each once, in the order of
   * the Service. `sameServicePort` does not compare `vips` and `externalIps`, because each address
   * has a separate frontend.
   */
  readonly vips: ReadonlySet<string>
  /** The permitted addresses in spec.externalIPs. */
  readonly externalIps: ReadonlySet<string>
  /**
   * Whether the Service has external IPs in this family that the feature gate
   * AllowServiceExternalIPs turns off. kube-proxy in iptables mode still makes the chain for
   * external traffic then.
   */
  readonly ignoresExternalIps: boolean
  /** The sources that may connect to the VIPs; undefined: every source, or the port has no VIP. */
  readonly firewall: SourceRanges | undefined
  /**
   * Of a Service with a health check port: distinct addresses of its ready endpoints on this node
   * in this family, over all its ports. 0 for every other Service.
   */
  readonly localReadyEndpoints: number
  /** Whether the rules of ipvs mode accept packets to the health check port of the Service, if it has one. */
  readonly acceptsHealthChecks: boolean
}

const NO_WEIGHTS: readonly number[] = []

/** `namespace/name:port`, or `namespace/name` when the port has no name (Kubernetes' ServicePortName). */
function servicePortName(service: Service, port: ServicePortSpec): string {
  return `${service.namespace}/${service.name}${port.name === '' ? '' : `:${port.name}`}`
}

/** The ServicePort of `spec`, one of the ports of `shared.service`. */
export function makeServicePort(
  spec: ServicePortSpec,
  { service, choices, family, vips, externalIps, ignoresExternalIps, firewall }: FamilyOfService,
  { candidates, cluster, local, internal, external, weights }: PortEndpoints,
  { localReadyEndpoints, acceptsHealthChecks }: Pick<ServicePort, 'localReadyEndpoints' | 'acceptsHealthChecks'>,
): ServicePort {
  return {
    name: servicePortName(service, spec),
    family,
    protocol: spec.protocol,
    port: spec.port,
    nodePort: spec.nodePort,
    service,
    choices,
    vips,
    externalIps,
    ignoresExternalIps,
    firewall,
    localReadyEndpoints,
    acceptsHealthChecks,
    // Not spread: a cold start makes one for each port of the cluster.
    candidates,
    cluster,
    local,
    internal,
    external,
    weights,
  }
}

/** The weight of each endpoint of a selection of the port, in their order; undefined when the Service chooses none. */
export function weightsOf(
  { candidates, weights }: ServicePort,
  { endpoints }: Selection,
): readonly number[] | undefined {
  if (weights === undefined || endpoints === candidates) return weights
  // A selection has some of the candidates, in their order.
  let at = 0
  return endpoints.map((endpoint) => {
    while (at < candidates.length && candidates[at] !== endpoint) at++
    return weights[at++] ?? DEFAULT_WEIGHT
  })
}

/**
 * Whether two values of one Service port have the same effect on every table, health check and
 * metric. Verdicts only explain, so they are not compared. If a table renders another field, add it
 * here.
 */
export function sameServicePort(a: ServicePort, b: ServicePort): boolean {
  return (
    a === b ||
    (a.name === b.name &&
      a.family === b.family &&
      a.protocol === b.protocol &&
      a.port === b.port &&
      a.nodePort === b.nodePort &&
      sameService(a.service, b.service) &&
      a.choices === b.choices &&
      a.ignoresExternalIps === b.ignoresExternalIps &&
      a.localReadyEndpoints === b.localReadyEndpoints &&
      a.acceptsHealthChecks === b.acceptsHealthChecks &&
      a.internal.policy === b.internal.policy &&
      a.external.policy === b.external.policy &&
      sameCandidates(a.candidates, b.candidates) &&
      sameList(a.weights ?? NO_WEIGHTS, b.weights ?? NO_WEIGHTS) &&
      sameSelection(a.cluster, b.cluster) &&
      sameSelection(a.local, b.local) &&
      sameSourceRanges(a.firewall, b.firewall))
  )
}

function sameService(a: ServicePort['service'], b: ServicePort['service']): boolean {
  return (
    a === b ||
    (a.namespace === b.namespace &&
      a.name === b.name &&
      a.createdAtMs === b.createdAtMs &&
      a.healthCheckNodePort === b.healthCheckNodePort &&
      a.affinityTimeoutSeconds === b.affinityTimeoutSeconds)
  )
}

function sameSelection(a: Selection | undefined, b: Selection | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return sameEndpoints(a.endpoints, b.endpoints)
}

/** Whether two lists have the same addresses and ports. */
export function sameEndpoints(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let index = 0; index < a.length; index++) {
    if (a[index]?.address !== b[index]?.address || a[index]?.port !== b[index]?.port) return false
  }
  return true
}

/**
 * Whether the endpoints of a port are the same and in the same state: hairpin entries depend on the
 * node of an endpoint, and a UDP flow ends when its endpoint no longer serves.
 */
function sameCandidates(a: readonly Endpoint[], b: readonly Endpoint[]): boolean {
  return sameEndpoints(a, b) && a.every(({ source }, index) => sameSource(source, b[index]?.source))
}

function sameSource(a: SliceEndpoint, b: SliceEndpoint | undefined): boolean {
  return a === b || (b !== undefined && a.nodeName === b.nodeName && a.serving === b.serving)
}
