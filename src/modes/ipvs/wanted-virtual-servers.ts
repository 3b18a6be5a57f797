/**
 * What is wanted of virtual servers: each as its frontend has it, under the scheduler that is in
 * force for it, with the weights of real servers that start slowly or do not answer.
 */
import { acceptOutliers } from '../../ipvs/outlier-states.ts'
import { Outliers } from '../../ipvs/outliers.ts'
import { schedulerFlags, schedulerWeights } from '../../ipvs/scheduler.ts'
import { acceptStarting, SlowStarts } from '../../ipvs/slow-starts.ts'
import {
  FLAG_PERSISTENT,
  FLAG_SCHED_1,
  type RealServer,
  type VirtualServer,
  type VirtualServerOperation,
} from '../../ipvs/types.ts'
import { goesElsewhere } from '../../service/annotations.ts'
import type { Endpoint } from '../../service/endpoints.ts'
import type { AddressFrontend, FrontendKey } from '../../service/frontends.ts'
import { weightsOf } from '../../service/service-port.ts'
import { DEFAULT_WEIGHT, isGradual, slowStartFactor, usesWeights } from '../../service/weights.ts'
import type { TableSync } from '../../sync/table-sync.ts'
import { type Clock, earliest } from '../../values/clock.ts'
import { newBudget } from '../../values/event-loop.ts'
import type { IpFamily } from '../../values/protocol.ts'
import type { ChosenSchedulers } from './chosen-schedulers.ts'
import { SlowStartSteps } from './slow-start-steps.ts'

interface WantedVirtualServersOptions {
  readonly schedulers: ChosenSchedulers
  /** `kubeIPVS.outlierDetection`. Default false. */
  readonly outlierDetection?: boolean
  readonly now: Clock
}

export class WantedVirtualServers {
  readonly slowStarts = new SlowStarts()
  readonly outliers = new Outliers()
  readonly #table: TableSync<VirtualServer, VirtualServerOperation>
  readonly #options: WantedVirtualServersOptions
  readonly #slowStartSteps = new SlowStartSteps(this.slowStarts)
  /**
   * Frontends that are rendered once the kernel has been asked for their schedulers: at a start
   * rendering all of them twice is slow.
   */
  readonly #unrendered = new Map<FrontendKey, AddressFrontend>()

  constructor(table: TableSync<VirtualServer, VirtualServerOperation>, options: WantedVirtualServersOptions) {
    this.#table = table
    this.#options = options
  }

  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void {
    const { schedulers } = this.#options
    const isUnknown = frontend !== undefined && schedulers.isUnknown(frontend)
    const scheduler = schedulers.inForce(key, frontend)
    if (isUnknown) this.#unrendered.set(key, frontend)
    else {
      this.#unrendered.delete(key)
      this.#want(key, frontend, scheduler)
    }
  }

