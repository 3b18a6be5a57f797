/** Frontends for tests of what is made of them. */
import { type Frontend, frontendKey } from '../../src/service/frontends.ts'
import type { Service } from '../../src/service/objects.ts'
import type { Endpoint } from '../../src/service/endpoints.ts'
import { familyOf } from '../../src/values/address.ts'

export const SERVICE: Service = {
  namespace: 'demo',
  name: 'web',
  createdAtMs: 0,
  clusterIps: { IPv4: '10.96.0.1' },
  ports: [{ name: 'http', protocol: 'tcp', port: 80, nodePort: 0 }],
  externalIps: [],
  loadBalancerVips: [],
  sourceRanges: [],
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: 'Cluster',
  affinityTimeoutSeconds: 0,
  healthCheckNodePort: 0,
}

/** A ClusterIP 10.96.0.1:80/tcp with these endpoints on another node, but for what `change` says. */
export function frontendOf(change: Partial<Frontend> = {}, endpoints: readonly string[] = []): Frontend {
  const { address = '10.96.0.1', port = 80, protocol = 'tcp' } = change
  const used = endpoints.map((one): Endpoint => {
    const source = { address: one, ready: true, serving: true, terminating: false, nodeName: 'node1' }
    return { address: one, port: 8080, source }
  })
  return {
    key: frontendKey(address, port, protocol),
    roles: ['ClusterIP'],
    family: familyOf(address),
    address,
    port,
    protocol,
    servicePortName: 'demo/web:http',
    affinityTimeoutSeconds: 0,
    bind: true,
    policy: 'Cluster',
    endpoints: used,
    candidates: used,
    verdicts: used.map(() => 'used'),
    noLocalEndpoints: false,
    localReadyEndpoints: 0,
    firewall: undefined,
    service: SERVICE,
    ...change,
  }
}
