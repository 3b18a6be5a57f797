/**
 * What this node permits of externalIPs and load-balancer addresses, from the configuration and from what is known at the start: the
 * addresses of the API server that we are connected to, and of the node's resolvers.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeIpvsSettings } from '../config/types.ts'
import { readNameservers } from '../node/resolvers.ts'
import { VirtualIpGuard } from '../service/virtual-ips.ts'
import { parseAddress } from '../values/address.ts'
import { type Cidr, parseCidr } from '../values/cidr.ts'
import type { Log } from '../values/log.ts'

/** A start waits no longer than this for the name of the API server to be looked up. */
const LOOKUP_MS = 2000

/** @param server URL of the API server that we are connected to; absent: none */
export async function virtualIpGuard(
  settings: KubeIpvsSettings,
  server: string | undefined,
  log: Log,
): Promise<VirtualIpGuard> {
  const { allowedExternalIPs, allowedLoadBalancerIPs, allowProtectedExternalIPs } = settings
  const lists = { externalIps: rangesOf(allowedExternalIPs), loadBalancerIps: rangesOf(allowedLoadBalancerIPs) }
  const guard = new VirtualIpGuard(lists, allowProtectedExternalIPs)
  if (allowProtectedExternalIPs) return guard
  const [nameservers, addresses] = await Promise.all([
    readNameservers(),
    server === undefined ? [] : addressesOf(server, log),
  ])
  guard.protect('the resolvers of this node', nameservers)
  guard.protect('the API server', addresses)
  return guard
}

function rangesOf(texts: readonly string[] | undefined): readonly Cidr[] | undefined {
  return texts?.flatMap((text) => parseCidr(text) ?? [])
}

async function addressesOf(server: string, log: Log): Promise<readonly string[]> {
  const host = new URL(server).hostname.replace(/^\[(.*)\]$/, '$1')
  const address = parseAddress(host)
  if (address !== undefined) return [address]
  try {
    const { lookup } = await import('node:dns/promises')
    const late = sleep(LOOKUP_MS, undefined, { ref: false }).then(() => {
      throw new Error(`no answer within ${LOOKUP_MS / 1000} s`)
    })
    const found = await Promise.race([lookup(host, { all: true }), late])
    return found.flatMap((one) => parseAddress(one.address) ?? [])
  } catch (error) {
    log.warn('The address of the API server is not known, so an externalIP may be the same', { host, error })
    return []
  }
}
