/**
 * Reads the status of this node: the kernel, and from the daemon what only that knows. Where none
 * answers, the API server or manifests are asked for names of Services, when flags name them. It
 * changes nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import { type Names, servicePortAt } from '../inspect/names.ts'
import type { DaemonView } from '../inspect/view.ts'
import { type IpvsState, readKernelState } from '../modes/look/kernel-state.ts'
import { fallbackOf } from '../modes/fallback.ts'
import { type FirewallSettings, findLack } from '../modes/ipvs/kernel.ts'
import { onlyMode } from '../modes/modes-in-kernel.ts'
import { CodedError } from '../values/errors.ts'
import { silentLog } from '../values/log.ts'
import { VERSION } from '../values/well-known.ts'
import type { FlagValues } from '../start/flags.ts'
import { type Knows, whoKnows } from './knowledge.ts'
import { fallbackReason, runningMode } from './running-proxy.ts'
import { namedSource, type Settings } from '../start/settings.ts'
import type { IpvsStatus, RealServerStatus, Status } from './node-status.ts'
import { verdictOf } from './status-verdict.ts'
import { lookTwice } from './two-looks.ts'

/** How long listing Services may take; names are not worth a longer wait. */
const LIST_MS = 10_000
/** Until what seems to be wrong is looked for again. */
const SECOND_LOOK_MS = 500

/** @param warn what cannot be known; the status is made without it */
export async function readStatus(
  flags: FlagValues,
  settings: Settings,
  client: DaemonClient,
  signal: AbortSignal,
  warn: (text: string) => void,
): Promise<Status> {
  const { metricsBindAddress, mode, ipvs, kubeIPVS } = settings.configuration
  const known = await whoKnows(client, namedSource(flags, settings), () => namesOf(settings, signal))
  const daemon = known.from === 'daemon' ? known.daemon : null
  const daemonUnknown = known.from === 'daemon' ? null : known.silence
  if (daemonUnknown !== null && daemonUnknown.unknown !== 'off' && daemonUnknown.unknown !== 'no-daemon')
    warn(`names, health and problems are unknown: ${daemonUnknown.reason}`)
  if (known.from === 'kernel' && known.failure !== undefined) warn(`no names of Services: ${known.failure}`)
  const running = await runningMode(metricsBindAddress, { warn })
  const { state, rows, names } = await lookTwice({
    readKernel: () => readKernelState(signal),
    client,
    daemon,
    pause: () => sleep(SECOND_LOOK_MS, undefined, { signal }),
  })
  const status = {
    mode: daemon?.mode ?? running ?? onlyMode(state.modes),
    fallback:
      (daemon === null
        ? fallbackOf(await lackingOf(running, metricsBindAddress, mode, kubeIPVS, signal), ipvs.scheduler)
        : fallbackIn(daemon, ipvs.scheduler)) ?? null,
    proxy: { address: metricsBindAddress, answers: running !== undefined },
    version: VERSION,
    ...state,
    ipvs: state.ipvs && (await withNames(state.ipvs, known, names, client)),
    socket: client.socket,
    daemon,
    daemonUnknown,
    rows,
  }
  return { ...status, verdict: verdictOf(status) }
}

/** The code of what the configured mode lacks; '' when that is nothing or unknown. */
async function lackingOf(
  running: string | undefined,
  metricsBindAddress: string,
  mode: string,
  firewall: FirewallSettings,
  signal: AbortSignal,
): Promise<string> {
  if (running === undefined) return lackOf(mode, firewall, signal)
  return running === 'iptables' ? fallbackReason(metricsBindAddress) : ''
}

function fallbackIn({ fallback }: DaemonView, scheduler: string): ReturnType<typeof fallbackOf> {
  return fallback === null ? undefined : fallbackOf(fallback.reason, scheduler)
}

/** What the configured mode lacks on this kernel; '' when that is nothing or unknown. */
async function lackOf(mode: string, firewall: FirewallSettings, signal: AbortSignal): Promise<string> {
  if (mode !== 'ipvs') return ''
  try {
    return (await findLack(firewall, signal)).lack ?? ''
  } catch (error) {
    // The state of iptables has its own row.
    if (error instanceof CodedError) return ''
    throw error
  }
}

/** The Service port of each virtual server, by its key. */
type ServicePorts = ReadonlyMap<string, string>

async function namesOf(settings: Settings, signal: AbortSignal): Promise<ServicePorts> {
  const { frontendNames } = await import('../daemon/frontend-names.ts')
  return frontendNames({ ...settings, deadlineMs: LIST_MS, log: silentLog, signal })
}

/** Adds names of Services, and what the daemon says of drains. */
async function withNames(
  ipvs: IpvsState,
  known: Knows<ServicePorts>,
  names: Names | undefined,
  client: DaemonClient,
): Promise<IpvsStatus> {
  if (known.from === 'kernel') return ipvs
  if (known.from === 'source') {
    const named = ipvs.virtualServers.map((one) => ({ ...one, service: known.opened.get(one.key) ?? null }))
    return { ...ipvs, namesFrom: known.source, virtualServers: named }
  }
  if (names === undefined) return ipvs
  const drains = await client.drains()
  const byServer = new Map<string, NonNullable<RealServerStatus['drain']>>()
  for (const { virtualServer, realServer, seconds, deadlineSeconds } of isUnknown(drains) ? [] : drains.drains)
    byServer.set(`${virtualServer} ${realServer}`, { seconds, deadlineSeconds })
  const outliers = await outliersOf(client)
  const virtualServers = ipvs.virtualServers.map((virtual) => ({
    ...virtual,
    service: servicePortAt(names, virtual.key),
    realServers: virtual.realServers.map((server): RealServerStatus => {
      const outlier = outliers.get(`${virtual.key} ${server.key}`)
      if (outlier !== undefined) return { ...server, draining: false, outlier }
      const drain = server.draining ? byServer.get(`${virtual.key} ${server.key}`) : undefined
      return drain === undefined ? server : { ...server, drain }
    }),
  }))
  return { ...ipvs, namesFrom: 'the daemon', virtualServers }
}

/** Real servers that do not answer, by virtual server and real server; none where the daemon does not say. */
export async function outliersOf(
  client: Pick<DaemonClient, 'outliers'>,
): Promise<ReadonlyMap<string, NonNullable<RealServerStatus['outlier']>>> {
  const answer = await client.outliers()
  return new Map(
    (isUnknown(answer) ? [] : answer.outliers).map(
      ({ virtualServer, realServer, state, seconds, nextTrialSeconds }) => [
        `${virtualServer} ${realServer}`,
        { state, seconds, nextTrialSeconds },
      ],
    ),
  )
}
