/**
 * The whole proxy put together: sources, node, frontends, dataplane, kernel.
 * What could break: the order of starting. The lists come while the kernel is looked at, the node's addresses are known
 * before the first frontend is made, and nothing is written before every source has listed.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { IpvsDataplane } from '../dataplane/ipvs.ts'
import { FlowRemoval } from '../dataplane/flow-removal.ts'
import { audit, type Kernel, openKernel, watchAnnouncements } from '../dataplane/kernel.ts'
import { SetsAndRules } from '../dataplane/sets-and-rules.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { RequestCounts } from '../metrics/request-counts.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import { SyncHealth } from '../serve/sync-health.ts'
import type { MissingMatchError } from '../iptables/errors.ts'
import { DesiredFrontends } from '../sync/desired-frontends.ts'
import { SyncLoop } from '../sync/loop.ts'
import type { PassReport } from '../sync/reconciler.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import type { Events } from '../watch/event-recorder.ts'
import type { ObjectSink, Source } from '../watch/source.ts'
import type { ProbedKernel } from './bench-probe.ts'
import { EarlySource } from './early-source.ts'
import { FirstLists } from './first-lists.ts'
import { FollowedNode, type NodeView } from './followed-node.ts'
import { HealthCheckPorts } from './health-check-ports.ts'
import { PassLog } from './pass-log.ts'
import { prepareNode } from './prepare-node.ts'
import { preview } from './preview.ts'
import { proxyMetrics } from './proxy-metrics.ts'

export interface ProxyOptions {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  readonly drainDeadlineMs: number | undefined
  readonly log: Log
  readonly events?: Events
  /** Opens the source of objects on this sink. */
  readonly openSource: (sink: ObjectSink) => Source
  /** Hears of each pass; `complete` when nothing is under way that another pass waits for. */
  readonly onPass?: (report: PassReport, complete: boolean) => void
  /** Requests to the API server, counted by whoever makes them. */
  readonly requests?: RequestCounts
  /** Services that get traffic metrics of their own; 0: none. Default 100. */
  readonly serviceMetricsLimit?: number
}

const now = (): number => performance.now()

export class Proxy {
  readonly #options: ProxyOptions
  readonly #abort = new AbortController()
  readonly #kernel: Kernel
  readonly #dataplane: IpvsDataplane
  readonly #desired: DesiredFrontends
  readonly #loop: SyncLoop
  readonly #node: FollowedNode
  readonly #problems: ProblemLog
  readonly #passLog: PassLog
  readonly #health: SyncHealth
  readonly #healthChecks: HealthCheckPorts
  readonly #flows: FlowRemoval
  readonly #lists: FirstLists
  readonly metrics: Metrics
  readonly #closers: (() => Promise<void> | void)[] = []

  /** Checks and prepares the kernel, then starts. Rejects with `module-missing` and the like when it cannot work here. */
  static async start(options: ProxyOptions): Promise<Proxy> {
    return EarlySource.during(options.openSource, async (openSource) => {
      const proxy = await Proxy.prepare({ ...options, openSource })
      await proxy.#run()
      return proxy
    })
  }

  /** All of it in place and the kernel opened, but nothing running and nothing changed: what `diff` needs. */
  static async prepare(options: ProxyOptions): Promise<Proxy> {
    return new Proxy(options, await openKernel(options.configuration))
  }

