/**
 * Counts the connections to endpoints for the local socket. Which virtual servers have such an endpoint is known here, so only these
 * are read, through a connection that lives as long as the question.
 */
import type { ConnectionsView } from '../inspect/view.ts'
import { addressOfKey, type VirtualServerId } from '../ipvs/types.ts'
import type { Mode } from '../modes/mode.ts'
import { openIpvs } from '../modes/ipvs/kernel.ts'
import { parseFrontendKey } from '../service/frontends.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { findConntrack } from '../traffic/open-traffic.ts'
import { countFlowsTo, countInVirtualServers } from '../traffic/pod-connections.ts'
import { formatEndpoint } from '../values/address.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { CodedError } from '../values/errors.ts'
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
  const conntrack = withUdp || proxy.mode.name === 'iptables' ? await findConntrack(signal) : undefined
  try {
    const udp = withUdp && conntrack !== undefined ? await countFlowsTo(conntrack, ['udp'], wanted, signal) : undefined
    if (proxy.mode.name === 'iptables') {
      if (conntrack === undefined) throw new CodedError('conntrack-missing', 'the kernel does not list its flows')
      const { active, inactive } = await countFlowsTo(conntrack, ['tcp', 'sctp'], wanted, signal)
      return { active, inactive, udp: udp?.inactive ?? null }
    }
    const { active, inactive } = await inVirtualServers(proxy, wanted, signal)
    return { active, inactive, udp: udp?.inactive ?? null }
  } finally {
    conntrack?.close()
  }
}

async function inVirtualServers(proxy: Countable, targets: ReadonlySet<string>, signal: AbortSignal) {
  const servers = await virtualServersOf(proxy, targets)
  if (servers.length === 0) return { active: 0, inactive: 0 }
  const ipvs = await openIpvs(signal)
  try {
    return await countInVirtualServers(ipvs, servers, targets, signal)
  } finally {
    ipvs.close()
  }
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
