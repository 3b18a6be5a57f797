/**
 * `kube-ipvs`: the daemon, and with --once one pass.
 * What could break: the exit codes are kube-proxy's: 1 for what only a restart can mend, 143 after SIGTERM. The kernel's
 * state stays as it is in every case, and traffic goes on.
 */
import { RequestCounts } from '../metrics/request-counts.ts'
import { kernelRelease } from '../node/host.ts'
import { openLog } from '../serve/log.ts'
import type { PassReport } from '../sync/reconciler.ts'
import type { Log } from '../values/log.ts'
import { proxyStarting } from '../watch/event-objects.ts'
import type { FlagValues } from './flags.ts'
import { growFreely, growSparingly } from './heap.ts'
import { Proxy } from './proxy.ts'
import { loadSettings, logWarnings, requireIpvsMode, sourcesOf } from './settings.ts'
import { VERSION } from './version.ts'

/** Exit code of a process that ends on a signal: 128 and the signal's number. */
const SIGNAL_EXIT_CODE = { SIGTERM: 143, SIGINT: 130 } as const
/** As long as a stop may take. */
const CLOSE_MS = 2000

export async function run(flags: FlagValues): Promise<number> {
  growFreely()
  const settings = await loadSettings(flags)
  const { format, verbosity } = settings.configuration.logging
  const log = await openLog({ format, verbosity })
  logWarnings(settings.warnings, log)
  requireIpvsMode(settings)
  log.info('Using ipvs Proxier', { version: VERSION, kernel: kernelRelease(), node: settings.nodeName })
  const passes = new Passes()
  const requests = new RequestCounts()
  const { openSource, openEvents } = await sourcesOf(flags, settings, log, requests)
  const events = openEvents()
  const proxy = await Proxy.start({
    configuration: settings.configuration,
    nodeName: settings.nodeName,
    drainDeadlineMs: flags.drainDeadline === undefined || flags.drainDeadline === 0 ? undefined : flags.drainDeadline,
    log,
    events,
    openSource,
    requests,
    onPass: (report, complete) => passes.add(report, complete),
  })
  if (flags.once !== true) events.record(proxyStarting(settings.nodeName))
  void passes.complete.then(growSparingly)
  const benchFile = process.env['KUBE_IPVS_BENCH_FILE']
  if (benchFile !== undefined) (await import('./bench-probe.ts')).startBenchProbe(benchFile, proxy.connections)
  const ended = flags.once === true ? passes.complete.then(() => undefined) : new Promise<never>(() => undefined)
  const signal = await Promise.race([ended, received(log)])
  await Promise.race([
    Promise.all([events.close(), proxy.close()]),
    new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref()),
  ])
  log.close()
  if (signal !== undefined) return SIGNAL_EXIT_CODE[signal]
  if (flags.output === 'json')
    process.stdout.write(`${JSON.stringify({ operations: passes.operations, failures: passes.failures })}\n`)
  return passes.failures === 0 ? 0 : 1
}

/** Resolves with the signal that asks the process to end. */
function received(log: Log): Promise<keyof typeof SIGNAL_EXIT_CODE> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.on(signal, () => {
        log.info('Stopping; the kernel keeps what it has', { signal })
        resolve(signal)
      })
  })
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
