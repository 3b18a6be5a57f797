/**
 * The daemon from its start to its end: sources, servers, the proxy, and what follows the first pass. `proxy.ts` joins the
 * parts that turn objects into kernel state.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { proxyStarting } from '../events/event-objects.ts'
import { RequestCounts } from '../metrics/request-counts.ts'
import { periodsOf } from '../modes/mode.ts'
import { kernelFamilies } from '../node/families.ts'
import type { ProcessLog } from '../serve/log.ts'
import type { PassReport } from '../sync/reconciler.ts'
import { LateServers } from './late-servers.ts'
import { applyOomScore, growSparingly } from './process.ts'
import { Proxy } from './proxy.ts'
import { ProxyHealth } from './proxy-health.ts'
import { chooseSources, type SourceSettings } from './sources.ts'
import { logStart } from './start-log.ts'

export interface DaemonOptions extends SourceSettings {
  /** The daemon ends after one pass over everything, and serves no ports. */
  readonly once: boolean
  /** The file that the configuration was read from; the daemon follows it. Absent: flags only. */
  readonly configurationFile?: string | undefined
  /** Reads that file again, with the flags that count beside it. Rejects with what is wrong with it. */
  readonly readConfiguration: () => Promise<KubeProxyConfiguration>
  /** For /flagz: every flag with its value. */
  readonly flags: () => Readonly<Record<string, string>>
  /** Resolves with the name of the signal that asks the daemon to stop. */
  readonly stop: Promise<string>
  readonly log: ProcessLog
}

export interface DaemonEnd {
  /** The daemon was asked to stop. Otherwise it ended after its pass. */
  readonly isStopped: boolean
  /** Operations that the passes applied to the kernel. */
  readonly operations: number
  /** Operations that failed, and tables that could not be read. */
  readonly failures: number
}

/** A stop takes no longer: a container runtime that waits for the program should notice no delay. */
const CLOSE_MS = 800
/** When no first pass has ended by then, it waits for something that a changed configuration may provide. */
const FOLLOW_AFTER_MS = 5000

/**
 * Runs until `stop` resolves, or with `once` until everything was tried once. Rejects when only a new process can help. The
 * kernel keeps its state in every case, and traffic continues.
 */
export async function runDaemon(options: DaemonOptions): Promise<DaemonEnd> {
  const { configuration, nodeName, once, log } = options
  const passes = new PassTotals()
  const requests = new RequestCounts()
  const stopped = options.stop.then((signal): 'stopped' => {
    log.info('Stopping; the kernel keeps what it has', { signal })
    return 'stopped'
  })

  // Sources: checked, and opened by the proxy.
  const { openSource, openEvents, needsNode, virtualIps } = await chooseSources({ ...options, requests })

  // The process and its host.
  applyOomScore(configuration.oomScoreAdj, log)
  const { families } = kernelFamilies()
  logStart(configuration, families, log)
  const events = openEvents()

  // Servers: health is answered from the first moment, metrics as soon as there is a proxy.
  let proxy: Proxy | undefined = undefined
  const inForce = (): KubeProxyConfiguration => proxy?.configuration ?? configuration
  const health = new ProxyHealth({
    nodeName,
    needsNode,
    families,
    syncPeriodMs: () => periodsOf(inForce()).syncPeriodMs,
    now: () => performance.now(),
  })
  const servers = new LateServers()
  if (!once)
    await servers.open({
      configuration: inForce,
      health,
      metrics: () => proxy?.metrics,
      flags: options.flags,
      setVerbosity: (verbosity) => log.setVerbosity({ verbosity, vmodule: inForce().logging.vmodule }),
      log,
      firstPass: passes.complete,
    })

  // The proxy: node, frontends, mode and loop.
  const starting = Proxy.start({
    configuration,
    health,
    nodeName,
    needsNode,
    // The one pass has ended before a Node could appear.
    ...(once ? { nodeWaits: { addressesMs: 0, podCidrsMs: 0 } } : {}),
    log,
    events,
    virtualIps,
    openSource,
    requests,
    onPass: (report, complete) => passes.add(report, complete),
  })
  const started = await Promise.race([starting, stopped])
  if (started === 'stopped') return passes.end(true)
  proxy = started

  // What follows a start.
  if (!once) events.record(proxyStarting(nodeName))
  void passes.complete.then(growSparingly)
  if (!once && options.configurationFile !== undefined) {
    const file = options.configurationFile
    void Promise.race([passes.complete, sleep(FOLLOW_AFTER_MS, undefined, { ref: false })]).then(() =>
      followFile(file, options, started),
    )
  }
  const benchFile = process.env['KUBE_IPVS_BENCH_FILE']
  if (benchFile !== undefined && started.connections !== undefined)
    (await import('../modes/bench-probe.ts')).startBenchProbe(benchFile, started.connections)

  const ended = once ? passes.complete : new Promise<never>(() => undefined)
  const reason = await Promise.race([ended, stopped, started.failed])
  await Promise.race([
    Promise.all([servers.close(), events.close(), started.close()]),
    new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref()),
  ])
  return passes.end(reason === 'stopped')
}

/** Runs after the first pass, to keep it off the critical path of a start, or when that pass takes long. */
async function followFile(path: string, options: DaemonOptions, proxy: Proxy): Promise<void> {
  const { configuration, readConfiguration, log } = options
  const [{ ConfigReload }, { applyLive }] = await Promise.all([
    import('./config-reload.ts'),
    import('./live-settings.ts'),
  ])
  const reload = new ConfigReload({
    path,
    configuration,
    read: readConfiguration,
    apply: (next, fields) => applyLive(next, fields, { log, proxy }),
    onFatal: (error) => proxy.fail(error),
    log,
  })
  reload.start()
}

/** What all passes did together. */
class PassTotals {
  readonly #firstPass = Promise.withResolvers<void>()
  #operations = 0
  #failures = 0

  /** Resolves when everything was tried once. */
  get complete(): Promise<void> {
    return this.#firstPass.promise
  }

  add(report: PassReport, isComplete: boolean): void {
    this.#operations += report.applied
    this.#failures += report.failures.length + report.unreadable.length
    if (isComplete) this.#firstPass.resolve()
  }

  end(isStopped: boolean): DaemonEnd {
    return { isStopped, operations: this.#operations, failures: this.#failures }
  }
}
