/**
 * The whole proxy put together: sources, node, frontends, dataplane, kernel.
 * What could break: the order of starting. The kernel is checked before anything is listed, the node's addresses are
 * known before the first frontend is made, and nothing is written before every source has listed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { IpvsDataplane } from '../dataplane/ipvs.ts'
import { checkScheduler, type IpvsKernel, openIpvsKernel, watchKernel } from '../dataplane/ipvs-kernel.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { auditVirtualServers } from '../ipvs/audit.ts'
import { hasIpv6 } from '../node/host.ts'
import { InterfaceAddresses } from '../node/interface-addresses.ts'
import { applySysctls, ipvsSysctls } from '../node/sysctl.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import { NodeState } from '../service/node-state.ts'
import type { ObjectKind } from '../service/objects.ts'
import { auditForEver } from '../sync/audit.ts'
import { CpuBudget } from '../sync/cpu-budget.ts'
import { DesiredFrontends } from '../sync/desired-frontends.ts'
import { SyncLoop } from '../sync/loop.ts'
import type { PassReport } from '../sync/reconciler.ts'
import { parseCidr } from '../values/cidr.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { IP_FAMILIES } from '../values/protocol.ts'
import type { ObjectSink, Source } from '../watch/source.ts'
import { PassLog } from './pass-log.ts'

export interface ProxyOptions {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  readonly drainDeadlineMs: number | undefined
  readonly log: Log
  /** Opens the source of objects on this sink. */
  readonly openSource: (sink: ObjectSink) => Source
  /** Hears of each pass. */
  readonly onPass?: (report: PassReport) => void
}

/** Share of one core for looking after the tables that announce nothing. */
const AUDIT_CPU_SHARE = 0.003
/** What a small table needs goes at once. */
const AUDIT_CREDIT_MS = 20
/** As long as kube-proxy waits for its Node object at a start. */
const NODE_WAIT_MS = 30_000
const KINDS: readonly ObjectKind[] = ['services', 'endpointslices', 'nodes']

const now = (): number => performance.now()

function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

export class Proxy {
  readonly #options: ProxyOptions
  readonly #abort = new AbortController()
  readonly #kernel: IpvsKernel
  readonly #dataplane: IpvsDataplane
  readonly #desired: DesiredFrontends
  readonly #loop: SyncLoop
  readonly #node: NodeState
  readonly #addresses: InterfaceAddresses
  readonly #problems: ProblemLog
  readonly #passLog: PassLog
  readonly #awaited = new Set(KINDS)
  readonly #closers: (() => Promise<void> | void)[] = []
  #nodeTimer: NodeJS.Timeout | undefined

  /** Checks and prepares the kernel, then starts. Rejects with `module-missing` and the like when it cannot work here. */
  static async start(options: ProxyOptions): Promise<Proxy> {
    const proxy = await Proxy.prepare(options)
    await proxy.#run()
    return proxy
  }

  /** All of it in place and the kernel opened, but nothing running and nothing changed: what `diff` needs. */
  static async prepare(options: ProxyOptions): Promise<Proxy> {
    const excluded = options.configuration.ipvs.excludeCIDRs.flatMap((text) => parseCidr(text) ?? [])
    return new Proxy(options, await openIpvsKernel(excluded, AbortSignal.timeout(10_000)))
  }

