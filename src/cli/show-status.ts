/**
 * Reads what `kube-ipvs status` shows, and prints it. It changes nothing. It asks the API server or reads manifests only for
 * names of Services, and only when flags name the source.
 */
import { splitHostPort } from '../config/go-text.ts'
import { type KernelState, readKernelState } from '../modes/leftovers/kernel-state.ts'
import { fallbackOf } from '../modes/fallback.ts'
import { findLack } from '../modes/ipvs/kernel.ts'
import { CodedError } from '../values/errors.ts'
import { silentLog } from '../values/log.ts'
import { VERSION } from '../values/well-known.ts'
import type { FlagValues } from './flags.ts'
import { loadSettings, type Settings } from './settings.ts'
import { type IpvsStatus, type Status, statusText } from './status.ts'
import { filterStatus, statusFilter } from './status-filter.ts'
import { stderrLog, styleFor } from './terminal.ts'

const DEADLINE_MS = 30_000
/** How long listing Services may take; names are not worth a longer wait. */
const LIST_MS = 10_000

/** @param words the Services to show; empty: everything */
export async function showStatus(flags: FlagValues, words: readonly string[]): Promise<number> {
  const filter = statusFilter(words)
  const all = await readStatus(flags, await loadSettings(flags), AbortSignal.timeout(DEADLINE_MS))
  if (words.length > 0 && (all.ipvs?.virtualServers.length ?? 0) > 0 && all.ipvs?.namesFrom === undefined)
    stderrLog.warn(
      'kube-ipvs status: virtual servers have no names in the kernel, so those of a Service cannot be told',
    )
  const status = filterStatus(all, filter)
  if (flags.output === 'json') process.stdout.write(`${JSON.stringify(status)}\n`)
  else process.stdout.write(`${statusText(status, styleFor(process.stdout, process.env)).join('\n')}\n`)
  return 0
}

async function readStatus(flags: FlagValues, settings: Settings, signal: AbortSignal): Promise<Status> {
  const { metricsBindAddress, mode, ipvs } = settings.configuration
  const running = await runningMode(metricsBindAddress)
  const state = await readKernelState(signal)
  const reason =
    running === undefined
      ? await lackOf(mode, signal)
      : running === 'iptables'
        ? await fallbackReason(metricsBindAddress)
        : ''
  return {
    mode: running ?? modeOf(state),
    fallback: fallbackOf(reason, ipvs.scheduler) ?? null,
    proxy: { address: metricsBindAddress, answers: running !== undefined },
    version: VERSION,
    ...state,
    ipvs: state.ipvs === null ? null : await withNames(state.ipvs, flags, settings, signal),
  }
}

/** What the configured mode lacks on this kernel; '' when that is nothing or unknown. */
async function lackOf(mode: string, signal: AbortSignal): Promise<string> {
  if (mode !== 'ipvs') return ''
  try {
    return (await findLack(signal)) ?? ''
  } catch (error) {
    // The state of iptables has its own row.
    if (error instanceof CodedError) return ''
    throw error
  }
}

/** The mode whose items the kernel has. It has items of both only while one mode replaces the other. */
function modeOf({ device, rules }: KernelState): 'ipvs' | 'iptables' | null {
  if ((device === null) === (rules === null)) return null
  return device === null ? 'iptables' : 'ipvs'
}

/** Adds names of Services where flags name a source; one that cannot be read is reported and is no failure. */
async function withNames(
  ipvs: IpvsStatus,
  flags: FlagValues,
  settings: Settings,
  signal: AbortSignal,
): Promise<IpvsStatus> {
  const { kubeconfig } = settings.configuration.clientConnection
  const { manifests, config, master } = flags
  const isGiven = manifests !== undefined || [config, master, kubeconfig].some((one) => (one ?? '') !== '')
  if (!isGiven || ipvs.virtualServers.length === 0) return ipvs
  const source = manifests === undefined ? 'the API server' : `the manifests in ${manifests}`
  try {
    const { frontendNames } = await import('../daemon/commands.ts')
    const byKey: ReadonlyMap<string, string> = await frontendNames({
      ...settings,
      deadlineMs: LIST_MS,
      log: silentLog,
      signal,
    })
    const virtualServers = ipvs.virtualServers.map((virtual) => ({
      ...virtual,
      service: byKey.get(virtual.key) ?? null,
    }))
    return { ...ipvs, namesFrom: source, virtualServers }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    stderrLog.warn(`kube-ipvs status: no names of Services: ${source} cannot be read: ${error.message}`)
    return ipvs
  }
}

/** A proxy on this machine answers within this time or not at all. */
const ANSWER_MS = 1000
const MODE = /^[a-z]{1,20}$/
const OURS = /^kubeipvs_/m
const FALLBACK = /^kubeipvs_mode\{[^}]*reason="([a-z-]{1,40})"/m

/**
 * The mode of the proxy that runs on this node: kube-proxy and this program answer /proxyMode at their metrics address.
 * `ipvs`, `iptables`, `nftables` …; undefined when no proxy answers at this `IP:port`.
 */
export async function runningMode(metricsBindAddress: string): Promise<string | undefined> {
  const text = await ask(metricsBindAddress, '/proxyMode')
  return MODE.test(text) ? text : undefined
}

/** The mode of that proxy, null when none answers; and whether it has metrics that only kube-ipvs has. */
export async function runningProxy(
  metricsBindAddress: string,
): Promise<{ readonly mode: string | null; readonly isOurs: boolean }> {
  const mode = (await runningMode(metricsBindAddress)) ?? null
  return { mode, isOurs: mode !== null && OURS.test(await ask(metricsBindAddress, '/metrics')) }
}

/** Why the proxy that runs on this node fell back to iptables mode; '' when it did not, or tells no reason. */
export async function fallbackReason(metricsBindAddress: string): Promise<string> {
  return FALLBACK.exec(await ask(metricsBindAddress, '/metrics'))?.[1] ?? ''
}

/** What the proxy on this node answers; '' without an answer. */
async function ask(metricsBindAddress: string, path: string): Promise<string> {
  try {
    const answer = await fetch(`http://${reachable(metricsBindAddress)}${path}`, {
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    return answer.ok ? await answer.text() : ''
  } catch {
    return ''
  }
}

/** Where a program that listens at an address can be reached: at loopback when it listens at every address. */
function reachable(metricsBindAddress: string): string {
  const split = splitHostPort(metricsBindAddress)
  if ('error' in split) return metricsBindAddress
  const { host, port } = split
  if (host === '0.0.0.0') return `127.0.0.1:${port}`
  if (host === '::') return `[::1]:${port}`
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
