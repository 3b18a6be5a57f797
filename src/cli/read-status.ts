/**
 * Reads the status of this node: the kernel, and from the daemon what only that knows. Where none
 * answers, the API server or manifests are asked for names of Services, when flags name them. It
 * changes nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import { type Names, servicePortAt } from '../inspect/names.ts'
import type { DaemonView } from '../inspect/view.ts'
import { type KernelState, readKernelState } from '../modes/look/kernel-state.ts'
import { keyOfSaved } from '../modes/iptables/saved-frontends.ts'
import { fallbackOf } from '../modes/fallback.ts'
import { findLack } from '../modes/ipvs/kernel.ts'
import { onlyMode } from '../modes/modes-in-kernel.ts'
import { CodedError } from '../values/errors.ts'
import { silentLog } from '../values/log.ts'
import { VERSION } from '../values/well-known.ts'
import type { FlagValues } from '../start/flags.ts'
import { fallbackReason, runningMode } from './running-proxy.ts'
import { namedSource, type Settings } from '../start/settings.ts'
import type { IpvsStatus, RealServerStatus, Status } from './status.ts'
import { verdictOf } from './status-verdict.ts'

/** How long listing Services may take; names are not worth a longer wait. */
const LIST_MS = 10_000
/** The kernel and the daemon are read one after the other, so what seems to be missing is looked for again. */
const SECOND_LOOK_MS = 500
/** Missing addresses that are named. */
const NAMED_MISSING = 100

/** @param warn what cannot be known; the status is made without it */
export async function readStatus(
  flags: FlagValues,
  settings: Settings,
  client: DaemonClient,
  signal: AbortSignal,
  warn: (text: string) => void,
): Promise<Status> {
  const { metricsBindAddress, mode, ipvs } = settings.configuration
  const answer = await client.daemon()
  const daemon = isUnknown(answer) ? null : answer
  const daemonUnknown = isUnknown(answer) ? answer : null
  if (daemonUnknown !== null && daemonUnknown.unknown !== 'off' && daemonUnknown.unknown !== 'no-daemon')
    warn(`names, health and problems are unknown: ${daemonUnknown.reason}`)
  const running = await runningMode(metricsBindAddress, { warn })
  const { state, named, missing } = await readKernel(client, daemon, signal)
  const status = {
    mode: daemon?.mode ?? running ?? onlyMode(state.modes),
    fallback:
      (daemon === null
        ? fallbackOf(await lackingOf(running, metricsBindAddress, mode, signal), ipvs.scheduler)
        : fallbackIn(daemon, ipvs.scheduler)) ?? null,
    proxy: { address: metricsBindAddress, answers: running !== undefined },
    version: VERSION,
    ...state,
    ipvs: named ?? (state.ipvs === null ? null : await withNames(state.ipvs, flags, settings, signal, warn)),
    socket: client.socket,
    daemon,
    daemonUnknown,
    missing,
  }
  return { ...status, verdict: verdictOf(status) }
}

/** The code of what the configured mode lacks; '' when that is nothing or unknown. */
async function lackingOf(
  running: string | undefined,
  metricsBindAddress: string,
  mode: string,
  signal: AbortSignal,
): Promise<string> {
  if (running === undefined) return lackOf(mode, signal)
  return running === 'iptables' ? fallbackReason(metricsBindAddress) : ''
}

function fallbackIn({ fallback }: DaemonView, scheduler: string): ReturnType<typeof fallbackOf> {
  return fallback === null ? undefined : fallbackOf(fallback.reason, scheduler)
}

interface ReadKernel {
  readonly state: KernelState
  /** With the names and drains that the daemon tells; undefined when it tells none. */
  readonly named: IpvsStatus | undefined
  readonly missing: Status['missing']
}

/** The kernel, and what the daemon says of its items. */
async function readKernel(client: DaemonClient, daemon: DaemonView | null, signal: AbortSignal): Promise<ReadKernel> {
  const state = await readKernelState(signal)
  const look = daemon === null ? undefined : await compare(state, client, daemon)
  if (look === undefined) return { state, named: undefined, missing: null }
  if (look.missing?.count === 0) return { state, ...look }
  await sleep(SECOND_LOOK_MS, undefined, { signal })
  const again = await readKernelState(signal)
  const second = await compare(again, client, daemon)
  return second === undefined ? { state, named: undefined, missing: null } : { state: again, ...second }
}

/** undefined when the daemon stopped to answer. */
async function compare(
  state: KernelState,
  client: DaemonClient,
  daemon: DaemonView | null,
): Promise<Omit<ReadKernel, 'state'> | undefined> {
  const names = await client.names()
  if (isUnknown(names)) return undefined
  const drains = await client.drains()
  const byServer = new Map<string, NonNullable<RealServerStatus['drain']>>()
  for (const { virtualServer, realServer, seconds, deadlineSeconds } of isUnknown(drains) ? [] : drains.drains)
    byServer.set(`${virtualServer} ${realServer}`, { seconds, deadlineSeconds })
  const { ipvs } = state
  const virtualServers = ipvs?.virtualServers.map((virtual) => ({
    ...virtual,
    service: servicePortAt(names, virtual.key),
    realServers: virtual.realServers.map((server): RealServerStatus => {
      const drain = server.draining ? byServer.get(`${virtual.key} ${server.key}`) : undefined
      return drain === undefined ? server : { ...server, drain }
    }),
  }))
  return {
    named:
      ipvs === null || virtualServers === undefined ? undefined : { ...ipvs, namesFrom: 'the daemon', virtualServers },
    missing: missingOf(state, names, daemon),
  }
}

/** Frontends of the daemon that the kernel does not have; null where nothing says which it should have. */
function missingOf({ ipvs, rules }: KernelState, names: Names, daemon: DaemonView | null): Status['missing'] {
  const there = daemon?.mode === 'ipvs' ? ipvs?.virtualServers.map(({ key }) => key) : rules?.map(keyOfSaved)
  if (daemon === null || there === undefined) return null
  const live = new Set(there)
  const keys: string[] = []
  let count = 0
  for (const key of names.keys()) {
    const family = key.startsWith('[') ? 'IPv6' : 'IPv4'
    if (!daemon.families.includes(family) || live.has(key)) continue
    count++
    if (keys.length < NAMED_MISSING) keys.push(key)
  }
  return { count, keys }
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

/** Adds names of Services where flags name a source; one that cannot be read is reported and is no failure. */
async function withNames(
  ipvs: NonNullable<KernelState['ipvs']>,
  flags: FlagValues,
  settings: Settings,
  signal: AbortSignal,
  warn: (text: string) => void,
): Promise<IpvsStatus> {
  const source = namedSource(flags, settings)
  if (source === undefined || ipvs.virtualServers.length === 0) return ipvs
  try {
    const { frontendNames } = await import('../daemon/frontend-names.ts')
    const names = await frontendNames({ ...settings, deadlineMs: LIST_MS, log: silentLog, signal })
    const virtualServers = ipvs.virtualServers.map((virtual) => ({
      ...virtual,
      service: names.get(virtual.key) ?? null,
    }))
    return { ...ipvs, namesFrom: source, virtualServers }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    warn(`no names of Services: ${source} cannot be read: ${error.message}`)
    return ipvs
  }
}
