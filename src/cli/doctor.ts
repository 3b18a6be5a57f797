/** `kube-ipvs doctor`: collects the facts of this node, or reads a bundle, and prints what is wrong. It changes nothing. */
import { collectFacts } from '../doctor/collect.ts'
import { diagnose, exitCodeOf } from '../doctor/diagnose.ts'
import type { NodeFacts } from '../doctor/facts.ts'
import { readBundle, writeBundle } from '../doctor/bundle.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { CodedError } from '../values/errors.ts'
import { silentLog } from '../values/log.ts'
import { printableJson } from '../values/quote.ts'
import { diagnosisText } from './doctor-text.ts'
import type { FlagValues } from './flags.ts'
import { failureText } from './messages.ts'
import { loadSettings, type Settings } from './settings.ts'
import { runningProxy } from './running-proxy.ts'
import { stderrLog, styleFor } from './terminal.ts'

const DEADLINE_MS = 60_000

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
  if (flags.output === 'json') process.stdout.write(`${printableJson(diagnosis)}\n`)
  else {
    const style = styleFor(process.stdout, process.env)
    process.stdout.write(`${diagnosisText(diagnosis, { style, columns: process.stdout.columns }).join('\n')}\n`)
  }
  return exitCodeOf(diagnosis)
}

async function collect(flags: FlagValues): Promise<NodeFacts> {
  const { settings, error } = await settingsOrDefaults(flags)
  const { configuration, nodeName, manifests, master } = settings
  const { kubeconfig } = configuration.clientConnection
  const isConfigured = flags.config !== undefined && flags.config !== '' && error === null
  const hasCluster = manifests === undefined && (isConfigured || [master, kubeconfig].some((one) => (one ?? '') !== ''))
  return collectFacts({
    configuration,
    nodeName,
    from: flags.config || 'command line',
    error,
    running: await runningProxy(configuration.metricsBindAddress),
    access: hasCluster ? async () => (await import('../daemon/commands.ts')).apiAccess(settings) : undefined,
    changes:
      hasCluster || manifests !== undefined
        ? async () => (await import('../daemon/commands.ts')).plannedCommands(settings, silentLog)
        : undefined,
    signal: deadlineSignal(DEADLINE_MS, 'the check of this node'),
  })
}

/**
 * Without a file the mode is ipvs, because a node is looked at for what this program is for. A file that is refused is a finding, and
 * the defaults are used; one that does not exist is a mistake in the command line.
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
