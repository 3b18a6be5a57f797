/**
 * `kube-ipvs`: the daemon, and with --once one pass.
 * What could break: the exit codes are kube-proxy's: 1 for what only a restart can mend, 128 and its number after a
 * signal. The kernel's state stays as it is in every case, and traffic goes on.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { RequestCounts } from '../metrics/request-counts.ts'
import { kernelFamilies } from '../node/families.ts'
import { openLog, type ProcessLog } from '../serve/log.ts'
import type { PassReport } from '../sync/reconciler.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { proxyStarting } from '../events/event-objects.ts'
import { writeEarlyLine } from './early-lines.ts'
import { NEEDS_RIGHTS, nextStep } from './error-text.ts'
import { flagTexts } from './flag-texts.ts'
import type { FlagValues } from './flags.ts'
import { growFreely, growSparingly } from '../daemon/heap.ts'
import { LateServers } from '../daemon/late-servers.ts'
import { applyLive, applyOomScore } from '../daemon/live-settings.ts'
import { periodsOf } from '../modes/mode.ts'
import { Proxy } from '../daemon/proxy.ts'
import { ProxyHealth } from '../daemon/proxy-health.ts'
import { loadSettings, logWarnings, type Settings, sourcesOf } from './settings.ts'
import { type EndSignal, endSignal, SIGNAL_EXIT_CODE } from './signals.ts'
import { logStart } from '../daemon/start-log.ts'

/** As long as a stop may take; a container that is stopped has a second to be taken for a quick one. */
const CLOSE_MS = 800
/** A first pass that has not come by then waits for something; a new configuration may be what it waits for. */
const FOLLOW_AFTER_MS = 5000

export async function run(flags: FlagValues): Promise<number> {
  if (flags.cleanup === true) return (await import('./cleanup.ts')).cleanup(flags)
  growFreely()
  const signal = endSignal()
  const settings = await loadSettings(flags, writeEarlyLine)
  const { format, verbosity, vmodule } = settings.configuration.logging
  const log = await openLog({ format, verbosity, vmodule })
  process.on('uncaughtException', (error) => {
    log.error('Unexpected failure', { error: error.stack ?? error.message })
    log.close()
    process.exit(1)
  })
  try {
    logWarnings(settings.warnings, log)
    if (flags.initOnly === true) return await (await import('./init-only.ts')).initializeOnly(settings, log)
    return await serve(flags, settings, log, signal)
  } catch (error) {
    const reason = reasonOf(error, log)
    log.error('Error running ProxyServer', { error: reason })
    log.error('command failed', { error: reason })
    const step = process.stderr.isTTY ? nextStep(error) : undefined
    if (step !== undefined) process.stderr.write(`${step}\n`)
    return 1
  } finally {
    log.close()
  }
}

/** Works until a signal comes, or with --once until everything was tried once. Rejects when only a restart can help. */
async function serve(
  flags: FlagValues,
  settings: Settings,
  log: ProcessLog,
  signal: Promise<EndSignal>,
): Promise<number> {
  const { configuration, nodeName } = settings
  const passes = new Passes()
  const requests = new RequestCounts()
  const { openSource, openEvents, needsNode, virtualIps } = await sourcesOf(flags, settings, log, requests)
  applyOomScore(configuration.oomScoreAdj, log)
  const { families } = kernelFamilies()
  logStart(configuration, families, log)
  const events = openEvents()
  const servers = new LateServers()
  const running: { proxy?: Proxy } = {}
  const inForce = (): KubeProxyConfiguration => running.proxy?.configuration ?? configuration
  const health = new ProxyHealth({
    nodeName,
    needsNode,
    families,
    syncPeriodMs: () => periodsOf(inForce()).syncPeriodMs,
    now: () => performance.now(),
  })
  if (flags.once !== true)
    await servers.open({
      configuration: inForce,
      health,
      metrics: () => running.proxy?.metrics,
      flags: () => flagTexts(flags),
      setVerbosity: (verbosity) => log.setVerbosity({ verbosity, vmodule: inForce().logging.vmodule }),
      log,
      firstPass: passes.complete,
    })
  const starting = Proxy.start({
    configuration,
    health,
    nodeName,
    needsNode,
    // One pass is over before anybody could have come.
    ...(flags.once === true ? { nodeWaits: { addressesMs: 0, podCidrsMs: 0 } } : {}),
    log,
    events,
    virtualIps,
    openSource,
    requests,
    onPass: (report, complete) => passes.add(report, complete),
  })
  const proxy = await Promise.race([starting, signal])
  if (typeof proxy === 'string') return stopped(proxy, log)
  running.proxy = proxy
  if (flags.once !== true) events.record(proxyStarting(nodeName))
  void passes.complete.then(growSparingly)
  if (flags.once !== true && flags.config !== undefined && flags.config !== '')
    void Promise.race([passes.complete, sleep(FOLLOW_AFTER_MS, undefined, { ref: false })]).then(() =>
      followFile(flags, settings, proxy, log),
    )
  const benchFile = process.env['KUBE_IPVS_BENCH_FILE']
  if (benchFile !== undefined && proxy.connections !== undefined)
    (await import('../modes/bench-probe.ts')).startBenchProbe(benchFile, proxy.connections)
  const ended = flags.once === true ? passes.complete.then(() => undefined) : new Promise<never>(() => undefined)
  const received = await Promise.race([ended, signal, proxy.failed])
  const code = received === undefined ? undefined : stopped(received, log)
  await Promise.race([
    Promise.all([servers.close(), events.close(), proxy.close()]),
    new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref()),
  ])
  if (code !== undefined) return code
  if (flags.output === 'json')
    process.stdout.write(`${JSON.stringify({ operations: passes.operations, failures: passes.failures })}\n`)
  return passes.failures === 0 ? 0 : 1
}

/** Once the first pass is over, since a start has better things to do, or does not come to one. */
async function followFile(flags: FlagValues, settings: Settings, proxy: Proxy, log: ProcessLog): Promise<void> {
  const { ConfigReload } = await import('../daemon/config-reload.ts')
  const reload = new ConfigReload({
    path: flags.config ?? '',
    configuration: settings.configuration,
    read: async () => (await loadSettings(flags)).configuration,
    apply: (configuration, fields) => applyLive(configuration, fields, { log, proxy }),
    onFatal: (error) => proxy.fail(error),
    log,
  })
  reload.start()
}

function stopped(signal: EndSignal, log: Log): number {
  log.info('Stopping; the kernel keeps what it has', { signal })
  return SIGNAL_EXIT_CODE[signal]
}

/** What ends the process, in kube-proxy's words where it has some; a mistake of ours with its stack. */
function reasonOf(error: unknown, log: Log): unknown {
  if (!(error instanceof CodedError)) return error instanceof Error ? (error.stack ?? error) : error
  if (error.code === 'EPERM') log.error(NEEDS_RIGHTS, { error })
  if (error.code !== 'ipvs-missing') return error
  log.error('The kernel lacks what ipvs mode needs', { error })
  return "can't use the IPVS proxier: ipvs not supported"
}

/** Counts what passes did, and tells when everything was tried once. */
class Passes {
  operations = 0
  failures = 0
  readonly complete: Promise<void>
  #resolve: () => void = () => undefined

  constructor() {
    this.complete = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  add(report: PassReport, complete: boolean): void {
    this.operations += report.applied
    this.failures += report.failures.length + report.unreadable.length
    if (complete) this.#resolve()
  }
}
