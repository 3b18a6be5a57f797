/**
 * Takes an address of the API server off the virtual IPs of this node. kube-proxy binds whatever
 * address a load balancer gives a Service. With such a one the node reaches itself instead of the
 * API server.
 * @impure
 */
import { diffAddress } from '../../ipvs/address-diff.ts'
import { AddressTable } from '../../ipvs/addresses.ts'
import { diffRoute } from '../../ipvs/route-diff.ts'
import { RouteTable } from '../../ipvs/routes.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { familyOf } from '../../values/address.ts'
import { unlessMissing } from '../../values/errors.ts'
import { openIpvs } from '../ipvs/kernel.ts'

/** What became of the address; an error: it is a virtual IP, and the kernel refuses to remove it. */
export type AddressRemoval = 'no-virtual-ip' | 'removed' | Error

/**
 * Removes the address where it is a virtual IP. It stays when a virtual server has it with one of
 * these ports, which then is the way to the API server: its cluster IP. Where an interface has the
 * address too, it stays local. Rejects when the kernel refuses an answer.
 */
export async function removeApiServerAddress(
  rtnetlink: RtnetlinkConnection,
  address: string,
  ports: ReadonlySet<number>,
  signal: AbortSignal,
): Promise<AddressRemoval> {
  if (await isServed(address, ports, signal)) return 'no-virtual-ip'
  const addresses = new AddressTable(rtnetlink)
  const routes = new RouteTable(rtnetlink, [familyOf(address)])
  const bound = (await addresses.list([address], signal)).get(address)
  const routed = (await routes.list([address], signal)).get(address)
  const outcomes = [
    ...(bound === undefined ? [] : await addresses.apply(diffAddress(undefined, bound), signal)),
    ...(routed === undefined ? [] : await routes.apply(diffRoute(undefined, routed), signal)),
  ]
  if (outcomes.length === 0) return 'no-virtual-ip'
  return outcomes.find((outcome) => outcome !== undefined) ?? 'removed'
}

async function isServed(address: string, ports: ReadonlySet<number>, signal: AbortSignal): Promise<boolean> {
  const ipvs = await unlessMissing('ipvs-missing', () => openIpvs(signal))
  if (ipvs === undefined) return false
  try {
    const place = { family: familyOf(address), address, protocol: 'tcp' } as const
    for (const port of ports) if ((await ipvs.getService({ ...place, port }, { signal })) !== undefined) return true
    return false
  } finally {
    ipvs.close()
  }
}
