/** The objects of a scenario as Kubernetes has them. */
import { ADDRESSES, NODE } from '../support/cluster.ts'
import { type Manifest, node, service, slice } from '../support/manifests.ts'
import {
  hasHealthCheck,
  hasNodePorts,
  healthCheckPort,
  loadBalancerIp,
  nodePort,
  type Scenario,
  type ServiceCase,
  SOURCE_RANGES,
  STATES,
  vip,
} from './scenario.ts'

/** The Node, and a Service with its slices for each case, numbered from 1. */
export function manifestsOf({ services }: Scenario): Manifest[] {
  const spec = { podCIDRs: ['10.244.0.0/24', 'fd00:10:244::/64'] }
  return [
    node(Object.values(NODE), { spec }),
    ...services.flatMap((one, index) => [serviceOf(one, index + 1), ...slicesOf(one, index + 1)]),
  ]
}

function serviceOf(one: ServiceCase, number: number): Manifest {
  const { type, families, internal, external, affinity, externalIPs, ingress, sourceRanges } = one
  const isReachable = type === 'NodePort' || type === 'LoadBalancer'
  const clusterIPs = families.map((family) => vip(number, 'ClusterIP', family))
  return service(
    nameOf(number),
    {
      type: type === 'headless' ? 'ClusterIP' : type,
      clusterIPs: type === 'headless' ? ['None'] : type === 'ExternalName' ? [''] : clusterIPs,
      ipFamilies: families,
      ipFamilyPolicy: families.length === 2 ? 'RequireDualStack' : 'SingleStack',
      ports: one.ports.map(({ protocol, port, targetPort, isNamed }, index) => ({
        name: portName(index),
        protocol: protocol.toUpperCase(),
        port,
        targetPort: isNamed ? `target-${targetPort}` : targetPort,
        ...(hasNodePorts(one) ? { nodePort: nodePort(number, index) } : {}),
      })),
      internalTrafficPolicy: internal,
      ...(isReachable || externalIPs ? { externalTrafficPolicy: external } : {}),
      ...(externalIPs ? { externalIPs: families.map((family) => vip(number, 'ExternalIP', family)) } : {}),
      ...(affinity
        ? { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } }
        : {}),
      ...(type === 'LoadBalancer'
        ? {
            allocateLoadBalancerNodePorts: one.allocatesNodePorts,
            loadBalancerSourceRanges: SOURCE_RANGES[sourceRanges],
            ...(hasHealthCheck(one) ? { healthCheckNodePort: healthCheckPort(number) } : {}),
          }
        : {}),
      ...(type === 'ExternalName' ? { externalName: 'elsewhere.example' } : {}),
    },
    type === 'LoadBalancer' && ingress !== 'none'
      ? {
          status: {
            loadBalancer: {
              ingress: families.map((family) => ({
                ip: loadBalancerIp(one, number, family),
                ipMode: ingress === 'Proxy' ? 'Proxy' : 'VIP',
              })),
            },
          },
        }
      : {},
  )
}

function slicesOf({ families, ports, endpoints }: ServiceCase, number: number): Manifest[] {
  return families.map((family) =>
    slice(nameOf(number), [], {
      addressType: family,
      ports: ports.map(({ protocol, targetPort }, index) => ({
        name: portName(index),
        protocol: protocol.toUpperCase(),
        port: targetPort,
      })),
      endpoints: endpoints.map(({ at, state }) => ({
        addresses: [(at === 'node' ? NODE : ADDRESSES[at])[family]],
        conditions: STATES[state],
        nodeName: at === 'c' ? 'node1' : 'node0',
      })),
    }),
  )
}

const nameOf = (number: number): string => `s${number}`
const portName = (index: number): string => `p${index}`
