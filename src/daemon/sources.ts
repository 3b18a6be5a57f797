/**
 * Where the daemon and the commands get objects from and send Events to: the API server that the
 * configuration names, or the folder of --manifests. The code of the other source is not loaded.
 */
import { readdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import type { KubeIpvsSettings, KubeProxyConfiguration } from '../config/types.ts'
import { type Events, EventRecorder, loggedEvents } from '../events/event-recorder.ts'
import { findProgram, runProgram, searchPath } from '../node/programs.ts'
import { VirtualIpGuard } from '../service/virtual-ip-guard.ts'
import { type Cidr, parseCidrs } from '../values/cidr.ts'
import { CodedError, unlessMissing } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { VERSION } from '../values/well-known.ts'
import type { PluginCall, PluginResult, RunPlugin } from '../watch/api/exec-plugin.ts'
import type { RequestObserver } from '../watch/api/http-pool.ts'
import type { PodEndpoints, PodName } from '../watch/objects/pod-endpoints.ts'
import type { ObjectSink, Source } from '../watch/source.ts'
import type { OpenNodeLabels } from './followed-node-labels.ts'
import { ProtectedAddresses } from './protected-addresses.ts'

/** What the command line and the configuration say about sources. */
export interface SourceSettings {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  /** --manifests: this folder takes the place of the API server. */
  readonly manifests?: string | undefined
  /** --master: URL that takes the place of the kubeconfig's server. */
  readonly master?: string | undefined
}

export interface SourceOptions extends SourceSettings {
  readonly log: Log
  /** Is called for each request to the API server. */
  readonly requests?: RequestObserver | undefined
}

/** Lists the endpoints of a pod, on demand. Rejects when the source cannot be read, or when aborted. */
export type ListPod = (pod: PodName, signal: AbortSignal) => Promise<PodEndpoints>

export interface Sources {
  /** Opens the source of objects; it delivers them to this sink. */
  readonly openSource: (sink: ObjectSink) => Source
  /** Opens a source of labels of all Nodes. Absent for manifests, where `openSource` reports those of all Nodes. */
  readonly openNodeLabels?: OpenNodeLabels
  readonly openEvents: () => Events
  readonly listPod: ListPod
  /** False for a folder of manifests, which may have no Node object. */
  readonly needsNode: boolean
  /** Which externalIPs and load-balancer addresses Services may have. */
  readonly virtualIps: VirtualIpGuard
}

/**
 * Checks the access to the source, but opens nothing yet. Rejects with what is wrong with the
 * kubeconfig or the folder.
 */
export async function chooseSources(options: SourceOptions): Promise<Sources> {
  const { manifests } = options
  return manifests === undefined ? apiSources(options) : manifestSources(options, manifests)
}

async function manifestSources(options: SourceOptions, directory: string): Promise<Sources> {
  const { configuration, nodeName, log } = options
  await requireFolder(directory, log)
  const { openManifestsSource } = await import('../watch/manifests/manifests-source.ts')
  const virtualIps = virtualIpGuard(configuration.kubeIPVS)
  const addresses = new ProtectedAddresses({ guard: virtualIps, log })
  await addresses.start()
  return {
    openSource: (sink) => followedBy(openManifestsSource({ directory, nodeName, sink, log }), addresses.follow()),
    openEvents: () => loggedEvents(log),
    listPod: async (pod, signal) =>
      (await import('../watch/manifests/list-pod.ts')).listPodFromManifests(directory, pod, signal),
    needsNode: false,
    virtualIps,
  }
}

async function apiSources({ configuration, nodeName, master = '', log, requests }: SourceOptions): Promise<Sources> {
  const { ApiClient } = await import('../watch/api/api-client.ts')
  const { openApiSource, openNodeLabels } = await import('../watch/reflect/api-source.ts')
  const { KubeAccess } = await import('../watch/api/kube-config.ts')
  const { kubeconfig, contentType, acceptContentTypes, qps, burst } = configuration.clientConnection
  const access = new KubeAccess({ kubeconfig, master, runPlugin: execPluginRunner() })
  if (kubeconfig === '' && master === '')
    log.info('Neither kubeconfig file nor master URL was specified, falling back to in-cluster config')
  await access.check()
  const virtualIps = virtualIpGuard(configuration.kubeIPVS)
  const addresses = new ProtectedAddresses({ guard: virtualIps, urls: () => access.urls(), log })
  await addresses.start()
  const observer: RequestObserver = {
    requested: (...counted) => requests?.requested(...counted),
    received: (...counted) => requests?.received(...counted),
    connected: (address, port) => addresses.connected(address, port),
  }
  return {
    openSource: (sink) =>
      followedBy(
        openApiSource({ access, nodeName, version: VERSION, contentType, acceptContentTypes, log, observer, sink }),
        addresses.follow(),
      ),
    openNodeLabels: (labels, sink) => openNodeLabels({ access, version: VERSION, log, observer, sink, labels }),
    openEvents: () => {
      const userAgent = `kube-ipvs/${VERSION}`
      const client = new ApiClient({ access, userAgent, contentType: 'application/json', observer })
      return new EventRecorder({ client, hostName: hostname(), qps, burst, log })
    },
    listPod: async (pod, signal) =>
      (await import('../watch/api/list-pod.ts')).listPodFromApi(
        { access, userAgent: `kube-ipvs/${VERSION}` },
        pod,
        signal,
      ),
    needsNode: true,
    virtualIps,
  }
}

const MANIFEST = /\.(ya?ml|json)$/

/**
 * While the daemon runs, the source waits for a folder that is missing. At a start a wrong name is
 * most likely a mistake.
 */
async function requireFolder(directory: string, log: Log): Promise<void> {
  try {
    const files = await readdir(directory)
    if (!files.some((file) => MANIFEST.test(file)))
      log.warn('The folder of --manifests has no YAML or JSON file: no Service is wanted', { folder: directory })
  } catch (cause) {
    // `ENOENT: no such file or directory, scandir '/x'`
    const reason = cause instanceof Error ? cause.message.replace(/^[A-Z]+: (.*), \w+ .*$/, '$1') : String(cause)
    throw new CodedError('manifests-unreadable', `--manifests: cannot read the folder ${directory}: ${reason}`, {
      cause,
    })
  }
}

/** What this node permits of externalIPs and load-balancer addresses, before the addresses of anything are known. */
function virtualIpGuard({
  allowedExternalIPs,
  allowedLoadBalancerIPs,
  allowProtectedExternalIPs,
}: KubeIpvsSettings): VirtualIpGuard {
  const lists = { externalIps: rangesOf(allowedExternalIPs), loadBalancerIps: rangesOf(allowedLoadBalancerIPs) }
  return new VirtualIpGuard(lists, allowProtectedExternalIPs)
}

function rangesOf(texts: readonly string[] | undefined): readonly Cidr[] | undefined {
  return texts === undefined ? undefined : parseCidrs(texts)
}

/** A source that calls `stop` when it is closed. */
function followedBy(source: Source, stop: () => void): Source {
  return {
    close: async () => {
      stop()
      await source.close()
    },
  }
}

/**
 * client-go has no limit. On a node a plugin that asks for a login in a browser gets no answer and
 * would run forever.
 */
const PLUGIN_MS = 60_000

/**
 * Runs exec credential plugins of kubeconfigs as programs of this host.
 * @param deadlineMs after which a plugin is killed with everything that it started
 */
export function execPluginRunner(deadlineMs = PLUGIN_MS): RunPlugin {
  return async ({ command, args, env }: PluginCall): Promise<PluginResult | undefined> => {
    const program = command.includes('/') ? command : findProgram(command, searchPath(process.env['PATH']))
    if (program === undefined) return undefined
    const signal = new AbortController().signal
    const call = { program, args, env: { ...process.env, ...env }, deadlineMs, withDescendants: true, signal }
    return unlessMissing('program-missing', () => runProgram(call))
  }
}
