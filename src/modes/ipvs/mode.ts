/**
 * ipvs mode as the proxy sees it: puts kernel, tables, firewall and the dataplane together. What
 * other modes and another firewall left is removed only once the kernel has everything that takes
 * its place.
 */
import { DEVICE_KIND } from '../../ipvs/address-diff.ts'
import type { CurrentDrain } from '../../ipvs/drains.ts'
import type { CurrentOutlier } from '../../ipvs/outlier-states.ts'
import type { KernelSources } from '../../metrics/sources.ts'
import type { PassReport } from '../../sync/pass.ts'
import type { AuditShare } from '../../sync/audit.ts'
import type { TableSync } from '../../sync/table-sync.ts'
import { hasScheduler, schedulerOf } from '../../ipvs/scheduler.ts'
import { mayServe } from '../../service/frontends.ts'
import { parseCidrs } from '../../values/cidr.ts'
import { CodedError, type Problem } from '../../values/errors.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { IPV6_OFF } from '../../node/kernel-settings.ts'
import { type AuditObserver, type Mode, type ModeOptions, type ModeWatch, type NodeView } from '../mode.ts'
import { settingLogger } from '../node-settings.ts'
import type { TableHealth } from '../table-health.ts'
import { auditIpvsMode } from './audits.ts'
import { ChosenSchedulers } from './chosen-schedulers.ts'
import { IpvsDataplane } from './dataplane.ts'
import { type LoggedChains, reportDropping } from './dropping-chains.ts'
import type { Firewall } from './firewall.ts'
import { type Kernel, openKernel } from './kernel.ts'
import { leftoverKinds, LeftoverRemovals } from './leftover-removals.ts'
import { ipvsSources } from './metric-sources.ts'
import { prepareNode, restoreSettings } from './node-preparation.ts'
import { OutlierWatch } from './outlier-watch.ts'
import { openTables, type OpenedTables } from './tables.ts'
import { sourcesOf, unboundLogger } from './virtual-addresses.ts'
import { type KernelWatch, watchKernel } from './watch.ts'

export class IpvsMode implements Mode {
  readonly name = 'ipvs'
  readonly dataplane: IpvsDataplane
  /** A virtual server has one address, so a node port needs one for each address of the node. */
  readonly nodePorts = 'each-address'
  readonly #options: ModeOptions
  readonly #kernel: Kernel
  readonly #tables: OpenedTables
  readonly #firewall: Firewall
  #hasLoggedUnknown = false
  readonly #loggedChains: LoggedChains = new Set()
  /** What nftables mode and the other firewall left. */
  readonly #leftovers: LeftoverRemovals
  #watched: KernelWatch | undefined
  readonly #outlierWatch: OutlierWatch

  /** Rejects with `module-missing` and the like when ipvs mode cannot work here. */
  static async open(options: ModeOptions): Promise<IpvsMode> {
    return new IpvsMode(options, await openKernel(options.configuration().kubeIPVS, options.log))
  }