  #want(key: FrontendKey, frontend: AddressFrontend | undefined, scheduler: string): void {
    const { slowStarts, outliers } = this
    const table = this.#table
    if (frontend === undefined) {
      this.#slowStartSteps.set(key, undefined)
      slowStarts.forget(key)
      outliers.forget(key)
      table.want(key, undefined)
      return
    }
    const full = renderVirtualServer(frontend, scheduler)
    // Before the kernel has it, all real servers are equally new.
    const before = table.live(key) === undefined ? undefined : table.desired(key)
    const durationMs = slowStartOf(frontend, scheduler)
    this.#slowStartSteps.set(key, durationMs === undefined ? undefined : ownerOf(frontend))
    const base = slowStarts.render(key, full, before, durationMs, this.#options.now())
    const isJudged = judgesOutliers(frontend, base, this.#options.outlierDetection ?? false)
    table.want(key, outliers.render(key, base, isJudged ? ownerOf(frontend) : undefined))
  }

  /** Real servers of this virtual server got another state in `outliers`. A pass applies it. */
  rejudged(key: FrontendKey): void {
    const server = this.outliers.rendered(key)
    if (server !== undefined) this.#table.want(key, server)
  }

  /** Takes steps of slow starts that are due. Those that are left wait for the next pass. */
  stepSlowStarts(): void {
    if (this.#slowStartSteps.nextDueMs() === undefined) return
    const { now } = this.#options
    this.#slowStartSteps.take(newBudget(now), now(), (key, server) =>
      this.#table.want(key, this.outliers.withBase(key, server)),
    )
  }

  /** Asks the kernel for schedulers, and renders what waited for that, or has one now that was missing. */
  async askSchedulers(signal: AbortSignal): Promise<void> {
    const { schedulers } = this.#options
    for (const frontend of await schedulers.ask(signal)) {
      const { key } = frontend
      this.#unrendered.delete(key)
      this.#want(key, frontend, schedulers.inForce(key, frontend))
    }
    // Their schedulers are missing.
    for (const [key, frontend] of this.#unrendered) this.#want(key, frontend, schedulers.inForce(key, frontend))
    this.#unrendered.clear()
  }

  /**
   * This process does not know which endpoints start slowly in the daemon that runs, and which get
   * no connections because they do not answer, so it takes their weights as they are.
   */
  async acceptChanging(signal: AbortSignal): Promise<void> {
    const [starting, judged] = [new Set(this.#slowStartSteps.keys()), new Set(this.outliers.keys())]
    if (starting.size === 0 && judged.size === 0) return
    const table = this.#table
    await table.read(signal)
    for (const key of new Set([...starting, ...judged])) {
      const [wanted, live] = [table.desired(key), table.live(key)]
      if (wanted === undefined) continue
      const started = starting.has(key) ? acceptStarting(wanted, live) : wanted
      table.want(key, judged.has(key) ? acceptOutliers(started, live) : started)
    }
  }

  /** When a pass has something to do here; undefined: never. */
  nextDueMs(): number | undefined {
    return earliest(this.#slowStartSteps.nextDueMs(), this.#options.schedulers.nextDueMs())
  }
}

/** The Service of a frontend, as DesiredFrontends names it. */
function ownerOf({ servicePort: { service } }: AddressFrontend): string {
  return `${service.namespace}/${service.name}`
}

/**
 * How long new endpoints of a frontend start, in milliseconds; undefined: its Service or the
 * scheduler in force knows no slow start.
 */
function slowStartOf({ servicePort }: AddressFrontend, scheduler: string): number | undefined {
  return isGradual(scheduler) ? servicePort.choices.slowStartMs : undefined
}

/**
 * Whether real servers of a frontend that do not answer get no new connections for a while.
 * @param byDefault for a Service that does not choose
 */
function judgesOutliers(
  { servicePort: { protocol, choices } }: AddressFrontend,
  { scheduler, flags }: Pick<VirtualServer, 'scheduler' | 'flags'>,
  byDefault: boolean,
): boolean {
  const isWanted = choices.outlierDetection ?? byDefault
  return isWanted && protocol !== 'sctp' && goesElsewhere(scheduler, (flags & FLAG_SCHED_1) !== 0)
}

/**
 * The virtual server of one frontend, with the full weight of each real server. Its real servers
 * are the endpoints that this node may use, already in the order of compareRealServers. Every field
 * is compared with what the kernel lists, so it has the value that the kernel returns after the
 * write. A scheduler that is not the chosen one has its own flags.
 */
function renderVirtualServer(frontend: AddressFrontend, scheduler: string): VirtualServer {
  const { address, port, selection, servicePort } = frontend
  const { family, protocol, service, choices } = servicePort
  const { affinityTimeoutSeconds: timeoutSeconds } = service
  const isChosen = choices.scheduler === undefined || choices.scheduler.name === scheduler
  const prefixLength = (timeoutSeconds > 0 && choices.affinityPrefixLength?.[family]) || FULL_LENGTH[family]
  const upperThreshold = choices.maxConnections ?? 0
  const chosen = usesWeights(scheduler) ? weightsOf(servicePort, selection) : undefined
  const weights = chosen && schedulerWeights(scheduler, chosen)
  const factor = slowStartOf(frontend, scheduler) === undefined ? 1 : slowStartFactor(choices.weights)
  return {
    family,
    address,
    port,
    protocol,
    scheduler,
    flags:
      schedulerFlags(scheduler, isChosen ? choices.hashFlags : undefined) | (timeoutSeconds > 0 ? FLAG_PERSISTENT : 0),
    timeoutSeconds,
    netmask: family === 'IPv4' ? (-1 << (32 - prefixLength)) >>> 0 : prefixLength,
    persistenceEngine: '',
    realServers: selection.endpoints.map((endpoint, index) =>
      renderRealServer(endpoint, factor * (weights?.[index] ?? DEFAULT_WEIGHT), upperThreshold),
    ),
  }
}

const FULL_LENGTH: Readonly<Record<IpFamily, number>> = { IPv4: 32, IPv6: 128 }

/** With the lower threshold 0 the kernel uses three quarters of the upper one (ip_vs_unbind_dest). */
function renderRealServer({ address, port }: Endpoint, weight: number, upperThreshold: number): RealServer {
  return { address, port, weight, forwarding: 'masquerade', upperThreshold, lowerThreshold: 0 }
}
