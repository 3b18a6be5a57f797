/**
 * The whole proxy put together: sources, node, frontends, dataplane, kernel.
 * What could break: the order of starting. The lists come while the kernel is looked at, the node's addresses are known
 * before the first frontend is made, and nothing is written before every source has listed.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { FlowRemoval } from '../dataplane/flow-removal.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import { SyncHealth } from '../serve/sync-health.ts'
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
import type { Mode, ModeWatch } from './mode.ts'
import { openMode } from './open-mode.ts'
import { PassLog } from './pass-log.ts'
import { preview } from './preview.ts'

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
}

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
  readonly #health: SyncHealth
  readonly #healthChecks: HealthCheckPorts
  readonly #flows: FlowRemoval
  readonly #lists: FirstLists
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
      problems,
      now,
      onRulesPassed: (report, durationMs) => told.proxy?.rulesPassed(report, durationMs),
      onReady: () => told.proxy?.resume(),
    })
    told.proxy = new Proxy(options, mode, problems)
    return told.proxy
  }

  private constructor(options: ProxyOptions, mode: Mode, problems: ProblemLog) {
    const { configuration, log } = options
    const { dataplane, families } = mode
    this.#options = options
    this.#mode = mode
    this.#problems = problems
    this.#closers.push(() => mode.close())
    this.#node = new FollowedNode({
      ...options,
      rtnetlink: mode.rtnetlink,
      now,
      onChange: (node) => this.#nodeChanged(node),
      signal: this.#abort.signal,
    })
    this.#desired = new DesiredFrontends(mode.contextOf(this.#node.view.context))
    this.#passLog = new PassLog({ log, desired: this.#desired })
    this.#flows = new FlowRemoval({ staleFlows: dataplane.staleFlows, now, log })
    this.#health = new SyncHealth(2 * mode.syncPeriodMs, now)
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
      dataplane,
      desired: this.#desired,
      minSyncPeriodMs: mode.minSyncPeriodMs,
      now,
      onFrontend: (key, frontend) => this.#healthChecks.frontend(key, frontend),
      onPass: (report, durationMs) => {
        mode.passed(report)
        this.#passed('tables', report, durationMs, !mode.isPending)
      },
      onProblems: (owner, problems) => this.#problems.report('service', owner, problems),
      onError: (error) => log.error('A pass failed', { error }),
    })
    this.#lists = new FirstLists({
      onNode: () => this.#node.tell(),
      onComplete: (mayRemove) => this.#open(mayRemove),
    })
  }

  /** Everything that talks to the kernel, where a measurement counts messages. */
  get connections(): ProbedKernel | undefined {
    return this.#mode.connections
  }

  /** A pass over the rules of a family is over. */
  rulesPassed(report: PassReport, durationMs: number): void {
    this.#passed('rules', report, durationMs, false)
    this.resume()
  }

  /** What rules held up may come: a minimum period is over changes, not over this. */
  resume(): void {
    this.#loop.resume()
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
      dataplane: this.#mode.dataplane,
      deadlineMs,
      signal: this.#abort.signal,
    })
  }

  async #run(): Promise<void> {
    const { openSource } = this.#options
    const { signal } = this.#abort
    await this.#mode.prepare(signal)
    const watch: ModeWatch = {
      onDoubt: () => this.#loop.request(),
      onNodeAddresses: () => this.#node.addressesChanged(),
    }
    this.#closers.push(this.#mode.watch(watch).close)
    await this.#node.readAddresses()
    const source = openSource(this.#sink(this.#lists))
    this.#closers.push(() => source.close())
    const audits = this.#mode.audit(watch, signal)
    this.#closers.push(() => audits)
  }

  #sink(lists: FirstLists): ObjectSink {
    return {
      apply: (changes) => {
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

  #nodeChanged(node: NodeView): void {
    const { context, problems, addresses } = node
    // Before the Node was listed its addresses are unknown without anything being wrong.
    if (!this.#lists.awaited.has('nodes')) this.#problems.report('node', 'configuration', problems)
    this.#mode.nodeChanged(node)
    this.#healthChecks.nodeChanged(addresses, context.nodeIps)
    this.#loop.setContext(this.#mode.contextOf(context))
    this.#loop.request()
  }

  #passed(what: 'tables' | 'rules', report: PassReport, durationMs: number, complete: boolean): void {
    this.#passLog.passed(report, durationMs)
    this.#health.passed(what, report.unreadable.length === 0)
    this.#healthChecks.passed()
    this.#flows.passed()
    this.#options.onPass?.(report, complete)
  }
}
