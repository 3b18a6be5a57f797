/** Assembles the daemon, from top to bottom: sources, servers, then the proxy, and what follows the first pass. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { modeIsDefault, proxyStarting } from '../events/event-objects.ts'
import { RequestCounts } from '../metrics/request-counts.ts'
import { periodsOf } from '../modes/mode.ts'
import { kernelFamilies } from '../node/families.ts'
import type { ProcessLog } from '../serve/log.ts'
import { CollectionAtRest } from './collection-at-rest.ts'
import { LateServers } from './late-servers.ts'
import { PassTotals } from './pass-log.ts'
import { applyOomScore, growFreely, growSparingly } from './process.ts'
import { prepareProxy } from './proxy-assembly.ts'
import { ProxyHealth } from './proxy-health.ts'
import { reachApiServer } from './reach-api-server.ts'
import { RunningProxy } from './running-proxy.ts'
import { chooseSources, type SourceSettings } from './sources.ts'
import { logStart, NO_MODE } from './start-log.ts'

const now = (): number => performance.now()

/** Longest duration of a stop: a container runtime that waits for the program should notice no delay. */
const CLOSE_MS = 800
/** When no first pass has ended by then, it waits for something that a changed configuration may provide. */
const FOLLOW_AFTER_MS = 5000

/** What the command line gives to the daemon. */
export interface DaemonOptions extends SourceSettings {
  /** The daemon ends after one pass over everything, and serves no ports. */
  readonly once: boolean
  /** The file that the configuration was read from; the daemon follows it. Absent: flags only. */
  readonly configurationFile?: string | undefined
  /** Reads that file again, with the flags that count with a file. Rejects with what is wrong with it. */
  readonly readConfiguration: () => Promise<KubeProxyConfiguration>
  /** For /flagz: every flag with its value. */
  readonly flags: () => Readonly<Record<string, string>>
  /** Resolves with the name of the signal that asks the daemon to stop. */
  readonly stop: Promise<string>
  /** SIGHUP stops the daemon unless this function, called for each one, returns true. */
  readonly onHangup: (take: () => boolean) => void
  readonly log: ProcessLog
}

/** How the daemon ends. */
export interface DaemonEnd {
  /** The daemon was asked to stop. Otherwise it ended after its pass. */
  readonly isStopped: boolean
  readonly passes: PassTotals
}

/**
 * Runs until `stop` resolves, or with `once` until everything was tried once. Rejects when only a
 * new process can help. The kernel keeps its state in every case, and traffic continues.
 */
export async function runDaemon(options: DaemonOptions): Promise<DaemonEnd> {
  const { configuration, nodeName, once, log } = options
  const collections = new CollectionAtRest()
  const passes = new PassTotals()
  const requests = new RequestCounts()
  const stopped = options.stop.then((signal): 'stopped' => {
    log.info('Stopping; the kernel keeps what it has', { signal })
    return 'stopped'
  })

  // Sources: checked, and opened by the proxy.
  const sources = await chooseSources({ ...options, requests })
  const { openSource, openNodeLabels, openEvents, needsNode, virtualIps, listPod } = sources
  await reachApiServer(virtualIps.rule.apiServer, log)

  // The process and its host.
  applyOomScore(configuration.oomScoreAdj, log)
  const { families } = kernelFamilies()
  logStart(configuration, families, log)
  const events = openEvents()

  // The proxy: mode, node, frontends and loop.
  const running = new RunningProxy(configuration, {
    prepare: (wanted, purpose) =>
      prepareProxy({
        configuration: wanted,
        ...purpose,
        health,
        nodeName,
        needsNode,
        // The only pass ends before a Node could appear.
        nodeWaits: once ? { nodeMs: 0, podCidrsMs: 0 } : undefined,
        log,
        events,
        virtualIps,
        openSource,
        openNodeLabels,
        requests,
        passes,
        onWork: () => collections.worked(),
        local: servers.local,
        onIpvsLost: () => running.ipvsLost(),
      }),
    once,
    nodeName,
    events,
    log,
    now,
  })

  // Servers: health is answered from the first moment, metrics as soon as there is a proxy.
  const inForce = (): KubeProxyConfiguration => running.configuration
  const health = new ProxyHealth({
    nodeName,
    needsNode,
    families,
    syncPeriodMs: () => periodsOf(inForce()).syncPeriodMs,
    now,
  })
  const servers = new LateServers()
  if (!once)
    await servers.open({
      configuration: inForce,
      mode: () => running.mode,
      health,
      metrics: () => running.metrics,
      flags: options.flags,
      setVerbosity: (verbosity) => log.setVerbosity({ verbosity, vmodule: inForce().logging.vmodule }),
      log,
      firstPass: passes.complete,
      inspected: () => running.inspected,
      listPod,
      now,
    })

  growFreely()
  if ((await Promise.race([running.start(), stopped])) === 'stopped') return { isStopped: true, passes }

  // What follows a start.
  options.onHangup(() => running.askKernel())
  if (!once) {
    if (configuration.modeIsDefault === true) events.record(modeIsDefault(nodeName, NO_MODE))
    events.record(proxyStarting(nodeName))
  }
  void passes.complete.then(() => growSparingly(log, () => collections.open()))
  if (!once && options.configurationFile !== undefined) {
    const file = options.configurationFile
    void Promise.race([passes.complete, sleep(FOLLOW_AFTER_MS, undefined, { ref: false })]).then(async () =>
      (await import('./config-reload.ts')).followFile(file, options, running),
    )
  }

  const ended = once ? passes.complete : new Promise<never>(() => undefined)
  const reason = await Promise.race([ended, stopped, running.failed])
  await Promise.race([
    Promise.all([servers.close(), events.close(), running.close()]),
    new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref()),
  ])
  return { isStopped: reason === 'stopped', passes }
}
