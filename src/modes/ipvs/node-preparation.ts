/**
 * What ipvs mode does to the node before it reads anything: it writes settings of the kernel, makes
 * sure that the scheduler exists and asks the kernel what it lacks. Only a missing scheduler ends
 * the process.
 */
import { openRtnetlink } from '../../../native/open.ts'
import type { KubeProxyConfiguration, ProxyMode } from '../../config/types.ts'
import { DeviceTable } from '../../ipvs/device.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { kernelRelease } from '../../node/host.ts'
import { schedulerOf, tryScheduler } from '../../ipvs/scheduler.ts'
import { haveNewDevicesNoIpv6, switchOnIpv6 } from '../../node/device-ipv6.ts'
import { kernelFamilies } from '../../node/families.ts'
import { checkStart, type Finding, type StartCheck } from '../../node/start-check.ts'
import { deadlineSignal } from '../../node/deadline.ts'
import { IPVS_CONNTRACK, ipvsSysctls } from '../../node/kernel-settings.ts'
import { refusalOf } from '../../node/sysctl.ts'
import { CodedError, unlessMissing } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { chooseBackEnd } from '../iptables-back-end.ts'
import { lackText } from '../fallback.ts'
import { setConntrack, settingLogger, setSysctls, type SettingsOptions } from '../node-settings.ts'
import type { FirewallName } from '../chosen-firewall.ts'
import type { Firewall, FirewallCheck } from './firewall.ts'
import { findFirewall, findLack } from './kernel.ts'
import { KernelQuestions } from './kernel-questions.ts'

export interface NodeInitialization extends SettingsOptions {
  readonly ipvs: IpvsConnection
  readonly signal: AbortSignal
}

export interface NodePreparation extends NodeInitialization {
  readonly firewall: Pick<Firewall, 'begin' | 'lacks'>
  /** Which firewall that is. */
  readonly firewallName: FirewallName
  /** Families that are served. */
  readonly families: readonly IpFamily[]
}

const REUSE_MODE = 'conn_reuse_mode'
/** Of one message to the kernel. */
const TIMEOUTS_MS = 10_000

/** Rejects with `module-missing` when the kernel lacks the scheduler, or when aborted. */
export async function prepareNode(options: NodePreparation): Promise<void> {
  const check = options.firewall.begin()
  await initializeNode(options)
  await checkForMissing(options, check)
}

/** Only the settings of the kernel: what --init-only is for. Rejects as `prepareNode` does. */
export async function initializeNode(options: NodeInitialization): Promise<void> {
  setConntrack(options)
  await checkScheduler(options)
  await writeSettings(options)
}

/**
 * Writes settings and timeouts again, because ip_vs was unloaded and loaded again. The settings are
 * there when it returns. False: IPVS masquerades nothing now, and this process cannot change that.
 */
export function restoreSettings(options: Omit<NodeInitialization, 'signal'>): boolean {
  void writeSettings({ ...options, signal: deadlineSignal(TIMEOUTS_MS, 'setting the IPVS timeouts') })
  return refusalOf(IPVS_CONNTRACK) === undefined
}

/** Writes the settings before it first waits, and never rejects. */
async function writeSettings(options: NodeInitialization): Promise<void> {
  const { configuration, log } = options
  const settings = ipvsSysctls(configuration.ipvs.strictARP, kernelRelease())
  setSysctls(settings, options)
  if (!settings.some(({ path }) => path.endsWith(REUSE_MODE)))
    log.verbose(2, 'Left as-is', { sysctl: `net/ipv4/vs/${REUSE_MODE}` })
  await setTimeouts(options)
}

/**
 * Where new devices have IPv6 switched off, makes kube-ipvs0 and switches IPv6 on there: the
 * setting exists only with the device, and the proxy that starts afterwards may not be able to
 * write it. Elsewhere it makes nothing. It never rejects.
 */
export async function initializeDevice(log: Log, signal: AbortSignal): Promise<void> {
  if (!kernelFamilies().families.includes('IPv6')) return
  try {
    if (haveNewDevicesNoIpv6()) await makeDevice(signal)
    const outcome = switchOnIpv6(SERVICE_DEVICE, settingLogger(log))
    if (outcome instanceof Error) throw outcome
  } catch (error) {
    log.warn('Cannot switch IPv6 on for the device', { interface: SERVICE_DEVICE, error })
  }
}

async function makeDevice(signal: AbortSignal): Promise<void> {
  const rtnetlink = openRtnetlink()
  try {
    const table = new DeviceTable(rtnetlink)
    if ((await table.list('all', signal)).size > 0) return
    const [error] = await table.apply([{ kind: 'create-device' }], signal)
    if (error !== undefined) throw error
  } finally {
    rtnetlink.close()
  }
}

/**
 * Sets the timeouts of --ipvs-tcp-timeout, --ipvs-tcpfin-timeout and --ipvs-udp-timeout; 0 keeps
 * the kernel's value.
 */
async function setTimeouts({ configuration, ipvs, log, signal }: NodeInitialization): Promise<void> {
  const { tcpTimeoutMs, tcpFinTimeoutMs, udpTimeoutMs } = configuration.ipvs
  if (tcpTimeoutMs + tcpFinTimeoutMs + udpTimeoutMs === 0) return
  const seconds = (milliseconds: number): number => Math.floor(milliseconds / 1000)
  const timeouts = {
    tcpSeconds: seconds(tcpTimeoutMs),
    tcpFinSeconds: seconds(tcpFinTimeoutMs),
    udpSeconds: seconds(udpTimeoutMs),
  }
  try {
    await ipvs.setTimeouts(timeouts, { signal })
  } catch (error) {
    log.error('Cannot set the IPVS timeouts', { error })
  }
}