  private constructor(options: ModeOptions, kernel: Kernel) {
    const { log, now, listener } = options
    const configuration = options.configuration()
    const { families } = kernel.support
    this.#options = options
    this.#kernel = kernel
    const reloaded = (): void => {
      const isRight = restoreSettings({ ...options, configuration: options.configuration(), ipvs: kernel.ipvs })
      // The next proxy falls back, as a start would.
      if (!isRight) listener.ipvsLost()
    }
    for (const ipvs of [kernel.ipvs, kernel.auditIpvs]) ipvs.onMoved = reloaded
    this.#tables = openTables({
      ...kernel,
      nodeName: options.nodeName,
      families,
      excluded: parseCidrs(configuration.ipvs.excludeCIDRs),
      onSetting: settingLogger(log),
      onUnbound: unboundLogger(families, log),
    })
    this.#firewall = kernel.firewall.create({
      ...options,
      settings: configuration,
      serves: (address) => mayServe(this.dataplane.virtualServers.desiredKeys(), address),
    })
    this.dataplane = new IpvsDataplane({
      tables: this.#tables,
      connections: (key, signal) => this.#tables.virtualServers.connections(key, signal),
      firewall: this.#firewall,
      conntrack: kernel.conntrack,
      schedulers: new ChosenSchedulers({
        configured: schedulerOf(configuration.ipvs.scheduler),
        hasScheduler: (name, signal) => hasScheduler(kernel.ipvs, name, { signal }),
        problems: options.problems,
        now,
        log,
      }),
      families,
      drainDeadlineMs: configuration.kubeIPVS.drainDeadlineMs || undefined,
      now,
      onFlowsRemoved: listener.flowsRemoved,
      outlierDetection: configuration.kubeIPVS.outlierDetection,
      log,
    })
    const { dataplane } = this
    this.#outlierWatch = new OutlierWatch({
      ipvs: kernel.auditIpvs,
      outliers: dataplane.servers.outliers,
      rejudged: (key) => dataplane.servers.rejudged(key),
      onJudged: (decisions) => listener.outliersJudged(decisions),
      serverCount: () => dataplane.virtualServers.liveCount,
      problems: options.problems,
      now,
      log,
    })
    this.dataplane.use(configuration.kubeIPVS.virtualAddresses)
    this.#leftovers = new LeftoverRemovals(leftoverKinds(this.firewall.name, log, now), {
      isSpare: () => this.dataplane.isComplete,
      problems: options.problems,
      now,
    })
  }

  get families() {
    return this.support.families
  }

  get support() {
    return this.#kernel.support
  }

  get firewall() {
    return this.#kernel.chosen
  }

  get rtnetlink() {
    return this.#kernel.auditRtnetlink
  }

  get parts() {
    return this.#firewall.parts
  }

  get sources(): KernelSources {
    return ipvsSources(this.#kernel, this.dataplane, this.#outlierWatch)
  }

  outliers(nowMs: number): Iterable<CurrentOutlier> {
    return this.dataplane.servers.outliers.current(nowMs)
  }

  drains(nowMs: number): Iterable<CurrentDrain> {
    return this.dataplane.drains.current(nowMs)
  }

  tableHealth(): readonly TableHealth[] {
    return this.dataplane.tables.flatMap((table) => table.health())
  }

  nodeChanged({ podCidrs, context }: NodeView): void {
    this.#firewall.node({ podCidrs })
    this.dataplane.virtualAddresses.setSources(sourcesOf(context))
  }

  reconfigured(): void {
    this.dataplane.use(this.#options.configuration().kubeIPVS.virtualAddresses)
    this.#watched?.watchRoutes(this.dataplane.virtualAddresses.kind === 'routes')
  }

  async prepare(signal: AbortSignal): Promise<void> {
    const { configuration, problems, log } = this.#options
    const { name, configured, reason } = this.firewall
    log.info('Using the firewall', { firewall: name, configured, reason })
    if (name === 'nftables') await this.#reportDropping(signal)
    await prepareNode({
      configuration: configuration(),
      ipvs: this.#kernel.ipvs,
      firewall: this.#firewall,
      firewallName: this.firewall.name,
      families: this.families,
      problems,
      log,
      signal,
    })
  }

  watch(watch: ModeWatch): { close(): void } {
    const { log } = this.#options
    const watched = watchKernel({
      kernel: this.#kernel,
      tables: this.#tables,
      dataplane: this.dataplane,
      log,
      ...watch,
    })
    this.#watched = watched
    watched.watchRoutes(this.dataplane.virtualAddresses.kind === 'routes')
    return watched
  }

  /** Another program may add such a chain at any time. */
  async #reportDropping(signal: AbortSignal, share?: AuditShare): Promise<void> {
    const { problems, log } = this.#options
    await reportDropping({ problems, log, signal, ...(share && { share }) }, this.#loggedChains)
  }

  async audit({ onDoubt }: ModeWatch, observer: AuditObserver, signal: AbortSignal): Promise<void> {
    const { log, now, configuration } = this.#options
    const audits = auditIpvsMode({
      kernel: this.#kernel,
      dataplane: this.dataplane,
      periodMs: configuration().ipvs.syncPeriodMs,
      onDoubt,
      observer,
      others: (share) => [
        { name: 'leftovers', round: (abort) => this.#leftovers.look(share, abort) },
        ...(this.firewall.name === 'nftables'
          ? [{ name: 'policies', round: (abort: AbortSignal) => this.#reportDropping(abort, share) }]
          : []),
      ],
      onError: (error, audit) => {
        log.warn('An audit failed', { audit, error })
        this.#checkLost([error])
      },
      now,
      signal,
    })
    await Promise.all([audits, this.#outlierWatch.run(signal)])
  }

  passed(report: PassReport): void {
    this.#reportDevice()
    this.#reportIpv6()
    this.#logUnknown()
    this.#checkLost([...report.failures, ...report.unreadable].map(({ error }) => error))
    if (this.#leftovers.begin()) this.#firewall.allowRemovals()
  }

  async close(): Promise<void> {
    const removed = this.#leftovers.close()
    await this.#firewall.close()
    await removed
    this.#kernel.close()
  }

  /**
   * An unloaded ip_vs has taken its virtual servers along; the connection has already asked the
   * kernel to load it again.
   */
  #checkLost(errors: readonly unknown[]): void {
    const isLost = errors.some((error) => error instanceof CodedError && error.code === 'genl-family-missing')
    if (isLost) this.#options.listener.ipvsLost()
  }

  /** A link of another kind with the device's name works, so it is used, and reported once. */
  #reportDevice(): void {
    const kind = this.dataplane.device.live(SERVICE_DEVICE)?.kind
    const message = `the link is of kind "${kind}" instead of "${DEVICE_KIND}"; it is used as it is and never deleted`
    const wrong = kind !== undefined && kind !== DEVICE_KIND
    const problems: readonly Problem[] = wrong
      ? [{ code: 'device-kind', about: 'node', subject: SERVICE_DEVICE, message }]
      : []
    this.#options.problems.report('device', SERVICE_DEVICE, problems)
  }

  /** IPv6 addresses or local routes that the kernel refuses because IPv6 is switched off on the device. */
  #reportIpv6(): void {
    const { addresses, routes } = this.dataplane.virtualAddresses
    const problems = [
      ...ipv6Problems(addresses, SERVICE_DEVICE, 'takes no addresses of IPv6 Services'),
      ...ipv6Problems(routes, 'lo', 'takes no local routes to addresses of IPv6 Services'),
    ]
    this.#options.problems.report('device-ipv6', SERVICE_DEVICE, problems)
  }

  /**
   * Other programs may create IPVS services of protocols that no Service has. These are left alone,
   * and logged once.
   */
  #logUnknown(): void {
    const { ipvs, auditIpvs } = this.#kernel
    const services = Math.max(ipvs.unknownServices, auditIpvs.unknownServices)
    if (services === 0 || this.#hasLoggedUnknown) return
    this.#hasLoggedUnknown = true
    this.#options.log.info('Ignoring IPVS services of protocols other than TCP, UDP and SCTP', { services })
  }
}

/**
 * The problem of a device on which IPv6 is switched off. The keys are looked through only when one
 * of them fails with that.
 */
function ipv6Problems(
  sync: Pick<TableSync<unknown, unknown>, 'failures' | 'failing'>,
  subject: string,
  effect: string,
): readonly Problem[] {
  if (![...sync.failures.codes].includes(IPV6_OFF)) return []
  for (const [, error] of sync.failing())
    if (error instanceof CodedError && error.code === IPV6_OFF)
      return [{ code: IPV6_OFF, about: 'node', subject, message: `${effect}: ${error.message}` }]
  return []
}
