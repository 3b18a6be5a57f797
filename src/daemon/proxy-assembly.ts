/**
 * Assembles a proxy from mode, node, frontends, reports, loop and readiness: `assembleProxy`
 * decides who receives what, and in which order.
 */
import { type Part, TABLES } from '../sync/part.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { judgedEndpoints, problemOfService, fellBack } from '../events/event-objects.ts'
import type { Events } from '../events/event-recorder.ts'
import type { LocalCounts } from '../metrics/local-counts.ts'
import type { RequestCounts } from '../metrics/request-counts.ts'
import { FlowRemoval } from '../modes/flow-removal.ts'
import { isAnyPending, isPendingIn, periodsOf } from '../modes/mode.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import type { VirtualIpGuard } from '../service/virtual-ip-guard.ts'
import { changesArrived, type ChangesArrived } from '../sync/channels.ts'
import { DesiredFrontends } from '../sync/desired-frontends.ts'
import { SyncLoop } from '../sync/loop.ts'
import type { PassReport } from '../sync/pass.ts'
import type { Budget } from '../values/budget.ts'
import { newBudget } from '../values/event-loop.ts'
import type { Log } from '../values/log.ts'
import type { ObjectSink, Source } from '../watch/source.ts'
import { FollowedNodeLabels, type OpenNodeLabels } from './followed-node-labels.ts'
import { FollowedNode, frontendSettingsOf } from './followed-node.ts'
import { HealthCheckPorts } from './health-check-ports.ts'
import { openLocalhostNodePorts } from './localhost-node-ports.ts'
import { openMode } from './open-mode.ts'
import { PassLog, type PassTotals } from './pass-log.ts'
import { Proxy } from './proxy.ts'
import type { ProxyListener } from './proxy-listener.ts'
import { ProxyHealth } from './proxy-health.ts'
import { proxyMetrics } from './proxy-metrics.ts'
import { type NodeWaits, Readiness } from './readiness.ts'
import { Rivals } from './rivals.ts'
import type { PreparedProxy } from './running-proxy.ts'
import { ServiceEvents } from './service-events.ts'
import { SharedSource } from './shared-source.ts'
import { logMode } from './start-log.ts'

const now = (): number => performance.now()

export interface ProxyOptions {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  readonly log: Log
  /** Where Events about Services go; absent: only the log reports them. */
  readonly events?: Events
  /** Absent: Services may have any externalIPs and load-balancer addresses. */
  readonly virtualIps?: VirtualIpGuard
  /** Follows the proxy; absent: only health checks of Services need it. */
  readonly health?: ProxyHealth
  /** How long the Node is awaited, where that is not as long as in kube-proxy. */
  readonly nodeWaits?: NodeWaits | undefined
  /** False for a source that may have no Node object. Default true. */
  readonly needsNode?: boolean
  /** Labels of all Nodes; absent: the source of objects reports those of all Nodes. */
  readonly openNodeLabels?: OpenNodeLabels | undefined
  /** Of the computation of frontends. Absent: it gives way to the event loop of the process. */
  readonly budget?: Budget
  /** Counts what passes do. */
  readonly passes?: Pick<PassTotals, 'add'>
  /** A pass or an audit has ended. */
  readonly onWork?: () => void
  /** Requests to the API server, which the sources count. */
  readonly requests?: RequestCounts
  /** Answers at the local socket, which belongs to the process. */
  readonly local?: LocalCounts
  /** It takes the place of another proxy of this process. Default false. */
  readonly isReplacement?: boolean
  /** It may run in iptables mode in place of ipvs mode, where the configuration allows it. Default true. */
  readonly mayFallBack?: boolean
  /** See `ModeListener`. */
  readonly onIpvsLost?: () => void
}

/**
 * Opens the kernel, checks and prepares it, and opens the source unless it replaces a proxy, whose
 * source it gets. Rejects with `module-missing` and the like when the mode cannot work here.
 */
