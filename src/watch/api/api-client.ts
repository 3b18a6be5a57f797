/**
 * Requests to the API server over one connection pool: pages of a list, watches as parsed events,
 * and writes of small objects. Every failure is thrown as an ApiError or CodedError, so callers
 * never inspect Node's errors. A new pool replaces the current one only when server, proxy or TLS
 * material changed; streams of the old pool continue.
 * @impure
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CodedError } from '../../values/errors.ts'
import { type Access, type AccessProvider, tlsFingerprint } from './access.ts'
import { ApiError, connectionError, parseRetryAfter, statusError } from './api-error.ts'
import { ACCEPT_GZIP, decoded } from './content-coding.ts'
import { acceptHeader, encodingOf, JSON_TYPE, PROTOBUF_TYPE } from './encodings.ts'
import { HttpPool, type HttpPoolOptions, type RequestObserver } from './http-pool.ts'
import type { HttpResponse } from './http-request.ts'
import { readBody, silence } from './response-body.ts'
import { sharedLookup } from './shared-lookup.ts'
import { isObject } from '../objects/findings.ts'

export interface ApiClientOptions {
  readonly access: AccessProvider
  /** `kube-ipvs/VERSION` */
  readonly userAgent: string
  /** `clientConnection` of the configuration. Default protobuf, with JSON for servers without protobuf. */
  readonly contentType?: string
  readonly acceptContentTypes?: string
  /** Asks for the metadata of objects only; a server that does not know them sends whole objects. Always JSON. */
  readonly metadataOnly?: boolean
  readonly observer?: RequestObserver | undefined
  /** Longest wait for a connection, in milliseconds; default 10,000. */
  readonly connectTimeoutMs?: number
  /** Longest wait for credentials, and again for the headers of the answer, in milliseconds; default 30,000. */
  readonly headersTimeoutMs?: number
  /** See HttpPoolOptions. */
  readonly onDead?: HttpPoolOptions['onDead']
  readonly http2?: HttpPoolOptions['http2']
  readonly pingTimes?: HttpPoolOptions['pingTimes']
}

export interface ListPage {
  readonly items: readonly unknown[]
  readonly resourceVersion: unknown
  /** Token of the next page; '' after the last. */
  readonly continueToken: string
}

export interface WatchOptions {
  readonly signal: AbortSignal
  /**
   * A watch without data for so long counts as dead; in milliseconds, called before each wait.
   * @param isPinged a dead connection is noticed sooner by other means
   */
  readonly inactivityMs: (isPinged: boolean) => number
}

/** The body of a write, and its encoding. */
export interface Content {
  readonly contentType: string
  readonly body: string
}

interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly query?: Query
  readonly content?: Content
  /** Default: `#accept`. */
  readonly accept?: string
  readonly signal: AbortSignal
}

/** Query parameters in the order they are sent. */
export type Query = Readonly<Record<string, string>>

/** Enough for a whole list. V8 strings end at 512 MiB. */
const MAX_BODY_BYTES = 384 * 1024 * 1024
/** Of a list with `limit`: the objects of a page are in memory all at once. The caller may ask for fewer. */
const MAX_PAGE_BYTES = 32 * 1024 * 1024
/** Longest pause within the body of a page. */
const LIST_SILENCE_MS = 30_000
/** How much of a watch is decoded before its events are handed out. */
const PORTION_BYTES = 32 * 1024
const NO_BYTES = Buffer.alloc(0)
/** Longest body of an error, which is a Status object. */
const MAX_ERROR_BYTES = 64 * 1024
/** The server answers a write with the written object; etcd takes objects of up to 1.5 MiB. */
const MAX_WRITTEN_BYTES = 8 * 1024 * 1024

export class ApiClient {
  readonly #options: ApiClientOptions
  readonly #pools = new Set<HttpPool>()
  #current: { readonly fingerprint: string; readonly pool: HttpPool } | undefined
  readonly #lookup = sharedLookup()
  #accept: string
  /** The API server wants another type for a list than for a watch (metav1 PartialObjectMetadataList). */
  #acceptList: string

