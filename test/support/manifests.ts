/**
 * Services, EndpointSlices and Nodes for tests as Kubernetes has them, before our parsers: for
 * manifests and for API servers.
 */

/** A Kubernetes object as a manifest has it. */
export type Manifest = Readonly<Record<string, unknown>>

/**
 * Service demo/NAME of type ClusterIP with the port 80/tcp, which is named http and leads to 8080.
 * `spec` has at least one cluster IP, and replaces fields of the spec; `more.metadata` replaces
 * fields of the metadata.
 */
export function service(
  name: string,
  spec: Manifest,
  more: { readonly metadata?: Manifest; readonly status?: Manifest } = {},
): Manifest {
  const { clusterIP, clusterIPs = [clusterIP] } = spec
  return {
    apiVersion: 'v1',
    kind: 'Service',
    ...more,
    metadata: { name, namespace: 'demo', ...more.metadata },
    spec: {
      type: 'ClusterIP',
      clusterIP: Array.isArray(clusterIPs) ? clusterIPs[0] : clusterIP,
      clusterIPs,
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
      ...spec,
    },
  }
}

/**
 * IPv4 slice of Service demo/NAME with the port 8080/tcp, which is named http, and ready endpoints
 * on node0 at these addresses. `more` replaces fields of the slice, and `more.metadata` fields of
 * its metadata; a test of other endpoints gives no addresses and `more.endpoints`.
 */
export function slice(
  serviceName: string,
  addresses: readonly string[],
  more: Manifest & { readonly metadata?: Manifest } = {},
): Manifest {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    addressType: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true }, nodeName: 'node0' })),
    ...more,
    metadata: {
      name: `${serviceName}-${String(more['addressType'] ?? 'IPv4').toLowerCase()}`,
      namespace: 'demo',
      labels: { 'kubernetes.io/service-name': serviceName },
      ...more.metadata,
    },
  }
}

/** Node node0 with these addresses as InternalIPs. `more.metadata` replaces fields of its metadata. */
export function node(
  addresses: readonly string[],
  more: { readonly metadata?: Manifest; readonly spec?: Manifest } = {},
): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    ...more,
    metadata: { name: 'node0', ...more.metadata },
    status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
  }
}