  private constructor(options: ProxyOptions, kernel: Kernel) {
    const { configuration, nodeName, log } = options
    const { families } = kernel
    this.#options = options
    this.#kernel = kernel
    this.#problems = new ProblemLog(log)
    this.#closers.push(kernel.close)
    this.#node = new FollowedNode({
      ...options,
      rtnetlink: kernel.ipvs.rtnetlink,
      now,
      onChange: (node) => this.#nodeChanged(node),
      signal: this.#abort.signal,
    })
    this.#desired = new DesiredFrontends(this.#node.view.context)
    const guard = new SetsAndRules({
      tables: kernel.guard.tables,
      settings: configuration,
      families,
      randomFully: kernel.guard.iptables.choice.randomFully,
      nodeName,
      now,
      onGrown: (set, maxElements) => log.warn('A set was full and has been made larger', { set, maxElements }),
      onPass: (report, durationMs, family) => {
        this.metrics.sync.rulesPassed(report, durationMs, family)
        this.#passed('rules', report, durationMs, false)
        this.#loop.request()
      },
      onMissing: (error, leftOut) => this.#reportLeftOut(error, leftOut),
      onReady: () => this.#loop.resume(),
      onError: (error) => log.error('Writing rules failed', { error }),
    })
    this.#closers.push(() => guard.close())
    this.#dataplane = new IpvsDataplane({
      tables: kernel.ipvs.tables,
      guard,
      conntrack: kernel.ipvs.conntrack,
      scheduler: configuration.ipvs.scheduler || 'rr',
      families,
      drainDeadlineMs: options.drainDeadlineMs,
      now,
      onFlowsRemoved: (...removed) => this.metrics.sync.flowsRemoved(...removed),
      log,
    })
    this.#dataplane.wantFixtures()
    this.metrics = proxyMetrics({ ...options, kernel, dataplane: this.#dataplane, desired: this.#desired, now })
    this.#closers.push(() => this.metrics.close())
    this.#passLog = new PassLog({ log, problems: this.#problems, dataplane: this.#dataplane, desired: this.#desired })
    this.#flows = new FlowRemoval({ staleFlows: this.#dataplane.staleFlows, now, log })
    this.#health = new SyncHealth(2 * configuration.ipvs.syncPeriodMs, now)
    this.#healthChecks = new HealthCheckPorts({
      ...options,
      families,
      nodePortAddresses: configuration.nodePortAddresses,
      isProxyHealthy: () => this.#health.isHealthy,
      problems: this.#problems,
    })
    this.#closers.push(() => this.#flows.close())
    this.#closers.push(() => this.#healthChecks.close())
    this.#loop = new SyncLoop({
      dataplane: this.#dataplane,
      desired: this.#desired,
      minSyncPeriodMs: configuration.ipvs.minSyncPeriodMs,
      now,
      onFrontend: (key, frontend) => {
        this.metrics.sync.frontend(key, frontend)
        this.#healthChecks.frontend(key, frontend)
      },
      onWorkedOut: () => this.metrics.sync.takenUp(),
      onPass: (report, durationMs) => {
        this.metrics.sync.passed(report, durationMs)
        this.#passed('tables', report, durationMs, !guard.isPending)
      },
      onProblems: (owner, problems) => this.#problems.report('service', owner, problems),
      onError: (error) => log.error('A pass failed', { error }),
    })
    this.#lists = new FirstLists({
      onNode: () => this.#node.tell(),
      onComplete: (mayRemove) => this.#open(mayRemove),
    })
  }

  get dataplane(): IpvsDataplane {
    return this.#dataplane
  }

  /** Everything that talks to the kernel. */
  get connections(): ProbedKernel {
    const { ipvs, auditIpvs, rtnetlink } = this.#kernel.ipvs
    const { ipset, auditIpset } = this.#kernel.guard
    return { ipvs, auditIpvs, rtnetlink, ipset, auditIpset }
  }

  /** Stops everything; the kernel stays as it is. */
  async close(): Promise<void> {
    this.#abort.abort(new CodedError('closed', 'the proxy is stopping'))
    this.#lists.close()
    this.#node.close()
    await this.#loop.close()
    for (const close of this.#closers.toReversed()) await close()
  }

  /** The commands a pass would run now. Rejects when the sources have not listed within the deadline. */
  async preview(deadlineMs: number): Promise<string[]> {
    await this.#node.readAddresses()
    return preview({
      // Lists of its own: with the others the loop would open, and a preview changes nothing.
      open: (lists) => {
        const source = this.#options.openSource(this.#sink(lists))
        this.#closers.push(() => source.close())
      },
      desired: this.#desired,
      dataplane: this.#dataplane,
      deadlineMs,
      signal: this.#abort.signal,
    })
  }

  async #run(): Promise<void> {
    const { configuration, log, openSource } = this.#options
    const { signal } = this.#abort
    const iptables = this.#kernel.guard.iptables.choice
    log.info('Using iptables', { backEnd: iptables.mode, reason: iptables.reason })
    await prepareNode({
      configuration,
      kernel: this.#kernel.ipvs,
      guard: this.#dataplane.guard,
      iptables,
      problems: this.#problems,
      log,
      signal,
    })
    const following = {
      kernel: this.#kernel,
      dataplane: this.#dataplane,
      log,
      onDoubt: () => this.#loop.request(),
      onNodeAddresses: () => this.#node.addressesChanged(),
      auditPeriodMs: configuration.ipvs.syncPeriodMs,
      auditObserver: this.metrics.auditObserver,
      now,
      signal,
    }
    this.#closers.push(watchAnnouncements(following).close)
    // While the lists come; from here on changes are announced.
    this.#dataplane.guard.readRules()
    await this.#node.readAddresses()
    const source = openSource(this.#sink(this.#lists))
    this.#closers.push(() => source.close())
    const audits = audit(following)
    this.#closers.push(() => audits)
  }

  #sink(lists: FirstLists): ObjectSink {
    return {
      apply: (changes) => {
        this.metrics.sync.changed(changes, this.#desired)
        this.#node.apply(changes)
        this.#loop.apply(changes)
      },
      listed: (kind) => lists.listed(kind),
      problems: (subject, problems) => this.#problems.report('source', subject, problems),
    }
  }

  #open(mayRemove: boolean): void {
    if (!mayRemove)
      this.#options.log.warn('Going on without the Node object; nothing is removed until it is known', {
        node: this.#options.nodeName,
      })
    this.#loop.open(mayRemove)
  }

  #nodeChanged({ context, problems, addresses, podCidrs }: NodeView): void {
    // Before the Node was listed its addresses are unknown without anything being wrong.
    if (!this.#lists.awaited.has('nodes')) this.#problems.report('node', 'configuration', problems)
    this.#dataplane.guard.podCidrs(podCidrs)
    this.#healthChecks.nodeChanged(addresses, context.nodeIps)
    this.#loop.setContext(context)
    this.#loop.request()
  }

  #passed(what: 'tables' | 'rules', report: PassReport, durationMs: number, complete: boolean): void {
    this.#passLog.passed(report, durationMs)
    this.#health.passed(what, report.unreadable.length === 0)
    this.#healthChecks.passed()
    this.#flows.passed()
    this.#options.onPass?.(report, complete)
  }

  #reportLeftOut({ code, match, message }: MissingMatchError, leftOut: readonly string[]): void {
    const rules = leftOut.length === 0 ? message : `${message}; left out: ${leftOut.join('; ')}`
    this.#problems.report('iptables', match, [{ code, subject: `module xt_${match}`, message: rules }])
  }
}
