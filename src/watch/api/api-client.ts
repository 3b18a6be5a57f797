/**
 * Requests to the API server over one shared connection pool: pages of a list, watches as parsed events, and
 * small objects written.
 * What could break: every failure leaves here as an ApiError or CodedError, so that callers never look into Node's; and the
 * pool is rebuilt only when the TLS material changed, while streams on the old one live on.
 */
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { CodedError } from '../../values/errors.ts'
import { ApiError, parseRetryAfter, statusError } from './api-error.ts'
import { acceptHeader, encodingOf, JSON_TYPE, PROTOBUF_TYPE } from './encodings.ts'
import { isObject } from '../objects/findings.ts'
import { sharedLookup } from './host-lookup.ts'
import { HttpPool, type RequestObserver } from './http-pool.ts'
import type { Access } from './kube-config.ts'
import { tlsFingerprint } from './tls-material.ts'

/** Where requests get their credentials from. */
export interface AccessProvider {
  access(): Promise<Access>
  invalidate(): void
}

export interface ApiClientOptions {
  readonly access: AccessProvider
  /** `kube-ipvs/VERSION` */
  readonly userAgent: string
  /** `clientConnection` of the configuration. Default protobuf, with JSON where a server does not speak it. */
  readonly contentType?: string
  readonly acceptContentTypes?: string
  readonly observer?: RequestObserver | undefined
  /** Longest wait for a connection, for credentials and for the answer's headers, in milliseconds. Defaults 10,000 and 30,000. */
  readonly connectTimeoutMs?: number
  readonly headersTimeoutMs?: number
}

export interface ListPage {
  readonly items: readonly unknown[]
  readonly resourceVersion: unknown
  /** Token of the next page; '' after the last. */
  readonly continueToken: string
}

export interface WatchOptions {
  readonly signal: AbortSignal
  /** A connection that brings nothing for so long is taken for dead; in milliseconds, asked before each wait. */
  readonly inactivityMs: () => number
}

/** What is written, and in which of the API's encodings. */
export interface Content {
  readonly contentType: string
  readonly body: string
}

interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly query?: Query
  readonly content?: Content
  readonly signal: AbortSignal
}

/** Query parameters in the order they are sent. */
export type Query = Readonly<Record<string, string>>

/** A page of 500 objects, or the whole list when a server ignores `limit`. V8 makes no text above 512 MiB. */
const MAX_BODY_BYTES = 384 * 1024 * 1024
/** As long as nothing of a page may come. */
const LIST_SILENCE_MS = 30_000
/** An error's Status object. */
const MAX_ERROR_BYTES = 64 * 1024
/** What was written comes back: etcd takes 1.5 MiB. */
const MAX_WRITTEN_BYTES = 8 * 1024 * 1024

export class ApiClient {
  readonly #options: ApiClientOptions
  readonly #pools = new Set<HttpPool>()
  #current: { readonly fingerprint: string; readonly pool: HttpPool } | undefined
  readonly #lookup = sharedLookup()
  #accept: string

  constructor(options: ApiClientOptions) {
    this.#options = options
    this.#accept = acceptHeader(options.contentType || PROTOBUF_TYPE, options.acceptContentTypes ?? '')
  }

  /** One page of a list. */
  async list(path: string, query: Query, signal: AbortSignal): Promise<ListPage> {
    const response = await this.#request({ method: 'GET', path, query, signal })
    const body = await readBody(response, MAX_BODY_BYTES, LIST_SILENCE_MS)
    this.#received('GET', body)
    const json = encodingOf(response.headers['content-type'] ?? '').parse(body, 'list')
    const metadata = isObject(json) && isObject(json['metadata']) ? json['metadata'] : {}
    const items = isObject(json) ? (json['items'] ?? []) : undefined
    if (!Array.isArray(items)) throw new ApiError('api-bad-response', 'what came for a list is not a list')
    const token = metadata['continue']
    return {
      items,
      resourceVersion: metadata['resourceVersion'],
      continueToken: typeof token === 'string' ? token : '',
    }
  }

  /**
   * The events of a watch as their JSON parses, those that came in one piece of the stream together; none of them, first, when
   * the server accepts the watch. Ends when the server ends the stream; a stream that ends within an event is `api-reset`.
   */
  async *watch(path: string, query: Query, options: WatchOptions): AsyncGenerator<readonly unknown[], void, undefined> {
    const response = await this.#request({ method: 'GET', path, query, signal: options.signal })
    const stream = encodingOf(response.headers['content-type'] ?? '').openStream()
    const chunks = response[Symbol.asyncIterator]()
    try {
      // The server accepted the watch.
      yield []
      for (;;) {
        const late = setTimeout(() => response.destroy(silence()), options.inactivityMs())
        const next = await chunks
          .next()
          .catch((error: unknown) => {
            throw connectionError(error, options.signal)
          })
          .finally(() => clearTimeout(late))
        if (next.done === true) break
        const events = stream.push(next.value)
        if (events.length > 0) yield events
      }
    } finally {
      response.destroy()
    }
    if (stream.pendingBytes > 0) throw new ApiError('api-reset', 'the watch ended within an event')
  }

