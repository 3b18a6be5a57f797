/**
 * Counts the connections to endpoints for the local socket. In ipvs mode it is known which virtual
 * servers have such an endpoint, so only these are read, through a connection that lives as long as
 * the question.
 */
import type { ConnectionsView } from '../inspect/view.ts'
import { addressOfKey, type VirtualServerId } from '../ipvs/types.ts'
import { countConnections } from '../modes/look/connections.ts'
import { withLook } from '../modes/look/look.ts'
import { allVirtualServers, countInVirtualServers, isTarget } from '../modes/look/virtual-servers.ts'
import type { Mode } from '../modes/mode.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { parseFrontendKey } from '../service/frontends.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { newBudget } from '../values/event-loop.ts'

const DEADLINE_MS = 8000

export interface Countable {
  readonly mode: Pick<Mode, 'name' | 'drains'>
  readonly desired: Pick<DesiredFrontends, 'frontends'>
}

/** @param to IPs, or `IP:port` */
export function connectionsTo(
  proxy: Countable,
  to: readonly string[],
  withUdp: boolean,
  asked: AbortSignal,
): Promise<Omit<ConnectionsView, 'format'>> {
  const signal = AbortSignal.any([asked, deadlineSignal(DEADLINE_MS, 'reading the connections')])
  const targets = new Set(to)
  return withLook(async (look) => {
    const isIpvs = proxy.mode.name === 'ipvs'
    // After a switch to iptables mode IPVS keeps its connections.
    const left = !isIpvs && (await look.hasVirtualIps(signal)) ? await look.ipvs(signal) : undefined
    const ipvs = isIpvs ? await look.needIpvs(signal) : left
    const servers = ipvs && (isIpvs ? await virtualServersOf(proxy, targets) : await allVirtualServers(ipvs, signal))
    const counted = {
      targets,
      withUdp,
      hasRules: !isIpvs,
      inVirtualServers: ipvs && (() => countInVirtualServers(ipvs, servers ?? [], targets, signal)),
    }
    return countConnections(look, counted, signal)
  })
}

/** Those whose Service has such an endpoint, used or not, and those in which such a real server drains. */
async function virtualServersOf(
  { mode, desired }: Countable,
  targets: ReadonlySet<string>,
): Promise<readonly VirtualServerId[]> {
  const budget = newBudget()
  const found = new Map<string, VirtualServerId>()
  for (const [key, { value }] of desired.frontends()) {
    if (budget.spentBySteps()) await budget.turn()
    if (value.servicePort.candidates.some(({ address, port }) => isTarget(targets, address, port)))
      found.set(key, parseFrontendKey(key))
  }
  for (const { virtualServer, realServer } of mode.drains(performance.now())) {
    if (budget.spentBySteps()) await budget.turn()
    if (targets.has(realServer) || targets.has(addressOfKey(realServer)))
      found.set(virtualServer, parseFrontendKey(virtualServer))
  }
  return Array.from(found.values())
}
