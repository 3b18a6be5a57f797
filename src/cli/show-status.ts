/**
 * Reads what `kube-ipvs status` shows, and prints it. Nothing here changes the kernel. Only names of Services are asked of
 * anybody else, and only when flags say of whom.
 */
import { readFile } from 'node:fs/promises'
import { openRtnetlink } from '../../native/open.ts'
import { chooseBackEnd } from '../modes/iptables-back-end.ts'
import { openIpset, openIpvs } from '../modes/ipvs/kernel.ts'
import { definitionOf, MAX_ELEMENTS } from '../ipset/catalogue.ts'
import { isOfIptablesMode, type SavedFrontend, savedFrontends } from '../modes/iptables/saved-frontends.ts'
import { parseSave } from '../iptables/save-text.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { ipFamilies, kernelRelease } from '../node/host.ts'
import { HostIptables } from '../node/iptables-programs.ts'
import { CodedError } from '../values/errors.ts'
import { silentLog } from '../values/log.ts'
import type { FlagValues } from './flags.ts'
import { runningMode } from './running-mode.ts'
import { loadSettings, type Settings } from './settings.ts'
import {
  type IpvsStatus,
  type SetsStatus,
  type Status,
  statusText,
  type VirtualServerStatus,
  virtualServerStatus,
} from './status.ts'
import { stderrLog, styleFor } from './terminal.ts'
import { SERVICE_DEVICE, VERSION } from '../values/well-known.ts'

const DEADLINE_MS = 30_000
/** As long as Services may take to list; names are not worth a longer wait. */
const LIST_MS = 10_000

export async function showStatus(flags: FlagValues): Promise<number> {
  const signal = AbortSignal.timeout(DEADLINE_MS)
  const settings = await loadSettings(flags)
  const rtnetlink = openRtnetlink()
  try {
    const status = await readStatus(flags, settings, rtnetlink, signal)
    if (flags.output === 'json') process.stdout.write(`${JSON.stringify(status)}\n`)
    else process.stdout.write(`${statusText(status, styleFor(process.stdout, process.env)).join('\n')}\n`)
    return 0
  } finally {
    rtnetlink.close()
  }
}

