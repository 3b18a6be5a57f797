/**
 * The whole proxy put together: sources, node, frontends, dataplane, kernel.
 * What could break: the order of starting. The lists come while the kernel is looked at, the node's addresses are known
 * before the first frontend is made, and nothing is written before every source has listed.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { IpvsDataplane } from '../dataplane/ipvs.ts'
import { FlowRemoval } from '../dataplane/flow-removal.ts'
import { audit, type Kernel, type KernelFollowOptions, openKernel, watchAnnouncements } from '../dataplane/kernel.ts'
import { tableHealth } from '../dataplane/table-health.ts'
import { SetsAndRules } from '../dataplane/sets-and-rules.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import type { MissingMatchError } from '../iptables/errors.ts'
import { DesiredFrontends } from '../sync/desired-frontends.ts'
import { SyncLoop } from '../sync/loop.ts'
import type { PassReport } from '../sync/reconciler.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { ObjectSink } from '../watch/source.ts'
import type { ProbedKernel } from './bench-probe.ts'
import { EarlySource } from './early-source.ts'
import { FollowedNode, type NodeView } from './followed-node.ts'
import { HealthCheckPorts } from './health-check-ports.ts'
import { logWaiting } from './list-log.ts'
import { Opening } from './opening.ts'
import { PassLog } from './pass-log.ts'
import { prepareNode } from './prepare-node.ts'
import { preview } from './preview.ts'
import { ProxyHealth } from './proxy-health.ts'
import { proxyMetrics } from './proxy-metrics.ts'
import type { ProxyOptions } from './proxy-options.ts'

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
  readonly #health: ProxyHealth
  readonly #healthChecks: HealthCheckPorts
  readonly #flows: FlowRemoval
  readonly #opening: Opening
  /** As it is in force; `reconfigure` changes it. */
  configuration: KubeProxyConfiguration
  readonly metrics: Metrics
  #audits = new AbortController()
  #fail: (error: CodedError) => void = () => undefined
  /** Rejects when only a new process can help. */
  readonly failed: Promise<never> = new Promise((_, reject) => {
    this.#fail = reject
  })
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
    this.configuration = configuration
    // Until somebody waits for it.
    this.failed.catch(() => undefined)
    this.#kernel = kernel
    this.#problems = new ProblemLog(log)
    this.#closers.push(kernel.close)
    this.#node = new FollowedNode({
      ...options,
      configuration: () => this.configuration,
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
        this.#passed(family, report, durationMs, false)
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
    const syncPeriodMs = (): number => this.configuration.ipvs.syncPeriodMs
    this.#health = options.health ?? new ProxyHealth({ nodeName, families, syncPeriodMs, now })
    this.#health.follow({ tables: () => tableHealth(this.#dataplane, families), rules: guard.loops })
    this.#healthChecks = new HealthCheckPorts({
      ...options,
      families,
      nodePortAddresses: () => this.configuration.nodePortAddresses,
      isProxyHealthy: () => this.#health.isHealthy,
      problems: this.#problems,
    })
    this.#closers.push(() => this.#flows.close())
    this.#closers.push(() => this.#healthChecks.close())
    this.#loop = new SyncLoop({
      dataplane: this.#dataplane,
      desired: this.#desired,
      minSyncPeriodMs: () => this.configuration.ipvs.minSyncPeriodMs,
      now,
      onBegin: () => this.#health.passBegins(),
      onFrontend: (key, frontend) => {
        this.metrics.sync.frontend(key, frontend)
        this.#healthChecks.frontend(key, frontend)
      },
      onWorkedOut: () => this.metrics.sync.takenUp(),
      onPass: (report, durationMs) => this.#passed('tables', report, durationMs, !guard.isPending),
      onProblems: (owner, problems) => this.#problems.report('service', owner, problems),
      onError: (error) => log.error('A pass failed', { error }),
    })
    this.#opening = new Opening({
      ...options,
      families,
      onNode: () => this.#node.tell(),
      open: (mayRemove) => this.#loop.open(mayRemove),
      onFatal: (error) => this.fail(error),
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

  /** Makes `failed` reject. */
  fail(error: CodedError): void {
    this.#fail(error)
  }

  /** Takes a configuration over that differs in LIVE_FIELDS only. */
  reconfigure(configuration: KubeProxyConfiguration): void {
    this.configuration = configuration
    this.#node.tell()
    this.#startAudits()
  }

  /** Stops everything; the kernel stays as it is. */
  async close(): Promise<void> {
    this.#abort.abort(new CodedError('closed', 'the proxy is stopping'))
    this.#opening.close()
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
    this.#closers.push(watchAnnouncements(this.#following(signal)).close)
    // While the lists come; from here on changes are announced.
    this.#dataplane.guard.readRules()
    await this.#node.readAddresses()
    logWaiting(log)
    const source = openSource(this.#sink(this.#opening))
    this.#closers.push(() => source.close())
    this.#startAudits()
  }

  /** Starts them anew, with the period of now. */
  #startAudits(): void {
    this.#audits.abort()
    this.#audits = new AbortController()
    const audits = audit(this.#following(AbortSignal.any([this.#abort.signal, this.#audits.signal])))
    this.#closers.push(() => audits)
  }

  #following(signal: AbortSignal): KernelFollowOptions {
    return {
      kernel: this.#kernel,
      dataplane: this.#dataplane,
      log: this.#options.log,
      onDoubt: () => this.#loop.request(),
      onNodeAddresses: () => this.#node.addressesChanged(),
      auditPeriodMs: this.configuration.ipvs.syncPeriodMs,
      auditObserver: this.#health.alsoHears(this.metrics.auditObserver),
      now,
      signal,
    }
  }

  #sink(lists: Pick<Opening, 'listed'>): ObjectSink {
    return {
      apply: (changes) => {
        this.#health.apply(changes)
        this.metrics.sync.changed(changes, this.#desired)
        this.#node.apply(changes)
        this.#opening.apply(changes)
        this.#loop.apply(changes)
      },
      listed: (kind) => lists.listed(kind),
      problems: (subject, problems) => this.#problems.report('source', subject, problems),
    }
  }

  #nodeChanged({ context, problems, addresses, podCidrs }: NodeView): void {
    // Before the Node was listed its addresses are unknown without anything being wrong.
    if (!this.#opening.awaited.has('nodes')) this.#problems.report('node', 'configuration', problems)
    this.#dataplane.guard.podCidrs(podCidrs)
    this.#healthChecks.nodeChanged(addresses, context.nodeIps)
    this.#loop.setContext(context)
    this.#loop.request()
  }

  #passed(what: 'tables' | IpFamily, report: PassReport, durationMs: number, complete: boolean): void {
    this.metrics.sync.passed(what, report, durationMs)
    this.#passLog.passed(report, durationMs)
    this.#health.passed(what === 'tables' ? 'tables' : 'rules', report)
    this.#healthChecks.passed()
    this.#flows.passed()
    this.#options.onPass?.(report, complete)
  }

  #reportLeftOut({ code, match, message }: MissingMatchError, leftOut: readonly string[]): void {
    const rules = leftOut.length === 0 ? message : `${message}; left out: ${leftOut.join('; ')}`
    this.#problems.report('iptables', match, [{ code, subject: `module xt_${match}`, message: rules }])
  }
}
