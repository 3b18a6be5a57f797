/**
 * The API server as a source of objects: one reflector for each kind over one client, and the log
 * of its outages.
 * @impure
 */
import { OBJECT_KINDS, type ObjectKind } from '../../service/objects.ts'
import type { Clock } from '../../values/clock.ts'
import type { CodedError } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import type { AccessProvider } from '../api/access.ts'
import { ApiClient, type ApiClientOptions } from '../api/api-client.ts'
import { Reflector, type ReflectorOptions } from './reflector.ts'
import type { ReflectorTimes } from './reflector-times.ts'
import { ALL_NODES, selectionOf } from '../objects/selection.ts'
import type { ObjectSink, Source } from '../source.ts'

export interface ApiSourceOptions {
  readonly access: AccessProvider
  /** Name of the Node this proxy runs on, lower case. */
  readonly nodeName: string
  /** Version of this program, for the User-Agent. */
  readonly version: string
  /** Of clientConnection; default protobuf, with JSON for servers without protobuf. */
  readonly contentType?: string
  readonly acceptContentTypes?: string
  /** Is notified of requests. */
  readonly observer?: ApiClientOptions['observer']
  readonly sink: ObjectSink
  readonly log: Log
  readonly times?: ReflectorTimes
  readonly pingTimes?: ApiClientOptions['pingTimes']
}

/** Starts to list and watch. Never fails: errors are logged and retried. */
export function openApiSource(options: ApiSourceOptions): Source {
  const { access, nodeName, version, sink, log, times = {} } = options
  const { contentType = '', acceptContentTypes = '', observer, pingTimes } = options
  const userAgent = `kube-ipvs/${version}`
  const onDead = deadConnection(log)
  const client = new ApiClient({ access, userAgent, contentType, acceptContentTypes, observer, onDead, pingTimes })
  const watched = OBJECT_KINDS.map((kind) => ({ kind, selection: selectionOf(kind, nodeName) }))
  return startReflectors(client, watched, { sink, log, times })
}

export type NodeLabelsOptions = Pick<ApiSourceOptions, 'access' | 'version' | 'observer' | 'sink' | 'log' | 'times'> & {
  /** Names of the labels. */
  readonly labels: ReadonlySet<string>
}

/**
 * Starts to list and watch these labels of all Nodes: metadata only, because the rest of all Nodes
 * is large. Never fails.
 */
export function openNodeLabels({
  access,
  version,
  observer,
  sink,
  log,
  times = {},
  labels,
}: NodeLabelsOptions): Source {
  const onDead = deadConnection(log)
  const client = new ApiClient({ access, userAgent: `kube-ipvs/${version}`, metadataOnly: true, observer, onDead })
  return startReflectors(client, [{ kind: 'nodes', selection: ALL_NODES, labels }], { sink, log, times })
}

type Watched = Pick<ReflectorOptions, 'kind' | 'selection' | 'labels'>

/** Lists and watches with one client, which the source closes at its end. */
function startReflectors(
  client: ApiClient,
  watched: readonly Watched[],
  { sink, log, times }: Pick<Required<ApiSourceOptions>, 'sink' | 'log' | 'times'>,
): Source {
  const now = (): number => performance.now()
  const outage = new Outage(log, now)
  const reflectors = watched.map(
    ({ kind, selection, labels }) =>
      new Reflector({
        kind,
        selection,
        ...(labels === undefined ? {} : { labels }),
        client,
        sink,
        now,
        random: Math.random,
        times,
        onFailure(error, retryMs, healthy) {
          // All watches of the connection ended with it, which has its own line.
          if (error.code === 'api-dead') return
          const message = labels === undefined ? 'Restarting watch' : 'Restarting watch of labels'
          if (healthy) log.info(message, { kind, reason: error.message, code: error.code, retryMs })
          else outage.failed(kind, error, retryMs)
        },
        onHealthy: () => outage.recovered(kind),
      }),
  )
  for (const reflector of reflectors) reflector.start()
  return {
    async close() {
      // In this order, because a reflector would report the end of the client as a broken connection.
      await Promise.all(reflectors.map((reflector) => reflector.close()))
      await client.close()
    },
  }
}

/** One line for a connection whose server is dead, while a load balancer keeps it open. */
function deadConnection(log: Log): ApiClientOptions['onDead'] {
  return (silentMs, watches) =>
    log.warn('The API server did not answer a ping; its watches continue on a new connection', {
      silentSeconds: Math.round(silentMs / 1000),
      watches,
    })
}

/** Time between two log lines of one kind. */
const REPEAT_MS = 60_000

/** Kubernetes' own names, which operators search for in the log. */
const TYPES: Readonly<Record<ObjectKind, string>> = {
  nodes: '*v1.Node',
  services: '*v1.Service',
  endpointslices: '*v1.EndpointSlice',
}

interface Failures {
  readonly sinceMs: number
  readonly warnedMs: number
}

/**
 * Logs that the API server does not provide objects of a kind: at once, then once a minute for each
 * kind, and when it does again. (kube-proxy logs nothing while connections are refused, and floods
 * the log otherwise.)
 */
export class Outage {
  readonly #log: Log
  readonly #now: Clock
  readonly #failures = new Map<ObjectKind, Failures>()

  constructor(log: Log, now: Clock) {
    this.#log = log
    this.#now = now
  }

  /** A request for objects of this kind failed. */
  failed(kind: ObjectKind, error: CodedError, retryMs: number): void {
    const now = this.#now()
    const { sinceMs, warnedMs } = this.#failures.get(kind) ?? { sinceMs: now, warnedMs: Number.NEGATIVE_INFINITY }
    if (now - warnedMs < REPEAT_MS) return
    this.#failures.set(kind, { sinceMs, warnedMs: now })
    const type = TYPES[kind]
    this.#log.error('Failed to watch', {
      error: `failed to list ${type}: ${error.message}`,
      type,
      code: error.code,
      forSeconds: Math.round((now - sinceMs) / 1000),
      retryMs,
    })
  }

  /** The server provides objects of this kind. */
  recovered(kind: ObjectKind): void {
    const failures = this.#failures.get(kind)
    if (failures === undefined) return
    this.#failures.delete(kind)
    const afterSeconds = Math.round((this.#now() - failures.sinceMs) / 1000)
    this.#log.info('Watch recovered', { type: TYPES[kind], afterSeconds })
  }
}