async function readStatus(
  flags: FlagValues,
  settings: Settings,
  rtnetlink: RtnetlinkConnection,
  signal: AbortSignal,
): Promise<Status> {
  const { metricsBindAddress } = settings.configuration
  const running = await runningMode(metricsBindAddress)
  const link = await rtnetlink.getLink(SERVICE_DEVICE, { signal })
  const addresses = link === undefined ? [] : await rtnetlink.listAddresses({ interfaceIndex: link.index, signal })
  const ipvs = await readIpvs(signal)
  const names =
    ipvs === null || ipvs.virtualServers.length === 0 ? undefined : await readNames(flags, settings, rtnetlink, signal)
  const { iptables, frontends } = await readIptables(signal)
  return {
    mode: running ?? modeOf(link !== undefined, frontends !== null),
    proxy: { address: metricsBindAddress, answers: running !== undefined },
    version: VERSION,
    kernel: kernelRelease(),
    device:
      link === undefined
        ? null
        : { kind: link.kind, addresses: addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`) },
    ipv6Forwarding: await readFlag('/proc/sys/net/ipv6/conf/all/forwarding'),
    iptables,
    sets: await readSets(signal),
    ipvs: ipvs === null || names === undefined ? ipvs : { ...ipvs, ...named(ipvs.virtualServers, names) },
    rules: frontends,
  }
}

/** By what the kernel has: of both only while one mode takes over from the other. */
function modeOf(hasDevice: boolean, hasRules: boolean): 'ipvs' | 'iptables' | null {
  if (hasDevice === hasRules) return null
  return hasDevice ? 'ipvs' : 'iptables'
}

async function readIpvs(signal: AbortSignal): Promise<IpvsStatus | null> {
  let ipvs: Awaited<ReturnType<typeof openIpvs>>
  try {
    ipvs = await openIpvs(signal)
  } catch (error) {
    if (error instanceof CodedError && error.code === 'ipvs-missing') return null
    throw error
  }
  try {
    const services = await ipvs.listServices({ signal })
    const virtualServers: VirtualServerStatus[] = []
    for (const service of services)
      if (service.kind === 'address')
        virtualServers.push(
          virtualServerStatus(service.fields, await ipvs.listDestinations(service.fields, { signal })),
        )
    const [info, timeouts] = [await ipvs.info({ signal }), await ipvs.getTimeouts({ signal })]
    return {
      version: info.version,
      timeoutsSeconds: { tcp: timeouts.tcpSeconds, tcpFin: timeouts.tcpFinSeconds, udp: timeouts.udpSeconds },
      virtualServers: virtualServers.sort((a, b) => (a.key < b.key ? -1 : 1)),
      fwmarkVirtualServers: services.filter((service) => service.kind === 'fwmark').length,
      unknownVirtualServers: ipvs.unknownServices,
    }
  } finally {
    ipvs.close()
  }
}

interface Names {
  readonly source: string
  readonly byKey: ReadonlyMap<string, string>
}

/** Names of Services, where flags say whom to ask; a source that does not answer is said, and is no failure. */
async function readNames(
  flags: FlagValues,
  settings: Settings,
  rtnetlink: RtnetlinkConnection,
  signal: AbortSignal,
): Promise<Names | undefined> {
  const { kubeconfig } = settings.configuration.clientConnection
  const { manifests, config, master } = flags
  const isGiven = manifests !== undefined || [config, master, kubeconfig].some((one) => (one ?? '') !== '')
  if (!isGiven) return undefined
  const source = manifests === undefined ? 'the API server' : `the manifests in ${manifests}`
  try {
    const { frontendNames } = await import('../daemon/commands.ts')
    const byKey = await frontendNames({ ...settings, rtnetlink, deadlineMs: LIST_MS, log: silentLog, signal })
    return { source, byKey }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    stderrLog.warn(`kube-ipvs status: no names of Services: ${source} cannot be read: ${error.message}`)
    return undefined
  }
}

function named(virtualServers: readonly VirtualServerStatus[], { source, byKey }: Names) {
  return {
    namesFrom: source,
    virtualServers: virtualServers.map((virtual) => ({ ...virtual, service: byKey.get(virtual.key) ?? null })),
  }
}

interface IptablesRead {
  readonly iptables: Status['iptables']
  /** What rules of iptables mode serve; null where there are none. */
  readonly frontends: readonly SavedFrontend[] | null
}

async function readIptables(signal: AbortSignal): Promise<IptablesRead> {
  try {
    const choice = await chooseBackEnd(ipFamilies(), signal, { mayLoadModules: false })
    const iptables = new HostIptables(choice)
    let frontends: readonly SavedFrontend[] | null = null
    for (const family of ipFamilies()) {
      if (choice.unusable[family] !== undefined) continue
      const saved = parseSave(await iptables.save(family, signal))
      if (isOfIptablesMode(saved)) frontends = [...(frontends ?? []), ...savedFrontends(saved, family)]
    }
    return { iptables: { backEnd: choice.mode, reason: choice.reason }, frontends }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { iptables: { backEnd: null, reason: error.message }, frontends: null }
  }
}

async function readSets(signal: AbortSignal): Promise<SetsStatus | null> {
  try {
    const ipset = await openIpset(signal)
    const sets = (await ipset.listSets({ signal })).filter(({ name }) => definitionOf(name) !== undefined)
    ipset.close()
    const grown = sets.filter(({ maxElements }) => maxElements > MAX_ELEMENTS)
    return {
      count: sets.length,
      entries: sets.reduce((sum, { elements }) => sum + elements, 0),
      grown: grown.map(({ name, maxElements }) => ({ name, maxElements })),
    }
  } catch (error) {
    if (error instanceof CodedError && error.code === 'ipset-missing') return null
    throw error
  }
}

async function readFlag(file: string): Promise<boolean | null> {
  try {
    return (await readFile(file, 'utf8')).trim() !== '0'
  } catch {
    // The kernel has no IPv6.
    return null
  }
}