  /** Creates or patches an object; what the server makes of it does not count. */
  async write(method: 'POST' | 'PATCH', path: string, content: Content, signal: AbortSignal): Promise<void> {
    const response = await this.#request({ method, path, content, signal })
    this.#received(method, await readBody(response, MAX_WRITTEN_BYTES, this.#headersTimeoutMs))
  }

  /** The server refused our credentials: the next request gets new ones. */
  invalidateCredentials(): void {
    this.#options.access.invalidate()
  }

  /** Breaks every request that is on. */
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

  async #request(request: ApiRequest): Promise<IncomingMessage> {
    const { method, path, query = {}, content, signal } = request
    const access = await this.#access(signal)
    const url = new URL(access.server)
    const search = new URLSearchParams(query).toString()
    let response: IncomingMessage
    try {
      response = await this.#pool(access, url).request({
        method,
        path: `${url.pathname.replace(/\/$/, '')}${path}${search && '?'}${search}`,
        headers: {
          accept: this.#accept,
          'user-agent': this.#options.userAgent,
          ...(content === undefined ? {} : { 'content-type': content.contentType }),
          ...access.headers,
        },
        ...(content === undefined ? {} : { body: content.body }),
        signal,
        headersTimeoutMs: this.#headersTimeoutMs,
      })
    } catch (error) {
      throw connectionError(error, signal)
    }
    if (response.statusCode === 200 || response.statusCode === 201) return response
    if (response.statusCode === 406 && this.#accept !== JSON_TYPE) {
      // Something in between knows JSON only, and not how to choose.
      this.#accept = JSON_TYPE
      await readBody(response, MAX_ERROR_BYTES, this.#headersTimeoutMs).catch(() => {})
      return this.#request(request)
    }
    throw await this.#refusal(response, signal)
  }

  /** Credentials may come from a program that hangs. */
  async #access(signal: AbortSignal): Promise<Access> {
    const deadline = new AbortController()
    const late = sleep(this.#headersTimeoutMs, undefined, { signal: AbortSignal.any([signal, deadline.signal]) }).then(
      () => {
        throw new CodedError('kubeconfig', `no credentials within ${this.#headersTimeoutMs} ms`)
      },
    )
    const access = this.#options.access.access()
    // The loser of the race may reject later; nobody waits for it then.
    access.catch(() => {})
    late.catch(() => {})
    try {
      return await Promise.race([access, late])
    } finally {
      deadline.abort()
    }
  }

  async #refusal(response: IncomingMessage, signal: AbortSignal): Promise<ApiError> {
    const retryAfterMs = parseRetryAfter(response.headers['retry-after'], Date.now())
    let json: unknown
    try {
      const body = await readBody(response, MAX_ERROR_BYTES, this.#headersTimeoutMs)
      json = encodingOf(response.headers['content-type'] ?? '').parse(body, 'status')
    } catch {
      // A proxy in between answers with HTML, or the body breaks off: the status says enough.
      if (signal.aborted) throw signal.reason
    }
    return statusError(json, { status: response.statusCode ?? 0, retryAfterMs })
  }

  #pool(access: Access, server: URL): HttpPool {
    const { proxyUrl } = access
    const fingerprint = JSON.stringify([access.server, proxyUrl, tlsFingerprint(access.tls)])
    if (this.#current?.fingerprint === fingerprint) return this.#current.pool
    if (proxyUrl !== undefined && !/^https?:/.test(proxyUrl))
      throw new CodedError('kubeconfig', 'proxy-url: only http and https proxies are supported')
    const pool = new HttpPool({
      server,
      tls: access.tls,
      connectTimeoutMs: this.#options.connectTimeoutMs ?? 10_000,
      observer: this.#options.observer,
      lookup: this.#lookup,
      ...(proxyUrl === undefined ? {} : { proxyUrl }),
    })
    // Streams of the one before end within ten minutes; it is forgotten at the next change after that.
    this.#current?.pool.retire()
    for (const earlier of this.#pools) if (earlier.isIdle) this.#pools.delete(earlier)
    this.#pools.add(pool)
    this.#current = { fingerprint, pool }
    return pool
  }
}

/** The whole body. `silenceMs`: so long may nothing of it come. */
async function readBody(response: IncomingMessage, maxBytes: number, silenceMs: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  const late = setTimeout(() => response.destroy(silence()), silenceMs)
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      // no encoding is set
      late.refresh()
      bytes += chunk.length
      if (bytes > maxBytes)
        throw new ApiError('api-body-too-large', `the API server sent more than ${maxBytes} bytes for one answer`)
      chunks.push(chunk)
    }
  } catch (error) {
    throw connectionError(error, undefined)
  } finally {
    clearTimeout(late)
  }
  return Buffer.concat(chunks)
}

const UNREACHABLE = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'])

function silence(): ApiError {
  return new ApiError('api-silent', 'nothing came from the API server in time')
}

/** What Node says of a connection, in our own terms; an abort stays what it is. */
function connectionError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted === true) return signal.reason
  if (error instanceof CodedError) return error
  const code = isObject(error) && typeof error['code'] === 'string' ? error['code'] : ''
  const message = error instanceof Error && error.message !== '' ? error.message : code || String(error)
  if (UNREACHABLE.has(code) || /^(ERR_TLS|CERT_|ERR_SSL|DEPTH_|SELF_|UNABLE_)/.test(code))
    return new ApiError('api-unreachable', message, { cause: error })
  return new ApiError('api-reset', message, { cause: error })
}
