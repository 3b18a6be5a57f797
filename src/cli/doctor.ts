/**
 * `kube-ipvs doctor`: collects the facts of this node, or reads a bundle, and prints what is wrong.
 * It changes nothing.
 */
import { collectFacts } from '../doctor/collect.ts'
import { diagnose, exitCodeOf } from '../doctor/diagnose.ts'
import type { NodeFacts } from '../doctor/facts.ts'
import { readBundle, writeBundle } from '../doctor/bundle.ts'
import { type Answered, askDaemon, isUnknown } from '../inspect/daemon-client.ts'
import type { DaemonView } from '../inspect/view.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { CodedError } from '../values/errors.ts'
import { silentLog } from '../values/log.ts'
import { diagnosisText } from './doctor-text.ts'
import type { FlagValues } from '../start/flags.ts'
import { failureText } from './messages.ts'
import { page, printJson, printLines, stderrLog } from '../start/output.ts'
import { loadSettings, type Settings } from '../start/settings.ts'
import { withDaemonsName } from './daemons-name.ts'
import { runningProxy } from './running-proxy.ts'

const DEADLINE_MS = 60_000
/** The daemon answers within milliseconds, or it hangs. */
const ANSWER_MS = 5000

/** Resolves to the exit code. Rejects when a bundle cannot be read or written. */
export async function doctor(flags: FlagValues): Promise<number> {
  const { from, bundle } = flags
  const isBundle = from !== undefined && from !== ''
  const facts = isBundle ? await readBundle(from) : await collect(flags)
  if (bundle !== undefined && bundle !== '') {
    await writeBundle(bundle, facts)
    stderrLog.warn(`kube-ipvs doctor: wrote ${bundle}; it has addresses of this node, and no credentials`)
  }
  const diagnosis = diagnose(facts)
  if (flags.output === 'json') printJson(diagnosis)
  else printLines(diagnosisText(diagnosis, { ...page(), bundle: isBundle ? from : undefined }))
  return exitCodeOf(diagnosis)
}

async function collect(given: FlagValues): Promise<NodeFacts> {
  const { socket } = (await settingsOrDefaults(given)).settings.configuration.kubeIPVS
  const client = askDaemon(socket, { deadlineMs: ANSWER_MS })
  const answer = await client.daemon()
  const flags = isUnknown(answer) ? given : withDaemonsChoices(given, answer)
  const { settings: loaded, error } = await settingsOrDefaults(flags)
  const settings = withDaemonsName(loaded, answer)
  const { configuration, nodeName, manifests, master } = settings
  const { kubeconfig } = configuration.clientConnection
  const isConfigured = flags.config !== undefined && flags.config !== '' && error === null
  const hasCluster = manifests === undefined && (isConfigured || [master, kubeconfig].some((one) => (one ?? '') !== ''))
  return collectFacts({
    configuration,
    nodeName,
    from: flags.config || 'command line',
    error,
    daemon: daemonFact(answer),
    running: await runningProxy(configuration.metricsBindAddress, {
      warn: (text) => stderrLog.warn(`kube-ipvs doctor: ${text}`),
    }),
    access: hasCluster ? async () => (await import('../daemon/commands.ts')).apiAccess(settings) : undefined,
    changes:
      hasCluster || manifests !== undefined
        ? async () => (await import('../daemon/commands.ts')).plannedCommands(settings, silentLog)
        : undefined,
    signal: deadlineSignal(DEADLINE_MS, 'the check of this node'),
  })
}

/** Without a file the node is checked for what its daemon is configured for, as far as the daemon says it. */
export function withDaemonsChoices(
  flags: FlagValues,
  daemon: Pick<DaemonView, 'configuredMode' | 'settings' | 'virtualAddresses'>,
): FlagValues {
  if (flags.config !== undefined && flags.config !== '') return flags
  const { configuredMode, settings, virtualAddresses } = daemon
  return {
    mode: configuredMode,
    'ipvs.scheduler': settings.scheduler,
    'ipvs.strictARP': settings.strictARP,
    'ipvs.excludeCIDRs': settings.excludeCIDRs,
    'kubeIPVS.fallback': settings.fallback,
    'kubeIPVS.virtualAddresses': virtualAddresses,
    ...(settings.clusterCIDR === '' ? {} : { clusterCIDR: settings.clusterCIDR }),
    ...flags,
  }
}

/** A node without a daemon is none that something is wrong with; one whose daemon keeps silent may be. */
function daemonFact(answer: Answered<DaemonView>): Pick<NodeFacts, 'daemon' | 'daemonSilence'> {
  if (isUnknown(answer)) {
    const { unknown, reason } = answer
    if (unknown === 'off' || unknown === 'no-daemon') return { daemon: { value: null }, daemonSilence: '' }
    const isSilent = unknown === 'no-answer' || unknown === 'starting'
    return { daemon: { unseen: reason }, daemonSilence: isSilent ? reason : '' }
  }
  const { node, settings, mode, configuredMode, health, awaiting, fallback, passes, problems, counts, room } = answer
  const { firewall = null } = answer
  const value = {
    nodeName: node.name,
    knowsNode: node.zone !== null,
    podCidrs: (settings.clusterCIDR === '' ? node.podCidrs : settings.clusterCIDR.split(',')).slice(0, 10),
    mode,
    configuredMode,
    firewall: firewall && { name: firewall.name, reason: firewall.reason },
    health: { healthy: health.healthy, reason: health.reason },
    awaiting: awaiting.slice(0, 10),
    fallback: fallback && { message: fallback.message, remedy: fallback.remedy },
    passes: passes.map(({ what, failed, unreadable }) => ({ what, failed, unreadable })),
    problems: problems
      .slice(0, 50)
      .map(({ field = null, code, about, subject, message }) => ({ code, about, subject, field, message })),
    problemCount: counts.problems,
    room: room === undefined ? null : { limit: room.limit, leftOut: room.leftOut },
  }
  return { daemon: { value }, daemonSilence: '' }
}

/**
 * Without a file the mode is ipvs, because a node is looked at for what this program is for. A file
 * that is refused is a finding, and the defaults are used; one that does not exist is a mistake in
 * the command line.
 */
async function settingsOrDefaults(
  flags: FlagValues,
): Promise<{ readonly settings: Settings; readonly error: string | null }> {
  const withMode = (given: FlagValues): FlagValues => ({ ...given, mode: given.mode ?? 'ipvs' })
  if (flags.config === undefined || flags.config === '')
    return { settings: await loadSettings(withMode(flags)), error: null }
  try {
    return { settings: await loadSettings(flags), error: null }
  } catch (error) {
    if (!(error instanceof CodedError) || error.code === 'config-unreadable') throw error
    const { config: _, ...others } = flags
    const advice = error.advice === undefined ? '' : `. ${error.advice}`
    return { settings: await loadSettings(withMode(others)), error: `${failureText(error, flags)}${advice}` }
  }
}