  constructor(options: ApiClientOptions) {
    this.#options = options
    const { contentType, acceptContentTypes = '', metadataOnly = false } = options
    this.#accept = metadataOnly
      ? metadataTypes('PartialObjectMetadata')
      : acceptHeader(contentType || PROTOBUF_TYPE, acceptContentTypes)
    this.#acceptList = metadataOnly ? metadataTypes('PartialObjectMetadataList') : this.#accept
  }

  async list(path: string, query: Query, signal: AbortSignal): Promise<ListPage> {
    const response = await this.#request({ method: 'GET', path, query, accept: this.#acceptList, signal })
    const maxBytes = query['limit'] === undefined ? MAX_BODY_BYTES : MAX_PAGE_BYTES
    const body = await readBody(response, maxBytes, LIST_SILENCE_MS)
    this.#received('GET', body)
    const json = encodingOf(response.headers['content-type'] ?? '').parse(body, 'list')
    const metadata = isObject(json) && isObject(json['metadata']) ? json['metadata'] : {}
    const items = isObject(json) ? (json['items'] ?? []) : undefined
    if (!Array.isArray(items)) throw new ApiError('api-bad-response', 'the answer to a list request is not a list')
    const token = metadata['continue']
    return {
      items,
      resourceVersion: metadata['resourceVersion'],
      continueToken: typeof token === 'string' ? token : '',
    }
  }

  /**
   * The events of a watch in the form that their JSON has, in arrays, each of which is emptied when
   * the next one is asked for. The first array is empty and says that the server accepted the
   * watch. Returns when the server ends the stream; `api-reset` when it ends within an event.
   */
  async *watch(path: string, query: Query, options: WatchOptions): AsyncGenerator<readonly unknown[], void, undefined> {
    const response = await this.#request({ method: 'GET', path, query, signal: options.signal })
    const stream = encodingOf(response.headers['content-type'] ?? '').openStream()
    const chunks = response[Symbol.asyncIterator]()
    const isPinged = response.isPinged === true
    try {
      yield []
      for (;;) {
        const late = setTimeout(() => response.destroy(silence()), options.inactivityMs(isPinged))
        // Nothing of an earlier chunk is left in a variable while this waits, which may be for minutes.
        let chunk = await chunks
          .next()
          .then(({ done, value }) => (done === true ? undefined : value))
          .catch((error: unknown) => {
            throw connectionError(error, options.signal)
          })
          .finally(() => clearTimeout(late))
        if (chunk === undefined) break
        // The chunks of a list have up to a megabyte, whose events would all be in memory at once.
        while (chunk.length > 0) {
          const events = stream.push(chunk.subarray(0, PORTION_BYTES))
          chunk = chunk.subarray(PORTION_BYTES)
          if (events.length > 0) yield events
          events.length = 0
        }
        chunk = NO_BYTES
      }
    } finally {
      response.destroy()
    }
    if (stream.pendingBytes > 0) throw new ApiError('api-reset', 'the connection ended in the middle of a watch event')
  }

  /** Creates or patches an object. The object in the answer is ignored. */
  async write(method: 'POST' | 'PATCH', path: string, content: Content, signal: AbortSignal): Promise<void> {
    const response = await this.#request({ method, path, content, signal })
    this.#received(method, await readBody(response, MAX_WRITTEN_BYTES, this.#headersTimeoutMs))
  }

  /** The server refused the credentials: the next request gets new ones. */
  invalidateCredentials(): void {
    this.#options.access.invalidate()
  }

  /** Aborts every request. */
  async close(): Promise<void> {
    for (const pool of this.#pools) pool.close()
    this.#pools.clear()
    this.#current = undefined
  }

  #received(method: string, body: Buffer): void {
    if (this.#current !== undefined) this.#options.observer?.received(method, this.#current.pool.host, body.length)
  }

  get #headersTimeoutMs(): number {
    return this.#options.headersTimeoutMs ?? 30_000
  }