export async function prepareProxy(
  options: ProxyOptions & { readonly openSource: (sink: ObjectSink) => Source },
): Promise<PreparedProxy & { readonly proxy: Proxy }> {
  const source = options.isReplacement === true ? undefined : new SharedSource(options.openSource)
  let proxy: Proxy | undefined
  const discard = async (): Promise<void> => {
    await source?.close()
    await proxy?.close()
  }
  try {
    const assembled = await assembleProxy(options)
    proxy = assembled
    await assembled.prepare()
    const { fallback } = assembled.inspected
    const start: PreparedProxy['start'] = (from) => {
      if (fallback !== undefined)
        options.events?.record(fellBack(options.nodeName, `${fallback.message}: ${fallback.remedy}`))
      return assembled.start(from ?? source ?? new SharedSource(options.openSource))
    }
    return { proxy: assembled, start, discard }
  } catch (error) {
    await discard()
    throw error
  }
}

/** Opens the kernel and joins all parts; nothing runs and nothing is changed before `Proxy.start`. */
export async function assembleProxy(options: ProxyOptions): Promise<Proxy> {
  const { nodeName, log, virtualIps } = options
  const inForce = { configuration: options.configuration }
  const configuration = (): KubeProxyConfiguration => inForce.configuration
  const problems = new ProblemLog(log, (problem) => {
    const occurrence = problemOfService(problem)
    if (occurrence !== undefined) serviceEvents?.record(occurrence)
  })
  const abort = new AbortController()
  const failure = Promise.withResolvers<never>()
  // Handled even when it rejects before the daemon waits for it.
  failure.promise.catch(() => undefined)

  const passed = (part: Part, report: PassReport, durationMs: number, isComplete: boolean): void => {
    metrics.sync.passed(part, report, durationMs)
    passLog.passed(part, report, durationMs)
    rivals.passed(report)
    // Health checks of Services answer with the health of the proxy, so that is first.
    health.passed(part, report)
    healthChecks.passed(part)
    // After them, so that a health check port comes first.
    localhostNodePorts.passed(part)
    flows.passed()
    options.passes?.add(report, isComplete)
    options.onWork?.()
  }

  // Who receives what.
  const listener: ProxyListener = {
    source: {
      apply: (changes) => {
        if (changesArrived.hasSubscribers) changesArrived.publish({ changes } satisfies ChangesArrived)
        health.apply(changes)
        // Compares with the slices as they were, so before the loop takes the changes in.
        metrics.sync.changed(changes, desired.objects)
        nodeLabels.apply(changes)
        // The context of frontends, so before the loop; and passes may not begin with the context before.
        node.apply(changes)
        readiness.apply(changes)
        loop.apply(changes)
      },
      listed: (kind) => readiness.listed(kind),
      problems: (subject, found) => problems.report('source', subject, found),
    },
    nodesListed: () => node.report(),
    passesMayRun: (mayRemove) => loop.open(mayRemove),
    nodeChanged: (view) => {
      // Before the Node has listed its addresses are unknown without anything being wrong.
      if (!readiness.awaited.has('nodes')) problems.report('node', 'configuration', view.problems)
      // Rules and ports of the node, then the frontends that need them.
      mode.nodeChanged(view)
      healthChecks.nodeChanged(view.addresses, view.context.nodeIps)
      localhostNodePorts.nodeChanged(view.addresses)
      loop.setContext(view.context)
      readiness.addressesChanged()
      loop.request()
    },
    nodeAddressesAnnounced: () => node.addressesChanged(),
    kernelDoubted: () => loop.request(),
    foreignWrite: (portId) => rivals.wrote(portId),
    audits: {
      ended: (audit, durationMs, failed) => {
        metrics.auditObserver.ended(audit, durationMs, failed)
        if (!failed) health.audited()
        options.onWork?.()
      },
      confirmed: () => metrics.auditObserver.confirmed(),
    },
    passBegins: () => health.passBegins(),
    frontendChanged: (key, frontend) => {
      nodeLabels.frontend(key, frontend)
      metrics.sync.frontend(key, frontend)
      healthChecks.frontend(key, frontend)
      localhostNodePorts.frontend(key, frontend)
    },
    serviceProblems: (owner, found) => problems.report('service', owner, found),
    frontendsReady: () => metrics.sync.beginPass(),
    tablesPassed: (report, durationMs, isLast) => {
      // First, because the mode may now allow removals, which makes it pending.
      mode.passed(report)
      passed(TABLES, report, durationMs, isLast && !isAnyPending(mode.parts))
    },
    partPassed: (part, report, durationMs) => {
      passed(part, report, durationMs, false)
      loop.resume()
    },
    // Rules are in place, so virtual servers that waited for them can be added. minSyncPeriod limits only changes.
    postponedReady: () => loop.resume(),
    passFailed: (error) => log.error('A pass failed', { error }),
    flowsRemoved: (family, deleted, durationMs) => metrics.sync.flowsRemoved(family, deleted, durationMs),
    outliersJudged: (decisions) => {
      for (const occurrence of judgedEndpoints(nodeName, decisions)) serviceEvents?.record(occurrence)
      // Clients wait, so minSyncPeriod does not count.
      loop.resume()
    },
    ipvsLost: () => options.onIpvsLost?.(),
    failed: (error) => failure.reject(error),
  }

  // Mode: the kernel and how frontends are written to it.
  const { mayFallBack } = options
  const { mode, fallback } = await openMode({ configuration, nodeName, problems, log, now, listener }, { mayFallBack })
  const { dataplane, families, support, rtnetlink } = mode
  if (fallback !== undefined || options.isReplacement === true) logMode(mode.name, configuration(), families, log)
  const flows = new FlowRemoval({ staleFlows: dataplane.staleFlows, now, log })

  // Node and frontends: what this node has to serve.
  const node = new FollowedNode({
    configuration,
    nodeName,
    rtnetlink,
    ...(virtualIps === undefined ? {} : { virtualIps }),
    listener,
    log,
    now,
    signal: abort.signal,
  })
  const nodeLabels = new FollowedNodeLabels({
    open: options.openNodeLabels,
    onChange: (labels) => node.setNodeLabels(labels),
    now,
  })
  const desired = new DesiredFrontends(
    node.view.context,
    frontendSettingsOf(configuration, mode),
    options.budget ?? newBudget(now),
  )

  // What is reported: metrics, log, health.
  const localhostNodePorts = openLocalhostNodePorts({ ...options, configuration, families, desired, problems, now })
  const metrics = proxyMetrics({ ...options, mode, fallback, desired, nodeLabels, localhostNodePorts, now })
  const passLog = new PassLog({ log, desired, now })
  const { events } = options
  const isShared = options.needsNode !== false
  const serviceEvents =
    events &&
    new ServiceEvents({ nodeName, isShared, events, endpointNodes: () => desired.objects.endpointNodes(), now })
  const rivals = new Rivals({ nodeName, problems, events: options.events, now })
  const syncPeriodMs = (): number => periodsOf(configuration()).syncPeriodMs
  const health = options.health ?? new ProxyHealth({ nodeName, families, syncPeriodMs, now })
  const healthChecks = new HealthCheckPorts({
    ...options,
    families,
    nodePortAddresses: () => configuration().nodePortAddresses,
    isProxyHealthy: () => health.isHealthy,
    isPending: (family) => isPendingIn(mode.parts, family),
    problems,
  })

  // Loop: frontends to kernel state, as soon as passes may run.
  const loop = new SyncLoop({
    dataplane,
    desired,
    minSyncPeriodMs: () => periodsOf(configuration()).minSyncPeriodMs,
    now,
    listener,
  })
  const { needsNode, nodeWaits: waits } = options
  const readiness = new Readiness({
    configuration: configuration(),
    nodeName,
    support,
    needsNode,
    hasAddresses: () => node.hasAddresses,
    waits,
    listener,
    log,
  })

  const { promise: failed } = failure
  const parts = {
    inForce,
    mode,
    fallback,
    node,
    nodeLabels,
    desired,
    metrics,
    flows,
    healthChecks,
    localhostNodePorts,
    rivals,
    serviceEvents,
    loop,
    readiness,
    health,
    problems,
    passLog,
    listener,
    abort,
    failed,
  }
  return new Proxy({ ...parts, log })
}
