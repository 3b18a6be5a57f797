/**
 * The API server's objects as small immutable values, as `watch` parses them. Addresses are
 * canonical text (lower case, shortest IPv6 form), so they compare with `===` and serve as map
 * keys. A field that is missing in the object has its Kubernetes default here.
 */
import type { IpFamily, Protocol } from '../values/protocol.ts'

export type TrafficPolicy = 'Cluster' | 'Local'

/** One port of a Service (core/v1 ServicePort). */
export interface ServicePortSpec {
  /** Port name; '' when the only port has none. */
  readonly name: string
  readonly protocol: Protocol
  /** 1-65535 */
  readonly port: number
  /** 0 when there is none */
  readonly nodePort: number
}

/** A Service (core/v1) that has at least one cluster IP. Headless and ExternalName Services never become one. */
export interface Service {
  readonly namespace: string
  readonly name: string
  /**
   * metadata.creationTimestamp in milliseconds since the epoch; 0 when absent (a manifest). Decides
   * conflicts: older wins.
   */
  readonly createdAtMs: number
  /** Cluster IP of each family it has one of. */
  readonly clusterIps: { readonly [family in IpFamily]?: string }
  readonly ports: readonly ServicePortSpec[]
  /** spec.externalIPs of both families, only valid ones, in object order. */
  readonly externalIps: readonly string[]
  /** status.loadBalancer.ingress[].ip with ipMode VIP or absent, both families, in object order. */
  readonly loadBalancerVips: readonly string[]
  /** spec.loadBalancerSourceRanges, trimmed, only valid ones: canonical CIDR text with host bits cleared. */
  readonly sourceRanges: readonly string[]
  readonly internalTrafficPolicy: TrafficPolicy
  /** 'Local' only where Kubernetes gives the field a meaning (LoadBalancer, NodePort, ClusterIP with externalIPs). */
  readonly externalTrafficPolicy: TrafficPolicy
  /** sessionAffinity ClientIP: its timeout in seconds (default 10800); 0 when affinity is None. */
  readonly affinityTimeoutSeconds: number
  /**
   * Its annotations that SERVICE_ANNOTATION names, not checked, as `annotationsText` writes them:
   * one text for all Services with the same ones; '' for none.
   */
  readonly annotations: string
  /** spec.healthCheckNodePort of a LoadBalancer Service with external policy Local; otherwise 0. */
  readonly healthCheckNodePort: number
}

/** One endpoint of a slice. Absent conditions have their API defaults: ready and serving true, terminating false. */
export interface SliceEndpoint {
  /** First address of the endpoint. */
  readonly address: string
  readonly ready: boolean
  readonly serving: boolean
  readonly terminating: boolean
  /** '' when absent */
  readonly nodeName: string
  /** The zone that it is in; undefined when absent. */
  readonly zone?: string
  /** hints.forZones names; undefined when there are none */
  readonly zoneHints?: readonly string[]
  /** hints.forNodes names; undefined when there are none */
  readonly nodeHints?: readonly string[]
}

/** A port of a slice that has a name (maybe '') and a number from 1 to 65535. */
export interface SlicePort {
  readonly name: string
  readonly protocol: Protocol
  readonly port: number
}

/** An EndpointSlice (discovery.k8s.io/v1) of address type IPv4 or IPv6 that names its Service. */
export interface EndpointSlice {
  readonly namespace: string
  readonly name: string
  /** label kubernetes.io/service-name */
  readonly serviceName: string
  readonly family: IpFamily
  /**
   * Annotation endpoints.kubernetes.io/last-change-trigger-time: the time of the event that changed
   * the endpoints (a pod became ready), in milliseconds since the epoch; 0 when absent.
   */
  readonly triggeredAtMs: number
  readonly ports: readonly SlicePort[]
  readonly endpoints: readonly SliceEndpoint[]
}

/** The Node this proxy runs on (core/v1), or, for its labels only, another one. */
export interface Node {
  readonly name: string
  /** label topology.kubernetes.io/zone; '' when absent */
  readonly zone: string
  /** InternalIP addresses before ExternalIP ones, in object order. */
  readonly addresses: readonly string[]
  readonly podCidrs: readonly string[]
  /** taint keys (effect and value are of no use to a proxy) */
  readonly taintKeys: readonly string[]
  readonly deleting: boolean
  /**
   * Its labels, where the source was asked for some: those that rules of Services name, or all of a
   * manifest. Absent when there is none of them.
   */
  readonly labels?: Readonly<Record<string, string>>
}

export const OBJECT_KINDS = ['nodes', 'services', 'endpointslices'] as const
export type ObjectKind = (typeof OBJECT_KINDS)[number]

/**
 * One change of one object. `value` is undefined when the object was deleted or is no longer one
 * that we proxy. `key` is `namespace/name`; the key of a Node is its name.
 */
export type ObjectChange =
  | { readonly kind: 'services'; readonly key: string; readonly value: Service | undefined }
  | { readonly kind: 'endpointslices'; readonly key: string; readonly value: EndpointSlice | undefined }
  | { readonly kind: 'nodes'; readonly key: string; readonly value: Node | undefined }