/**
 * Makes sure that the kernel has the scheduler. Rejects with `module-missing`, which names the
 * module. A kernel that does not answer may have it.
 */
async function checkScheduler({ ipvs, configuration, log, signal }: NodeInitialization): Promise<void> {
  const scheduler = schedulerOf(configuration.ipvs.scheduler)
  let missing: Error | undefined
  try {
    const services = await ipvs.listServices({ signal })
    if (services.some((service) => service.fields.scheduler === scheduler)) return
    missing = (await tryScheduler(ipvs, scheduler, { signal }))?.missing
  } catch (error) {
    signal.throwIfAborted()
    return log.warn('Cannot ask the kernel for a scheduler', { scheduler, error })
  }
  if (missing === undefined) return
  const message = `the kernel has no scheduler "${scheduler}": load the module "ip_vs_${scheduler}" (modprobe ip_vs_${scheduler}) or set ipvs.scheduler to one it has`
  throw new CodedError('module-missing', message, { cause: missing })
}

/** Logs what the kernel lacks, and what the firewall has to do without from the start. */
async function checkForMissing(options: NodePreparation, check: FirewallCheck): Promise<void> {
  const { configuration, families, firewall, firewallName, log, signal } = options
  try {
    const { findings, missingMatches } = await checkNode({
      configuration,
      families,
      firewall: firewallName,
      ...check,
      signal,
    })
    logFindings(findings, log)
    firewall.lacks(missingMatches)
  } catch (error) {
    signal.throwIfAborted()
    log.warn('Cannot query the kernel for missing features', { error })
  }
}

export interface NodeCheckOptions extends FirewallCheck {
  readonly configuration: KubeProxyConfiguration
  /** The mode that is to run, whose settings and modules are meant; default ipvs. */
  readonly mode?: ProxyMode
  /** The firewall of ipvs mode; default iptables. */
  readonly firewall?: FirewallName
  /** Families that are served; without any, those that the kernel allows. */
  readonly families?: readonly IpFamily[]
  readonly signal: AbortSignal
}

/**
 * Asks kernel and node for everything that the mode needs, for which the kernel loads its modules.
 * Rejects with `native-unavailable` or when aborted.
 */
export async function checkNode(options: NodeCheckOptions): Promise<StartCheck> {
  const { configuration, mode = 'ipvs', firewall = 'iptables', signal } = options
  const families = options.families ?? kernelFamilies().families
  const usesIptables = mode === 'iptables' || firewall === 'iptables'
  const iptables = usesIptables
    ? (options.iptables ?? (await unlessMissing('iptables-missing', () => chooseBackEnd(families, signal))))
    : undefined
  const tried = iptables?.mode === 'nft' ? families.filter((family) => iptables.unusable[family] === undefined) : []
  const questions = new KernelQuestions(iptables?.mode, tried, signal)
  try {
    const scheduler = schedulerOf(configuration.ipvs.scheduler)
    const sysctls = mode === 'ipvs' ? ipvsSysctls(configuration.ipvs.strictARP, kernelRelease()) : []
    const node = { mode, firewall, families, scheduler, iptables: iptables?.mode }
    return await checkStart(node, sysctls, (question) => questions.ask(question))
  } finally {
    questions.close()
  }
}

/**
 * What keeps ipvs mode from working on this node, for people; empty: nothing. Loads modules when it
 * may, and makes nothing. Rejects when the kernel cannot be asked.
 */
export async function lacksOfIpvsMode(
  configuration: KubeProxyConfiguration,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = await findLack(configuration.kubeIPVS, signal)
  if (found.lack !== undefined) return [lackText(found.lack)]
  const firewall = found.chosen.name
  const check =
    firewall === 'iptables'
      ? { iptables: await chooseBackEnd(kernelFamilies().families, signal, { mayLoadModules: false }) }
      : {}
  const { findings } = await checkNode({ configuration, firewall, ...check, signal })
  return findings.flatMap(({ severity, what, module }) => {
    if (severity === 'warning') return []
    return module === '' ? what : `${what} (module ${module})`
  })
}

/**
 * The firewall that a start would choose, to say what it lacks; the configured one, or that of
 * iptables, where none works or this process may not ask.
 */
export async function likelyFirewall(
  { kubeIPVS }: Pick<KubeProxyConfiguration, 'kubeIPVS'>,
  signal: AbortSignal,
): Promise<FirewallName> {
  try {
    return (await findFirewall(kubeIPVS, signal, { mayLoadModules: false })).name
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof CodedError)) throw error
    return usualFirewall({ kubeIPVS })
  }
}

/** The firewall where the kernel cannot be asked. */
export function usualFirewall({ kubeIPVS: { firewall } }: Pick<KubeProxyConfiguration, 'kubeIPVS'>): FirewallName {
  return firewall === 'nftables' ? 'nftables' : 'iptables'
}

/** Logs a line for each finding. */
export function logFindings(findings: readonly Finding[], log: Log): void {
  for (const { severity, what, module, effect } of findings) {
    const fields = { what, ...(module === '' ? {} : { module }), effect }
    if (severity === 'warning') log.warn('Missing kernel feature or program', fields)
    else log.error('Missing kernel feature or program', fields)
  }
}
