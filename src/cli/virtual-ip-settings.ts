/**
 * What `kubeIPVS.allowedVirtualIPs` needs at the start: its ranges, and the addresses that no Service may take whatever
 * they allow. Loaded only when it is set.
 * What could break: the API server's name is looked up once; its addresses in the cluster are followed as they change.
 */
import { lookup } from 'node:dns/promises'
import { readNameservers } from '../node/resolvers.ts'
import { KeptAddresses } from '../service/virtual-ips.ts'
import { parseAddress } from '../values/address.ts'
import { parseCidr } from '../values/cidr.ts'
import type { Log } from '../values/log.ts'

/** `server`: URL of the API server that we are connected to; absent: none. */
export async function keptAddresses(
  ranges: readonly string[],
  server: string | undefined,
  log: Log,
): Promise<KeptAddresses> {
  const fixed = new Map<string, string>()
  for (const address of await readNameservers()) fixed.set(address, 'the resolvers of this node')
  for (const address of server === undefined ? [] : await addressesOf(server, log)) fixed.set(address, 'the API server')
  return new KeptAddresses(
    ranges.flatMap((range) => parseCidr(range) ?? []),
    fixed,
  )
}

async function addressesOf(server: string, log: Log): Promise<readonly string[]> {
  const host = new URL(server).hostname.replace(/^\[(.*)\]$/, '$1')
  const address = parseAddress(host)
  if (address !== undefined) return [address]
  try {
    return (await lookup(host, { all: true })).flatMap((found) => parseAddress(found.address) ?? [])
  } catch (error) {
    log.warn('The address of the API server is not known, so a Service may take it', { host, error })
    return []
  }
}
