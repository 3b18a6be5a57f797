/** A Service with its slices and a node, whose contribution the tests look at. */
import type { AddressFrontend } from '../../src/service/frontends.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { EndpointSlice } from '../../src/service/objects.ts'
import { formatEndpoint } from '../../src/values/address.ts'
import { endpoint, service, servicePort, slice, slicePort } from '../support/objects.ts'

export const PORT = servicePort({ name: 'http', port: 80 })
export const SERVICE = service({ clusterIps: { IPv4: '10.20.30.41' }, ports: [PORT] })
export const NODE: NodeContext = {
  nodeName: 'node0',
  zone: 'zone-a',
  nodeIps: { IPv4: '100.101.102.103', IPv6: '2001:db8::1:1' },
  localAddresses: new Set(['100.101.102.103', '2001:db8::1:1']),
  nodePortAddresses: { IPv4: ['100.101.102.103'], IPv6: ['2001:db8::1:1'] },
}

export const SLICE4 = slice({
  name: 'web-4',
  ports: [
    slicePort({ name: 'http', port: 8080 }),
    slicePort({ name: 'dns', protocol: 'udp', port: 5353 }),
    slicePort({ name: 'sig', protocol: 'sctp', port: 9000 }),
  ],
  endpoints: [
    endpoint({ address: '10.180.0.1', nodeName: 'node0' }),
    endpoint({ address: '10.180.1.1', nodeName: 'node1' }),
  ],
})
export const SLICE6: EndpointSlice = {
  ...SLICE4,
  name: 'web-6',
  family: 'IPv6',
  endpoints: [endpoint({ address: '1002:ab8::2:10', nodeName: 'node1' })],
}
export const SLICES = [SLICE4, SLICE6]

/** `ClusterIP 10.20.30.41:80/tcp bind Cluster -> 10.180.0.1:8080 …`; several roles with a plus between. */
export function print({ roles, key, bind, selection, servicePort }: AddressFrontend): string {
  const { affinityTimeoutSeconds } = servicePort.service
  const words = [roles.join('+'), key, ...(bind ? ['bind'] : []), selection.policy]
  if (affinityTimeoutSeconds > 0) words.push(`affinity=${affinityTimeoutSeconds}`)
  return [...words, '->', ...selection.endpoints.map(({ address, port }) => formatEndpoint(address, port))].join(' ')
}