  private constructor(options: ProxyOptions, kernel: IpvsKernel) {
    const { configuration, nodeName, log } = options
    this.#options = options
    this.#kernel = kernel
    this.#problems = new ProblemLog(log)
    this.#closers.push(() => kernel.close())
    const { bindAddress, nodePortAddresses } = configuration
    this.#node = new NodeState({ nodeName, bindAddress, nodePortAddresses })
    this.#desired = new DesiredFrontends(this.#node.context().context)
    this.#dataplane = new IpvsDataplane({
      tables: kernel.tables,
      scheduler: this.#scheduler,
      families: hasIpv6() ? IP_FAMILIES : ['IPv4'],
      drainDeadlineMs: options.drainDeadlineMs,
      now,
      log,
    })
    this.#dataplane.wantDevice()
    this.#passLog = new PassLog({ log, problems: this.#problems, dataplane: this.#dataplane, desired: this.#desired })
    this.#loop = new SyncLoop({
      dataplane: this.#dataplane,
      desired: this.#desired,
      minSyncPeriodMs: configuration.ipvs.minSyncPeriodMs,
      now,
      onPass: (report, durationMs) => {
        this.#passLog.passed(report, durationMs)
        options.onPass?.(report)
      },
      onProblems: (owner, problems) => this.#problems.report('service', owner, problems),
      onError: (error) => log.error('A pass failed', { error }),
    })
    this.#addresses = new InterfaceAddresses({
      rtnetlink: kernel.rtnetlink,
      now,
      onChange: () => this.#nodeChanged(),
      onError: (error) => log.warn('Cannot read the addresses of this node', { error }),
      signal: this.#abort.signal,
    })
  }

  get #scheduler(): string {
    return this.#options.configuration.ipvs.scheduler || 'rr'
  }

  get dataplane(): IpvsDataplane {
    return this.#dataplane
  }

  get kernel(): IpvsKernel {
    return this.#kernel
  }

  /** Stops everything; the kernel stays as it is. */
  async close(): Promise<void> {
    this.#abort.abort(new CodedError('closed', 'the proxy is stopping'))
    clearTimeout(this.#nodeTimer)
    this.#addresses.close()
    await this.#loop.close()
    for (const close of this.#closers.toReversed()) await close()
  }

  /** The commands a pass would run now. Rejects when the sources have not listed within the deadline. */
  async preview(deadlineMs: number): Promise<string[]> {
    await this.#addresses.read()
    // Not to #listed: that would open the loop, and a preview changes nothing.
    const source = this.#options.openSource(this.#sink((kind) => this.#awaited.delete(kind)))
    this.#closers.push(() => source.close())
    const lateMs = now() + deadlineMs
    while (this.#awaited.size > 0) {
      if (now() > lateMs)
        throw new CodedError(
          'source-timeout',
          `no complete list of ${[...this.#awaited].join(', ')} within ${deadlineMs / 1000} s`,
        )
      await sleep(10)
    }
    const listener = {
      frontend: this.#dataplane.frontend.bind(this.#dataplane),
      problems: () => undefined,
    }
    this.#desired.flush(listener, Number.POSITIVE_INFINITY)
    return this.#dataplane.preview({ signal: this.#abort.signal, mayRemove: true })
  }

  async #run(): Promise<void> {
    const { configuration, log, openSource } = this.#options
    const { signal } = this.#abort
    await checkScheduler(this.#kernel.ipvs, this.#scheduler, signal)
    this.#problems.report('sysctl', 'sysctl', applySysctls(ipvsSysctls(configuration.ipvs.strictARP)))
    await this.#setTimeouts(signal)
    const events = watchKernel({
      kernel: this.#kernel,
      dataplane: this.#dataplane,
      onDoubt: () => this.#loop.request(),
      onNodeAddresses: () => this.#addresses.changed(),
      onError: (error) => log.warn('Lost announcements of the kernel; reading everything again', { error }),
    })
    this.#closers.push(() => events.close())
    await this.#addresses.read()
    const source = openSource(this.#sink((kind) => this.#listed(kind)))
    this.#closers.push(() => source.close())
    const audit = this.#audit(signal)
    this.#closers.push(() => audit)
  }

  async #setTimeouts(signal: AbortSignal): Promise<void> {
    const { tcpTimeoutMs, tcpFinTimeoutMs, udpTimeoutMs } = this.#options.configuration.ipvs
    if (tcpTimeoutMs + tcpFinTimeoutMs + udpTimeoutMs === 0) return
    const seconds = (milliseconds: number): number => Math.floor(milliseconds / 1000)
    try {
      await this.#kernel.ipvs.setTimeouts(
        {
          tcpSeconds: seconds(tcpTimeoutMs),
          tcpFinSeconds: seconds(tcpFinTimeoutMs),
          udpSeconds: seconds(udpTimeoutMs),
        },
        { signal },
      )
    } catch (error) {
      this.#options.log.error('Cannot set the IPVS timeouts', { error })
    }
  }

  #audit(signal: AbortSignal): Promise<void> {
    const { configuration, log } = this.#options
    const budget = new CpuBudget({
      share: AUDIT_CPU_SHARE,
      creditMs: AUDIT_CREDIT_MS,
      now,
      sleep: (ms, abort) => sleep(ms, undefined, { signal: abort }),
    })
    return auditForEver({
      periodMs: configuration.ipvs.syncPeriodMs,
      round: (abort) =>
        auditVirtualServers({
          ipvs: this.#kernel.auditIpvs,
          mirror: this.#dataplane.virtualServers,
          budget,
          cpuMs,
          onDoubt: () => this.#loop.request(),
          signal: abort,
        }),
      onError: (error) => log.warn('Cannot audit the IPVS table', { error }),
      now,
      signal,
    })
  }

  #sink(listed: (kind: ObjectKind) => void): ObjectSink {
    return {
      apply: (changes) => {
        for (const change of changes) if (change.kind === 'nodes') this.#node.setNode(change.value)
        if (changes.some((change) => change.kind === 'nodes')) this.#nodeChanged()
        this.#loop.apply(changes)
      },
      listed,
      problems: (subject, problems) => this.#problems.report('source', subject, problems),
    }
  }

  #listed(kind: ObjectKind): void {
    this.#awaited.delete(kind)
    if (kind === 'nodes') this.#nodeChanged()
    if (this.#awaited.size === 0) {
      clearTimeout(this.#nodeTimer)
      this.#loop.open(true)
    } else if (this.#awaited.size === 1 && this.#awaited.has('nodes')) {
      this.#nodeTimer = setTimeout(() => {
        this.#options.log.warn('Going on without the Node object; nothing is removed until it is known', {
          node: this.#options.nodeName,
        })
        this.#loop.open(false)
      }, NODE_WAIT_MS)
    }
  }

  #nodeChanged(): void {
    this.#node.setAddresses(this.#addresses.current)
    const { context, problems } = this.#node.context()
    // Before the Node was listed its addresses are unknown without anything being wrong.
    if (!this.#awaited.has('nodes')) this.#problems.report('node', 'configuration', problems)
    this.#loop.setContext(context)
  }
}
