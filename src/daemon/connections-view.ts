/**
 * Counts the connections to endpoints for the local socket. In ipvs mode it is known which virtual servers have such an endpoint, so only
 * these are read, through a connection that lives as long as the question.
 */
import type { ConnectionsView } from '../inspect/view.ts'
import { addressOfKey, type VirtualServerId } from '../ipvs/types.ts'
import type { Mode } from '../modes/mode.ts'
import type { IpvsConnection } from '../ipvs/connection.ts'
import { openIpvs, unlessMissing } from '../modes/ipvs/kernel.ts'
import { hasVirtualIps } from '../modes/modes-in-kernel.ts'
import { parseFrontendKey } from '../service/frontends.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { findConntrack } from '../traffic/open-traffic.ts'
import {
  allVirtualServers,
  countFlowsTo,
  countInVirtualServers,
  countStreams,
  type StreamCounts,
} from '../traffic/pod-connections.ts'
import { formatEndpoint } from '../values/address.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { Turns } from './turns.ts'

const DEADLINE_MS = 8000

export interface Countable {
  readonly mode: Pick<Mode, 'name' | 'drains'>
  readonly desired: Pick<DesiredFrontends, 'frontends'>
}

/** @param targets IPs, or `IP:port` */
export async function countConnections(
  proxy: Countable,
  targets: readonly string[],
  withUdp: boolean,
  asked: AbortSignal,
): Promise<Omit<ConnectionsView, 'format'>> {
  const signal = AbortSignal.any([asked, deadlineSignal(DEADLINE_MS, 'reading the connections')])
  const wanted = new Set(targets)
  const hasRules = proxy.mode.name === 'iptables'
  // After a switch to iptables mode IPVS keeps its connections.
  const ipvs = !hasRules || (await hasVirtualIps(signal)) ? await openFor(proxy, signal) : undefined
  const conntrack = await findConntrack(signal)
  try {
    const { active, inactive } = await countStreams({
      inVirtualServers: ipvs === undefined ? undefined : () => inVirtualServers(ipvs, proxy, wanted, signal),
      conntrack,
      targets: wanted,
      hasRules,
      signal,
    })
    const udp = withUdp && conntrack !== undefined ? await countFlowsTo(conntrack, ['udp'], wanted, signal) : undefined
    return { active, inactive, udp: udp?.inactive ?? null }
  } finally {
    conntrack?.close()
    ipvs?.close()
  }
}

/** undefined: there is nothing of ipvs mode to count. */
function openFor({ mode }: Countable, signal: AbortSignal): Promise<IpvsConnection | undefined> {
  return mode.name === 'ipvs' ? openIpvs(signal) : unlessMissing('ipvs-missing', () => openIpvs(signal))
}

async function inVirtualServers(
  ipvs: IpvsConnection,
  proxy: Countable,
  targets: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<StreamCounts> {
  const servers =
    proxy.mode.name === 'ipvs' ? await virtualServersOf(proxy, targets) : await allVirtualServers(ipvs, signal)
  return countInVirtualServers(ipvs, servers, targets, signal)
}

/** Those whose Service has such an endpoint, used or not, and those in which such a real server drains. */
async function virtualServersOf({ mode, desired }: Countable, targets: ReadonlySet<string>) {
  const turns = new Turns()
  const found = new Map<string, VirtualServerId>()
  for (const [key, { value }] of desired.frontends()) {
    if (turns.isDue) await turns.next()
    const isTarget = value.servicePort.candidates.some(
      ({ address, port }) => targets.has(address) || targets.has(formatEndpoint(address, port)),
    )
    if (isTarget) found.set(key, parseFrontendKey(key))
  }
  for (const { virtualServer, realServer } of mode.drains(performance.now())) {
    if (turns.isDue) await turns.next()
    if (targets.has(realServer) || targets.has(addressOfKey(realServer)))
      found.set(virtualServer, parseFrontendKey(virtualServer))
  }
  return Array.from(found.values())
}