  async #request(request: ApiRequest): Promise<HttpResponse> {
    const { method, path, query = {}, content, accept = this.#accept, signal } = request
    const access = await this.#access(signal)
    const url = new URL(access.server)
    const search = new URLSearchParams(query).toString()
    let response: HttpResponse
    try {
      const answer = await this.#pool(access, url).request({
        method,
        path: `${url.pathname.replace(/\/$/, '')}${path}${search && '?'}${search}`,
        headers: {
          accept,
          'user-agent': this.#options.userAgent,
          ...(method === 'GET' && access.disableCompression !== true ? ACCEPT_GZIP : {}),
          ...(content === undefined ? {} : { 'content-type': content.contentType }),
          ...access.headers,
        },
        ...(content === undefined ? {} : { body: content.body }),
        signal,
        headersTimeoutMs: this.#headersTimeoutMs,
      })
      response = decoded(answer)
    } catch (error) {
      throw connectionError(error, signal)
    }
    if (response.statusCode === 200 || response.statusCode === 201) return response
    if (response.statusCode === 406 && accept !== JSON_TYPE) {
      // A proxy on the way only accepts JSON, and does not pick it from our list. All later
      // requests ask for JSON alone.
      this.#accept = JSON_TYPE
      this.#acceptList = JSON_TYPE
      await readBody(response, MAX_ERROR_BYTES, this.#headersTimeoutMs).catch(() => {})
      return this.#request({ ...request, accept: JSON_TYPE })
    }
    throw await this.#refusal(response, signal)
  }

  /** Limited in time, because an exec plugin that provides the credentials may hang. */
  async #access(signal: AbortSignal): Promise<Access> {
    const deadline = new AbortController()
    const late = sleep(this.#headersTimeoutMs, undefined, { signal: AbortSignal.any([signal, deadline.signal]) }).then(
      () => {
        throw new CodedError('kubeconfig', `no credentials within ${this.#headersTimeoutMs} ms`)
      },
    )
    const access = this.#options.access.access()
    // The promise that loses the race may reject later, without a listener.
    access.catch(() => {})
    late.catch(() => {})
    try {
      return await Promise.race([access, late])
    } finally {
      deadline.abort()
    }
  }

  async #refusal(response: HttpResponse, signal: AbortSignal): Promise<ApiError> {
    const retryAfterMs = parseRetryAfter(response.headers['retry-after'], Date.now())
    let json: unknown
    try {
      const body = await readBody(response, MAX_ERROR_BYTES, this.#headersTimeoutMs)
      json = encodingOf(response.headers['content-type'] ?? '').parse(body, 'status')
    } catch {
      // A proxy answered with HTML, or the body is incomplete: the HTTP status is enough.
      if (signal.aborted) throw signal.reason
    }
    return statusError(json, { status: response.statusCode ?? 0, retryAfterMs })
  }

  #pool(access: Access, server: URL): HttpPool {
    const { proxyUrl } = access
    const fingerprint = JSON.stringify([access.server, proxyUrl, tlsFingerprint(access.tls)])
    if (this.#current?.fingerprint === fingerprint) return this.#current.pool
    const pool = new HttpPool({
      server,
      tls: access.tls,
      connectTimeoutMs: this.#options.connectTimeoutMs ?? 10_000,
      observer: this.#options.observer,
      lookup: this.#lookup,
      http2: this.#options.http2 ?? !process.env['DISABLE_HTTP2'],
      onDead: this.#options.onDead,
      pingTimes: this.#options.pingTimes,
      ...(proxyUrl === undefined ? {} : { proxyUrl }),
    })
    // Watches on the old pool end within ten minutes. Idle pools are dropped at the next change.
    this.#current?.pool.retire()
    for (const earlier of this.#pools) if (earlier.isIdle) this.#pools.delete(earlier)
    this.#pools.add(pool)
    this.#current = { fingerprint, pool }
    return pool
  }
}

/** The Accept header for metadata in JSON. Older servers ignore the parameters or choose the second type. */
function metadataTypes(kind: string): string {
  return `${JSON_TYPE};as=${kind};g=meta.k8s.io;v=v1,${JSON_TYPE}`
}
