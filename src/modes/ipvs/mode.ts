/**
 * ipvs mode as the proxy sees it: kernel, sets and rules, and dataplane put together.
 * What could break: what iptables mode left goes only once a pass has left nothing to do and all rules are in.
 */
import { schedulerOf } from '../../ipvs/scheduler.ts'
import { IpvsDataplane } from './dataplane.ts'
import { audit, type Kernel, type KernelFollowOptions, openKernel, watchAnnouncements } from './kernel.ts'
import type { AuditObserver } from './audits.ts'
import { SetsAndRules } from './sets-and-rules.ts'
import { type TableHealth, tableHealth } from '../table-health.ts'
import { DEVICE_KIND } from '../../ipvs/address-diff.ts'
import type { MissingMatchError } from '../../iptables/errors.ts'
import type { KernelSources } from '../../metrics/sources.ts'
import type { NodeContext } from '../../service/node-context.ts'
import type { PassReport } from '../../sync/reconciler.ts'
import type { ProbedKernel } from '../bench-probe.ts'
import { ipvsSources } from './metric-sources.ts'
import type { Mode, ModeOptions, ModeWatch, NodeView } from '../mode.ts'
import { prepareNode } from '../prepare-node.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'

export class IpvsMode implements Mode {
  readonly kernel: Kernel
  readonly dataplane: IpvsDataplane
  readonly #options: ModeOptions
  readonly #guard: SetsAndRules
  #hasNamedUnknown = false

  /** Rejects with `module-missing` and the like when ipvs mode cannot work here. */
  static async open(options: ModeOptions): Promise<IpvsMode> {
    return new IpvsMode(options, await openKernel(options.configuration()))
  }

  private constructor(options: ModeOptions, kernel: Kernel) {
    const { nodeName, log, now, onRulesPassed, onReady, onFlowsRemoved } = options
    const configuration = options.configuration()
    const { families } = kernel
    this.#options = options
    this.kernel = kernel
    this.#guard = new SetsAndRules({
      tables: kernel.guard.tables,
      settings: configuration,
      families,
      randomFully: kernel.guard.iptables.choice.randomFully,
      nodeName,
      now,
      onGrown: (set, maxElements) => log.warn('A set was full and has been made larger', { set, maxElements }),
      onPass: onRulesPassed,
      onMissing: (error, leftOut) => this.#reportLeftOut(error, leftOut),
      onReady,
      onError: (error) => log.error('Writing rules failed', { error }),
    })
    this.dataplane = new IpvsDataplane({
      tables: kernel.ipvs.tables,
      guard: this.#guard,
      conntrack: kernel.ipvs.conntrack,
      scheduler: schedulerOf(configuration.ipvs.scheduler),
      families,
      drainDeadlineMs: configuration.kubeIPVS.drainDeadlineMs || undefined,
      now,
      onFlowsRemoved,
      log,
    })
    this.dataplane.wantFixtures()
  }

  get families() {
    return this.kernel.families
  }

  get support() {
    return this.kernel.guard.support
  }

  get rtnetlink() {
    return this.kernel.ipvs.rtnetlink
  }

  get rules() {
    return this.#guard.loops
  }

  get sources(): KernelSources {
    return ipvsSources(this.kernel, this.dataplane)
  }

  tableHealth(): Iterable<TableHealth> {
    return tableHealth(this.dataplane, this.families)
  }

  get isPending(): boolean {
    return this.#guard.isPending
  }

  get connections(): ProbedKernel {
    const { ipvs, auditIpvs, rtnetlink, auditRtnetlink } = this.kernel.ipvs
    const { ipset, auditIpset } = this.kernel.guard
    return { ipvs, auditIpvs, rtnetlink, auditRtnetlink, ipset, auditIpset }
  }

  contextOf(context: NodeContext): NodeContext {
    return context
  }

  nodeChanged({ podCidrs }: NodeView): void {
    this.#guard.podCidrs(podCidrs)
  }

  reconfigured(): void {
    // Everything that is live here is asked for when it is needed.
  }

  async prepare(signal: AbortSignal): Promise<void> {
    const { problems, log } = this.#options
    const iptables = this.kernel.guard.iptables.choice
    log.info('Using iptables', { backEnd: iptables.mode, reason: iptables.reason })
    await prepareNode({
      configuration: this.#options.configuration(),
      kernel: this.kernel.ipvs,
      guard: this.#guard,
      iptables,
      families: this.families,
      problems,
      log,
      signal,
    })
  }

  watch(watch: ModeWatch): { close(): void } {
    const watched = watchAnnouncements(this.#following(watch, undefined, AbortSignal.abort()))
    // While the lists come; from here on changes are announced.
    this.#guard.readRules()
    return watched
  }

  audit(watch: ModeWatch, observer: AuditObserver, signal: AbortSignal): Promise<void> {
    return audit(this.#following(watch, observer, signal))
  }

  passed(report: PassReport): void {
    this.#reportDevice()
    this.#nameUnknown()
    if (report.failures.length === 0 && report.unreadable.length === 0 && !this.isPending) this.#guard.allowRemovals()
  }

  async close(): Promise<void> {
    await this.#guard.close()
    this.kernel.close()
  }

  #following(watch: ModeWatch, auditObserver: AuditObserver | undefined, signal: AbortSignal): KernelFollowOptions {
    const { log, now, configuration } = this.#options
    const { kernel, dataplane } = this
    const auditPeriodMs = configuration().ipvs.syncPeriodMs
    return { kernel, dataplane, log, ...watch, auditPeriodMs, auditObserver, now, signal }
  }

  /** A link of the device's name that somebody made of another kind works, so it is used; it is worth a word. */
  #reportDevice(): void {
    const kind = this.dataplane.device.live(SERVICE_DEVICE)?.kind
    const message = `the link is of kind "${kind}" instead of "${DEVICE_KIND}"; it is used as it is and never deleted`
    const wrong = kind !== undefined && kind !== DEVICE_KIND
    const problems = wrong ? [{ code: 'device-kind', subject: SERVICE_DEVICE, message }] : []
    this.#options.problems.report('device', SERVICE_DEVICE, problems)
  }

  /** The kernel takes IPVS services of any protocol; what Services cannot be is left alone, which is worth a word. */
  #nameUnknown(): void {
    const { ipvs, auditIpvs } = this.kernel.ipvs
    const services = Math.max(ipvs.unknownServices, auditIpvs.unknownServices)
    if (services === 0 || this.#hasNamedUnknown) return
    this.#hasNamedUnknown = true
    this.#options.log.info('Leaving IPVS services of other protocols than TCP, UDP and SCTP alone', { services })
  }

  #reportLeftOut({ code, match, message }: MissingMatchError, leftOut: readonly string[]): void {
    const rules = leftOut.length === 0 ? message : `${message}; left out: ${leftOut.join('; ')}`
    this.#options.problems.report('iptables', match, [{ code, subject: `module xt_${match}`, message: rules }])
  }
}
