/**
 * What the daemon tells about itself as a whole over the local socket: mode, node, settings,
 * health, passes, and the first of its problems and conflicts; and the parts of a proxy that this
 * and all other answers are made from.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { VIEW_FORMAT } from '../inspect/questions.ts'
import type { DaemonView } from '../inspect/view.ts'
import { schedulerOf } from '../ipvs/scheduler.ts'
import type { Fallback } from '../modes/fallback.ts'
import type { Mode } from '../modes/mode.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { Problem } from '../values/errors.ts'
import { ownMember } from '../values/own-member.ts'
import { VERSION } from '../values/well-known.ts'
import type { FollowedNode } from './followed-node.ts'
import type { LocalhostNodePorts } from './localhost-node-ports.ts'
import type { PassLog } from './pass-log.ts'
import type { ProxyHealth } from './proxy-health.ts'
import type { Readiness } from './readiness.ts'

/** Limits of the answer. */
const MAX_PROBLEMS = 100
const MAX_OTHERS = 20
const MAX_CIDRS = 200

export function daemonView(proxy: Inspected, nowMs: number): DaemonView {
  const { mode, fallback, node, desired, readiness, problems, passLog } = proxy
  const { configuration } = proxy.inForce
  const { context, podCidrs } = node.view
  const drains = Array.from(mode.drains(nowMs))
  return {
    format: VIEW_FORMAT,
    version: VERSION,
    pid: process.pid,
    uptimeSeconds: seconds(process.uptime() * 1000),
    mode: mode.name,
    configuredMode: configuration.mode,
    fallback: fallback === undefined ? null : { ...fallback },
    firewall: firewallOf(mode.firewall),
    virtualAddresses: configuration.kubeIPVS.virtualAddresses === 'routes' ? 'routes' : 'addresses',
    families: mode.families,
    node: {
      name: context.nodeName,
      zone: context.zone ?? null,
      ips: context.nodeIps,
      nodePortAddresses: context.nodePortAddresses,
      podCidrs,
    },
    settings: settingsOf(configuration),
    health: healthOf(proxy),
    awaiting: [...readiness.awaited],
    counts: {
      services: desired.objects.serviceCount,
      frontends: desired.frontendCount,
      conflicts: desired.lossCount,
      draining: drains.length,
      problems: problems.count,
    },
    room: { used: desired.room.total, limit: desired.room.limit, leftOut: desired.room.leftOut },
    passes: Array.from(passLog.last, ([what, { endedMs, durationMs, applied, failed, unreadable }]) => ({
      what,
      endedSecondsAgo: seconds(nowMs - endedMs),
      durationMs: Math.round(durationMs),
      applied,
      failed,
      unreadable,
    })),
    problems: problemsOf(proxy),
    conflicts: first(desired.contested(), MAX_PROBLEMS).map((key) => {
      const [owner = '', ...others] = desired
        .claims(key)
        .slice(0, 1 + MAX_OTHERS)
        .map((claim) => claim.owner)
      return { key, owner, others }
    }),
  }
}

function firewallOf(firewall: Inspected['mode']['firewall']): Exclude<DaemonView['firewall'], undefined> {
  if (firewall === undefined) return null
  const { name, configured, reason } = firewall
  return { name, configured, reason }
}

function settingsOf({ clusterCIDR, ipvs, kubeIPVS }: KubeProxyConfiguration): DaemonView['settings'] {
  return {
    clusterCIDR,
    scheduler: schedulerOf(ipvs.scheduler),
    strictARP: ipvs.strictARP,
    excludeCIDRs: ipvs.excludeCIDRs.slice(0, MAX_CIDRS),
    fallback: kubeIPVS.fallback,
    serviceAnnotations: kubeIPVS.serviceAnnotations,
  }
}

/** Those of the node first: there are few of them, and they matter to everybody. */
function problemsOf({ problems }: Inspected): readonly Problem[] {
  const ofNode: Problem[] = []
  const ofObjects: Problem[] = []
  for (const problem of problems.current()) {
    const list = problem.about === 'object' ? ofObjects : ofNode
    if (list.length < MAX_PROBLEMS) list.push(problem)
  }
  return [...ofNode, ...ofObjects].slice(0, MAX_PROBLEMS)
}

/** Names of SyncHealth's troubles, for people. */
const TROUBLE: Readonly<Record<string, string>> = {
  start: 'the first pass has not ended',
  pass: 'a pass has not ended',
  'reading tables': 'tables of the kernel cannot be read',
}

function healthOf({ health }: Inspected): DaemonView['health'] {
  const { nodeEligible } = health.state
  const texts = health.troubles.map(({ what, ageMs, isLate }) => {
    const text =
      ownMember(TROUBLE, what) ??
      (/^(rules|reading rules) /.test(what) ? `${what} have not ended` : `${what} is faulty`)
    return { what: text, seconds: seconds(ageMs), isLate }
  })
  const reasons = [
    ...(nodeEligible ? [] : ['the Node is unknown or is being removed']),
    ...texts.flatMap(({ what, seconds: age, isLate }) => (isLate ? [`${what} for ${Math.round(age)} s`] : [])),
  ]
  const healthy = nodeEligible && health.isHealthy
  return {
    healthy,
    reason: healthy ? null : reasons.join('; ') || 'unknown',
    pending: texts.map(({ what, seconds: age }) => ({ what, seconds: age })),
  }
}

function first<T>(items: Iterable<T>, limit: number): readonly T[] {
  const found: T[] = []
  for (const item of items) {
    if (found.length === limit) break
    found.push(item)
  }
  return found
}

/** Seconds with milliseconds as decimals. */
export function seconds(milliseconds: number): number {
  return Math.round(milliseconds) / 1000
}

/** The parts of a proxy that the answers are about; they are only read. */
export interface Inspected {
  readonly inForce: { readonly configuration: KubeProxyConfiguration }
  readonly mode: Pick<Mode, 'name' | 'firewall' | 'families' | 'drains' | 'outliers'> & {
    readonly sources: {
      readonly tables: readonly Pick<Mode['sources']['tables'][number], 'kind' | 'isKnown' | 'states'>[]
    }
    readonly dataplane: Pick<Mode['dataplane'], 'wanted'>
  }
  /** Why the mode is not the configured one. */
  readonly fallback: Fallback | undefined
  readonly node: Pick<FollowedNode, 'view'>
  readonly desired: DesiredFrontends
  readonly readiness: Pick<Readiness, 'awaited'>
  readonly health: Pick<ProxyHealth, 'state' | 'troubles' | 'isHealthy'>
  readonly problems: Pick<ProblemLog, 'current' | 'count'>
  readonly localhostNodePorts: Pick<LocalhostNodePorts, 'states'>
  readonly passLog: Pick<PassLog, 'last'>
}
