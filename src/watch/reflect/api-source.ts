/**
 * The API server as a source of objects: one reflector for each kind over one client.
 * What could break: `close` must end the reflectors before the client, or they would take its end for a broken connection.
 */
import type { ObjectKind } from '../../service/objects.ts'
import type { Log } from '../../values/log.ts'
import { type AccessProvider, ApiClient } from '../api/api-client.ts'
import type { RequestObserver } from '../api/http-pool.ts'
import { KubeAccess } from '../api/kube-config.ts'
import { Outage } from './outage.ts'
import { Reflector, type ReflectorTimes } from './reflector.ts'
import { selectionOf } from '../objects/selection.ts'
import type { ObjectSink, Source } from '../source.ts'

export interface ApiSourceOptions {
  /** clientConnection.kubeconfig and `--master`; with neither the service account of the pod counts. */
  readonly kubeconfig?: string
  readonly master?: string
  /** Credentials from somewhere else (tests). */
  readonly access?: AccessProvider
  /** Name of the Node this proxy runs on, lower case. */
  readonly nodeName: string
  /** Version of this program, for the User-Agent; default 0.0.0. */
  readonly version?: string
  /** Of clientConnection; default protobuf, with JSON where a server does not speak it. */
  readonly contentType?: string
  readonly acceptContentTypes?: string
  /** Hears of requests. */
  readonly observer?: RequestObserver | undefined
  readonly sink: ObjectSink
  readonly log: Log
  readonly times?: ReflectorTimes
}

const KINDS: readonly ObjectKind[] = ['nodes', 'services', 'endpointslices']

/** Starts listing and watching. Never fails: what goes wrong is logged and tried again. */
export function openApiSource(options: ApiSourceOptions): Source {
  const { kubeconfig = '', master = '', nodeName, version = '0.0.0', sink, log, times = {} } = options
  const { contentType = '', acceptContentTypes = '', observer } = options
  const access = options.access ?? new KubeAccess({ kubeconfig, master })
  const now = (): number => performance.now()
  const client = new ApiClient({ access, userAgent: `kube-ipvs/${version}`, contentType, acceptContentTypes, observer })
  const outage = new Outage(log, now)
  const reflectors = KINDS.map(
    (kind) =>
      new Reflector({
        kind,
        selection: selectionOf(kind, nodeName),
        client,
        sink,
        now,
        random: Math.random,
        times,
        onFailure(error, retryMs, healthy) {
          if (healthy) log.info('Watching again', { kind, reason: error.message, code: error.code, retryMs })
          else outage.failed(kind, error, retryMs)
        },
        onHealthy: () => outage.recovered(kind),
      }),
  )
  for (const reflector of reflectors) reflector.start()
  return {
    async close() {
      await Promise.all(reflectors.map((reflector) => reflector.close()))
      await client.close()
    },
  }
}
