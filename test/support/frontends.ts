/** Frontends for tests of the code that renders them. */
import { type Endpoint, selectEndpoints } from '../../src/service/endpoints.ts'
import type { ServicePort } from '../../src/service/service-port.ts'
import { type AddressFrontend, frontendKey } from '../../src/service/frontends.ts'
import { NO_CHOICES } from '../../src/service/annotations.ts'
import type { Service } from '../../src/service/objects.ts'
import { familyOf } from '../../src/values/address.ts'
import { endpoint, service } from './objects.ts'

const WEB = service()

/** The fields that differ. The selections follow from the policies of `service` and from the candidates. */
export interface FrontendChange extends Partial<Omit<AddressFrontend, 'servicePort' | 'selection'>> {
  readonly service?: Service
  readonly servicePort?: Partial<ServicePort>
}

/** The endpoints of these addresses, on node1. */
export function endpointsAt(addresses: readonly string[]): readonly Endpoint[] {
  return addresses.map((address) => ({
    address,
    port: 8080,
    source: endpoint({ address, nodeName: 'node1' }),
  }))
}

/**
 * The ClusterIP 10.96.0.1:80/tcp of demo/web on node0 with these endpoints on another node, with
 * the fields of `change`.
 */
export function frontendOf(change: FrontendChange = {}, endpoints: readonly string[] = []): AddressFrontend {
  const { service = WEB, servicePort: portChange, ...own } = change
  const { address = '10.96.0.1', port = 80, roles = ['ClusterIP'], firewall } = own
  const candidates = portChange?.candidates ?? endpointsAt(endpoints)
  const { internalTrafficPolicy, externalTrafficPolicy } = service
  const servicePort: ServicePort = {
    name: `${service.namespace}/${service.name}:http`,
    family: familyOf(address),
    protocol: 'tcp',
    port,
    nodePort: 0,
    service,
    choices: NO_CHOICES,
    vips: new Set(),
    externalIps: new Set(),
    ignoresExternalIps: false,
    firewall,
    localReadyEndpoints: 0,
    acceptsHealthChecks: true,
    candidates,
    ...selectEndpoints(internalTrafficPolicy, externalTrafficPolicy, candidates, { nodeName: 'node0', zone: '' }),
    ...portChange,
  }
  return {
    key: frontendKey(address, port, servicePort.protocol),
    bind: true,
    firewall,
    ...own,
    address,
    port,
    roles,
    servicePort,
    selection: roles.join() === 'ClusterIP' ? servicePort.internal : servicePort.external,
  }
}
