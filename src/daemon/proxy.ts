/**
 * The life of the proxy: preparation, start, plan, reload, handover, end. `assembleProxy` in
 * `proxy-assembly.ts` makes its parts.
 */
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Fallback } from '../modes/fallback.ts'
import type { FlowRemoval } from '../modes/flow-removal.ts'
import type { Mode, ModeWatch } from '../modes/mode.ts'
import type { Relays } from '../relay/relays.ts'
import type { HealthChecks } from '../serve/health-checks.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { AppliedObjects } from '../sync/applied-objects.ts'
import type { DesiredFrontends, FrontendListener } from '../sync/desired-frontends.ts'
import type { SyncLoop } from '../sync/loop.ts'
import type { PlanRow } from '../sync/plan.ts'
import type { NodeLabels } from '../service/node-context.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import type { ObjectSink, Source } from '../watch/source.ts'
import { FirstLists, listOnce } from './first-lists.ts'
import type { FollowedNode } from './followed-node.ts'
import type { FollowedNodeLabels } from './followed-node-labels.ts'
import type { Inspected } from './daemon-view.ts'
import type { HealthCheckPorts } from './health-check-ports.ts'
import type { LocalhostNodePorts } from './localhost-node-ports.ts'
import type { PassLog } from './pass-log.ts'
import type { ProxyHealth } from './proxy-health.ts'
import type { ProxyListener } from './proxy-listener.ts'
import type { Readiness } from './readiness.ts'
import type { Rivals } from './rivals.ts'
import type { ServiceEvents } from './service-events.ts'
import { SharedSource } from './shared-source.ts'

/** Everything that is open while the proxy lives. */
export interface ProxyParts {
  /** The configuration in force; a reload replaces it, and parts ask for it when they need it. */
  readonly inForce: { configuration: KubeProxyConfiguration }
  readonly mode: Mode
  /** Why the mode is not the configured one. */
  readonly fallback: Fallback | undefined
  readonly node: FollowedNode
  readonly nodeLabels: FollowedNodeLabels
  readonly desired: DesiredFrontends
  readonly metrics: Metrics
  readonly flows: FlowRemoval
  readonly healthChecks: HealthCheckPorts
  readonly localhostNodePorts: LocalhostNodePorts
  readonly rivals: Rivals
  /** Absent: nobody takes Events. */
  readonly serviceEvents: ServiceEvents | undefined
  readonly loop: SyncLoop
  readonly readiness: Readiness
  readonly health: ProxyHealth
  readonly problems: ProblemLog
  readonly passLog: PassLog
  readonly listener: ProxyListener
  /** Aborted when the proxy stops. */
  readonly abort: AbortController
  /** Rejects when only a new process can help. */
  readonly failed: Promise<never>
  readonly log: Log
}

/** What a proxy leaves to the one that takes its place. */
export interface Handover {
  readonly source: SharedSource
  readonly objects: AppliedObjects
  readonly healthChecks: HealthChecks
  readonly relays: Relays
  /** Of all Nodes; undefined: not known. */
  readonly nodeLabels: NodeLabels | undefined
  /** In place of handing it over. */
  close(): Promise<void>
}

export class Proxy {
  readonly #parts: ProxyParts
  readonly #watch: ModeWatch
  readonly #audits: AuditRounds
  #source: SharedSource | Source | undefined
  #watched: { close(): void } | undefined

