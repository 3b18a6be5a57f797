/**
 * Text identities of virtual and real servers: map keys that also print.
 * What could break: a virtual server's key is equal to the FrontendKey it is rendered from.
 */
import { frontendKey } from '../service/frontends.ts'
import { formatEndpoint } from '../values/address.ts'
import type { RealServer, RealServerKey, VirtualServerId, VirtualServerKey } from './types.ts'

/** `10.96.0.1:443/tcp` or `[fd00::1]:443/tcp`. */
export function virtualServerKey(id: Pick<VirtualServerId, 'address' | 'port' | 'protocol'>): VirtualServerKey {
  return frontendKey(id.address, id.port, id.protocol)
}

/** `10.244.0.5:8080` or `[fd00::5]:8080`. */
export function realServerKey(server: Pick<RealServer, 'address' | 'port'>): RealServerKey {
  return formatEndpoint(server.address, server.port)
}

/** The address part of a virtual or real server key. */
export function addressOfKey(key: string): string {
  const colon = key.lastIndexOf(':')
  return key.startsWith('[') ? key.slice(1, colon - 1) : key.slice(0, colon)
}

/** Order of real servers inside a virtual server: by the text of the address, then by port. Makes no strings: it is called often. */
export function compareRealServers(a: RealServer, b: RealServer): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1
  return a.port - b.port
}
