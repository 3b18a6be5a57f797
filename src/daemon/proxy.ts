/**
 * The whole proxy put together: sources, node, frontends, dataplane, kernel.
 * The order of starting matters. The lists come while the kernel is looked at, the node's addresses are known
 * before the first frontend is made, and nothing is written before every source has listed.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { FlowRemoval } from '../modes/flow-removal.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import { DesiredFrontends } from '../sync/desired-frontends.ts'
import { SyncLoop } from '../sync/loop.ts'
import type { PassReport } from '../sync/reconciler.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { ObjectSink } from '../watch/source.ts'
import { AuditRounds } from './audit-rounds.ts'
import type { ProbedKernel } from '../modes/bench-probe.ts'
import { EarlySource } from './early-source.ts'
import { FollowedNode } from './followed-node.ts'
import { HealthCheckPorts } from './health-check-ports.ts'
import { logWaiting } from './list-log.ts'
import { type Mode, type ModeWatch, type NodeView, periodsOf } from '../modes/mode.ts'
import { openMode } from '../modes/open-mode.ts'
import { Opening } from './opening.ts'
import { PassLog } from './pass-log.ts'
import { preview } from './preview.ts'
import { ProxyHealth } from './proxy-health.ts'
import { proxyMetrics } from './proxy-metrics.ts'
import type { ProxyOptions } from './proxy-options.ts'

const now = (): number => performance.now()

export class Proxy {
  readonly #options: ProxyOptions
  readonly #abort = new AbortController()
  readonly #mode: Mode
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
  readonly #audits: AuditRounds
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
    const problems = new ProblemLog(options.log)
    // The mode tells nothing before it runs.
    const told: { proxy?: Proxy } = {}
    const mode = await openMode({
      ...options,
      configuration: () => told.proxy?.configuration ?? options.configuration,
      problems,
      now,
      onRulesPassed: (report, durationMs, family) => told.proxy?.rulesPassed(report, durationMs, family),
      onReady: () => told.proxy?.resume(),
      onFlowsRemoved: (...removed) => told.proxy?.metrics.sync.flowsRemoved(...removed),
    })
    told.proxy = new Proxy(options, mode, problems)
    return told.proxy
  }

  private constructor(options: ProxyOptions, mode: Mode, problems: ProblemLog) {
    const { configuration, nodeName, log } = options
    const { dataplane, families } = mode
    this.#options = options
    this.configuration = configuration
    // Until somebody waits for it.
    this.failed.catch(() => undefined)
    this.#mode = mode
    this.#problems = problems
    this.#closers.push(() => mode.close())
    this.#node = new FollowedNode({
      ...options,
      configuration: () => this.configuration,
      rtnetlink: mode.rtnetlink,
      now,
      onChange: (node) => this.#nodeChanged(node),
      signal: this.#abort.signal,
    })
    this.#desired = new DesiredFrontends(mode.contextOf(this.#node.view.context))
    this.metrics = proxyMetrics({ ...options, mode, desired: this.#desired, now })
    this.#closers.push(() => this.metrics.close())
    this.#passLog = new PassLog({ log, desired: this.#desired })
    this.#flows = new FlowRemoval({ staleFlows: dataplane.staleFlows, now, log })
    const syncPeriodMs = (): number => periodsOf(this.configuration).syncPeriodMs
    this.#health = options.health ?? new ProxyHealth({ nodeName, families, syncPeriodMs, now })
    this.#health.follow({ families, tables: () => mode.tableHealth(), rules: mode.rules })
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
      dataplane,
      desired: this.#desired,
      minSyncPeriodMs: () => periodsOf(this.configuration).minSyncPeriodMs,
      now,
      onBegin: () => this.#health.passBegins(),
      onFrontend: (key, frontend) => {
        this.metrics.sync.frontend(key, frontend)
        this.#healthChecks.frontend(key, frontend)
      },
      onWorkedOut: () => this.metrics.sync.beginPass(),
      onPass: (report, durationMs) => {
        mode.passed(report)
        this.#passed('tables', report, durationMs, !mode.isPending)
      },
      onProblems: (owner, problems) => this.#problems.report('service', owner, problems),
      onError: (error) => log.error('A pass failed', { error }),
    })
    this.#audits = new AuditRounds(
      (signal) => mode.audit(this.#watch, this.#health.alsoHears(this.metrics.auditObserver), signal),
      this.#abort.signal,
    )
    this.#closers.push(() => this.#audits.close())
    this.#opening = new Opening({
      ...options,
      support: mode.support,
      onNode: () => this.#node.tell(),
      open: (mayRemove) => this.#loop.open(mayRemove),
      onFatal: (error) => this.fail(error),
    })
  }

  /** Everything that talks to the kernel, where a measurement counts messages. */
  get connections(): ProbedKernel | undefined {
    return this.#mode.connections
  }

  /** A pass over the rules of a family is over. */
  rulesPassed(report: PassReport, durationMs: number, family: IpFamily): void {
    this.#passed(family, report, durationMs, false)
    this.resume()
  }

  /** What rules held up may come: a minimum period is over changes, not over this. */
  resume(): void {
    this.#loop.resume()
  }

  /** Makes `failed` reject. */
  fail(error: CodedError): void {
    this.#fail(error)
  }

  /** Takes a configuration over that differs only in the LIVE_FIELDS of its mode. */
  reconfigure(configuration: KubeProxyConfiguration): void {
    this.configuration = configuration
    this.#mode.reconfigured()
    this.#node.tell()
    // With the period of now.
    this.#audits.start()
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
      dataplane: this.#mode.dataplane,
      deadlineMs,
      onWait: (awaited) =>
        this.#options.log.info('Waiting for the first lists', { awaited, timeout: `${deadlineMs / 1000}s` }),
      signal: this.#abort.signal,
    })
  }

  async #run(): Promise<void> {
    const { log, openSource } = this.#options
    await this.#mode.prepare(this.#abort.signal)
    this.#closers.push(this.#mode.watch(this.#watch).close)
    await this.#node.readAddresses()
    logWaiting(log)
    const source = openSource(this.#sink(this.#opening))
    this.#closers.push(() => source.close())
    this.#audits.start()
  }

  get #watch(): ModeWatch {
    return { onDoubt: () => this.#loop.request(), onNodeAddresses: () => this.#node.addressesChanged() }
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

  #nodeChanged(node: NodeView): void {
    const { context, problems, addresses } = node
    // Before the Node was listed its addresses are unknown without anything being wrong.
    if (!this.#opening.awaited.has('nodes')) this.#problems.report('node', 'configuration', problems)
    this.#mode.nodeChanged(node)
    this.#healthChecks.nodeChanged(addresses, context.nodeIps)
    this.#loop.setContext(this.#mode.contextOf(context))
    this.#loop.request()
  }

  #passed(what: 'tables' | IpFamily, report: PassReport, durationMs: number, complete: boolean): void {
    this.metrics.sync.passed(what, report, durationMs)
    this.#passLog.passed(report, durationMs)
    this.#health.passed(what, report)
    this.#healthChecks.passed()
    this.#flows.passed()
    this.#options.onPass?.(report, complete)
  }
}