  constructor(parts: ProxyParts) {
    const { mode, listener, abort } = parts
    this.#parts = parts
    this.#watch = {
      onDoubt: listener.kernelDoubted,
      onNodeAddresses: listener.nodeAddressesAnnounced,
      onForeignWrite: listener.foreignWrite,
    }
    this.#audits = new AuditRounds((signal) => mode.audit(this.#watch, listener.audits, signal), abort.signal)
  }

  /** The configuration in force. */
  get configuration(): KubeProxyConfiguration {
    return this.#parts.inForce.configuration
  }

  /** The mode that runs: after a fallback not the configured one. */
  get mode(): ProxyMode {
    return this.#parts.mode.name
  }

  get metrics(): Metrics {
    return this.#parts.metrics
  }

  /** Rejects when only a new process can help. */
  get failed(): Promise<never> {
    return this.#parts.failed
  }

  /** What the local socket tells about. */
  get inspected(): Inspected {
    return this.#parts
  }

  /** Prepares the kernel. Rejects with `module-missing` and the like when the mode cannot work here. */
  prepare(): Promise<void> {
    const { mode, abort } = this.#parts
    return mode.prepare(abort.signal)
  }

  /**
   * Delivers what the source reports, or what the proxy before has handed over. The node's
   * addresses are read before the first frontend is made from them; when that fails, everything but
   * node ports is served, and nothing is removed until they are known.
   */
  async start(from: SharedSource | Handover): Promise<void> {
    const { mode, node, nodeLabels, readiness, listener, health, healthChecks, localhostNodePorts } = this.#parts
    health.follow({ families: mode.families, tables: () => mode.tableHealth(), parts: mode.parts })
    this.#watched = mode.watch(this.#watch)
    await node.tryAddresses()
    readiness.start()
    if ('objects' in from) {
      this.#source = from.source
      healthChecks.adopt(from.healthChecks)
      localhostNodePorts.adopt(from.relays)
      if (from.nodeLabels !== undefined) nodeLabels.adopt(from.nodeLabels)
      await from.source.handOver(from.objects, listener.source)
    } else {
      this.#source = from
      from.deliverTo(listener.source)
    }
    this.#audits.start()
  }

  /**
   * What a pass would find and do now; instead of `start`. The lists are awaited here and not
   * reported to `readiness`, which would open the loop. Rejects with `source-timeout` when the
   * source has not listed within the deadline.
   */
  async plan(
    openSource: (sink: ObjectSink) => Source,
    deadlineMs: number,
    { reportsProblems = false }: { readonly reportsProblems?: boolean } = {},
  ): Promise<PlanRow[]> {
    const { mode, node, nodeLabels, desired, listener, abort, log } = this.#parts
    await node.readAddresses()
    const lists = new FirstLists()
    this.#source = openSource({ ...listener.source, listed: (kind) => lists.listed(kind) })
    await listOnce(lists, deadlineMs, (awaited) =>
      log.info('Waiting for the first lists', { awaited, timeout: `${deadlineMs / 1000}s` }),
    )
    const frontend: FrontendListener['frontend'] = (key, changed) => {
      mode.dataplane.frontend(key, changed)
      nodeLabels.frontend(key, changed)
    }
    const problems = reportsProblems ? listener.serviceProblems : () => undefined
    desired.flushAll({ frontend, problems })
    await nodeLabels.known(deadlineMs)
    desired.flushAll({ frontend, problems })
    return mode.dataplane.plan(abort.signal)
  }

  /** Applies a configuration that differs only in fields that are live in its mode. */
  reconfigure(configuration: KubeProxyConfiguration): void {
    const { inForce, mode, node, loop, localhostNodePorts } = this.#parts
    inForce.configuration = configuration
    mode.reconfigured()
    localhostNodePorts.reconfigured()
    node.report()
    // The room of the node may have changed.
    loop.request()
    // The period of audits may have changed.
    this.#audits.start()
  }

  /** Makes `failed` reject. */
  fail(error: CodedError): void {
    this.#parts.listener.failed(error)
  }

  /**
   * Stops everything, in the reverse order of the start; the kernel stays as it is.
   * @param isReplaced a proxy that has started leaves its source, its objects and its ports to the
   * next one
   */
  async close(isReplaced = false): Promise<Handover | undefined> {
    const { mode, node, nodeLabels, metrics, flows, healthChecks, rivals, loop, readiness, abort } = this.#parts
    const { localhostNodePorts } = this.#parts
    const handover = isReplaced ? this.#handover() : undefined
    abort.abort(new CodedError('closed', 'the proxy is stopping'))
    readiness.close()
    node.close()
    await nodeLabels.close()
    await loop.close()
    if (handover === undefined) await this.#source?.close()
    this.#watched?.close()
    await this.#audits.close()
    healthChecks.close()
    localhostNodePorts.close()
    rivals.close()
    this.#parts.serviceEvents?.close()
    await flows.close()
    metrics.close()
    await mode.close()
    return handover
  }

  #handover(): Handover | undefined {
    const { desired, healthChecks: ports, localhostNodePorts, nodeLabels } = this.#parts
    const source = this.#source
    if (!(source instanceof SharedSource)) return undefined
    source.hold(desired.objects)
    const healthChecks = ports.release()
    const relays = localhostNodePorts.release()
    const close = (): Promise<void> => {
      healthChecks.close()
      relays.close()
      return source.close()
    }
    return { source, objects: desired.objects, healthChecks, relays, nodeLabels: nodeLabels.labels, close }
  }
}

/** Runs audits until the signal is aborted; resolves then and never rejects. */
export type RunAudits = (signal: AbortSignal) => Promise<void>

/** Audits that start over with other settings: the round before is stopped, and `close` waits for every round. */
export class AuditRounds {
  readonly #run: RunAudits
  readonly #signal: AbortSignal
  readonly #unfinished = new Set<Promise<void>>()
  #current = new AbortController()

  /** @param signal ends the audits for good */
  constructor(run: RunAudits, signal: AbortSignal) {
    this.#run = run
    this.#signal = signal
  }

  /** Starts the audits, or starts them over with the settings in force. */
  start(): void {
    this.#current.abort()
    this.#current = new AbortController()
    const round: Promise<void> = this.#run(AbortSignal.any([this.#signal, this.#current.signal])).finally(() =>
      this.#unfinished.delete(round),
    )
    this.#unfinished.add(round)
  }

  /** Number of rounds that have not ended: one while audits run, more only while stopped rounds are ending. */
  get unfinished(): number {
    return this.#unfinished.size
  }

  /** Resolves when no audit is under way. */
  async close(): Promise<void> {
    this.#current.abort()
    await Promise.all(this.#unfinished)
  }
}
