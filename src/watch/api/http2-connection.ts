/**
 * One connection of HTTP/2: requests and watches side by side. While one of them is open and
 * nothing arrives, the server is asked for a sign of life, as client-go does: a load balancer may
 * keep a connection open whose server is dead, and a quiet watch looks the same.
 * @impure
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2'
import type { Socket } from 'node:net'
import { ApiError } from './api-error.ts'
import type { HttpResponse, RequestOptions } from './http-request.ts'

/** In milliseconds. The defaults are those of client-go. */
export interface PingTimes {
  /** A silence after which a ping is sent. Default 30,000. */
  readonly silenceMs: number
  /** Longest wait for its answer. Default 15,000. */
  readonly answerMs: number
}

const PING_TIMES: PingTimes = { silenceMs: 30_000, answerMs: 15_000 }
/** A timer that is so late has stood still with the process, so the answer may be waiting to be read. */
const LATE_MS = 1000
const LATE_ANSWER_MS = 5000
/** A server that lives answers a ping sooner. */
const SLOW_ANSWER_MS = 1000
/** Bytes that the server may send ahead: of one answer, and of all together. */
const STREAM_WINDOW = 1024 * 1024
const WINDOW = 8 * 1024 * 1024
/** Of the engine's counter for everything that a connection buffers, in MB. */
const MAX_MEMORY = 64

export interface Http2ConnectionOptions {
  /** The URL of the server, without a path. */
  readonly origin: string
  /** The server is dead. Its open requests have failed when this is called. @param requests how many there were */
  readonly onDead?: ((silentMs: number, requests: number) => void) | undefined
  readonly times?: Partial<PingTimes> | undefined
}

export class Http2Connection {
  readonly #session: ClientHttp2Session
  readonly #socket: Socket
  readonly #options: Http2ConnectionOptions
  readonly #times: PingTimes
  /** Requests whose answer has not ended. */
  #open = 0
  /** When something arrived last, as far as is known; before that, when the first request began. */
  #heardMs = 0
  #timer: NodeJS.Timeout | undefined
  /** When the ping was sent that is not answered. */
  #pingedMs: number | undefined
  /** A request has had no answer in time, and nothing has shown since that the server lives. */
  #isDoubted = false

  /** @param socket connected, and with a finished handshake */
  constructor(socket: Socket, options: Http2ConnectionOptions) {
    this.#socket = socket
    this.#options = options
    this.#times = { ...PING_TIMES, ...options.times }
    this.#session = connect(options.origin, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
      maxSessionMemory: MAX_MEMORY,
    })
    // Node emits it on a session that was destroyed meanwhile, too.
    this.#session.once('connect', () => {
      if (!this.isClosed) this.#session.setLocalWindowSize(WINDOW)
    })
    // Each request gets its own error.
    this.#session.on('error', () => undefined)
    this.#session.once('close', () => clearTimeout(this.#timer))
  }

  /**
   * Whether the server speaks HTTP/2, which its first frame shows. Rejects with `api-reset` when it
   * closes the connection without a word, with the reason of the abort, or with Node's own error.
   * Called at once.
   */
  isSpoken(signal: AbortSignal): Promise<boolean> {
    const session = this.#session
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    let cause: unknown = new ApiError('api-reset', 'the server closed the connection')
    session.once('remoteSettings', () => resolve(true))
    session.once('error', (error) => {
      cause = error
    })
    session.once('close', () => {
      if (this.#socket.bytesRead > 0) resolve(false)
      else reject(cause)
    })
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    // Node keeps a signal with a listener as long as those that it was made of, here the process's.
    return promise.finally(() => signal.removeEventListener('abort', onAbort))
  }

  /**
   * Whether it takes new requests. A server that is about to end has said so, and one that may be
   * dead gets no more.
   */
  get isUsable(): boolean {
    const isSlow = this.#pingedMs !== undefined && performance.now() - this.#pingedMs > SLOW_ANSWER_MS
    return !this.isClosed && !this.#session.closed && !this.#isDoubted && !isSlow
  }

  get isClosed(): boolean {
    return this.#session.destroyed
  }

  get isIdle(): boolean {
    return this.#open === 0
  }

  /**
   * The answer, as soon as its headers have arrived. Rejects with Node's own error, or with the
   * reason of the abort.
   * @param onStart gets the function that ends the request with an error
   */
  request(
    { method, path, headers, body, signal }: RequestOptions,
    onStart: (giveUp: (error: Error) => void) => void,
  ): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const stream = this.#session.request(
        { ...headers, ':method': method, ':path': path },
        { endStream: body === undefined },
      )
      const end = (error: unknown): void => endStream(stream, error)
      const onAbort = (): void => end(signal.reason)
      this.#began()
      signal.addEventListener('abort', onAbort, { once: true })
      stream.once('close', () => {
        this.#ended()
        signal.removeEventListener('abort', onAbort)
        reject(new ApiError('api-reset', 'the server closed the request without an answer'))
      })
      stream.once('response', (received) => {
        this.#heard()
        resolve(new Http2Response(stream, received, () => this.#heard()))
      })
      // The listener stays: the reader of the body gets a later error itself.
      stream.on('error', reject)
      onStart(end)
      if (body !== undefined) stream.end(body)
    })
  }

  /** A request has had no answer in time: asks at once whether the server lives. */
  doubt(): void {
    this.#isDoubted = true
    if (this.#pingedMs === undefined) this.#ping()
  }

  /** Takes no more requests, and closes after the last answer. */
  retire(): void {
    this.#session.close()
  }

  /** Ends all requests. */
  close(error?: Error): void {
    this.#session.destroy(error)
    this.#socket.destroy()
  }

  #began(): void {
    this.#open++
    if (this.#open > 1) return
    this.#heard()
    this.#wait()
  }

  #ended(): void {
    this.#open--
    if (this.#open === 0 && this.#pingedMs === undefined) clearTimeout(this.#timer)
  }

  #heard(): void {
    this.#heardMs = performance.now()
  }

  /** Looks again when the silence would be long enough. */
  #wait(): void {
    clearTimeout(this.#timer)
    const leftMs = this.#times.silenceMs - (performance.now() - this.#heardMs)
    this.#timer = setTimeout(
      () => {
        if (performance.now() - this.#heardMs < this.#times.silenceMs) this.#wait()
        else this.#ping()
        // It may have run out since it was compared, and Node warns of negative times.
      },
      Math.max(0, leftMs),
    ).unref()
  }

  #ping(): void {
    if (this.isClosed) return
    this.#pingedMs = performance.now()
    this.#session.ping((error) => {
      if (error !== null) return
      this.#pingedMs = undefined
      this.#isDoubted = false
      this.#heard()
      clearTimeout(this.#timer)
      if (this.#open > 0) this.#wait()
    })
    this.#awaitAnswer(this.#times.answerMs)
  }

  #awaitAnswer(waitMs: number): void {
    clearTimeout(this.#timer)
    const dueMs = performance.now() + waitMs
    this.#timer = setTimeout(() => {
      if (performance.now() - dueMs > LATE_MS) this.#awaitAnswer(LATE_ANSWER_MS)
      else this.#died()
    }, waitMs).unref()
  }

  #died(): void {
    const silentMs = performance.now() - this.#heardMs
    const requests = this.#open
    const seconds = Math.round(silentMs / 1000)
    this.close(
      new ApiError(
        'api-dead',
        `the connection is dead: nothing arrived for ${seconds} s, not even the answer to a ping`,
      ),
    )
    if (requests > 0) this.#options.onDead?.(silentMs, requests)
  }
}

function endStream(stream: ClientHttp2Stream, error: unknown): void {
  if (stream.destroyed) return
  stream.close(constants.NGHTTP2_CANCEL)
  stream.destroy(error instanceof Error ? error : undefined)
}

class Http2Response implements HttpResponse {
  readonly isPinged = true
  readonly statusCode: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly #stream: ClientHttp2Stream
  readonly #onData: () => void

  constructor(
    stream: ClientHttp2Stream,
    headers: IncomingHttpHeaders & { readonly ':status'?: number | undefined },
    onData: () => void,
  ) {
    this.#stream = stream
    this.headers = headers
    this.statusCode = headers[':status']
    this.#onData = onData
  }

  destroy(error?: Error): void {
    endStream(this.#stream, error)
  }

  /** No generator, whose variables would keep the last chunk while it waits for the next one. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer, undefined, undefined> {
    const stream = this.#stream
    const chunks = (stream as AsyncIterable<Buffer, undefined>)[Symbol.asyncIterator]() // no text encoding is set
    return {
      next: async () => {
        const next = await chunks.next()
        if (next.done !== true) this.#onData()
        // Node ends the body of a request that the server has cancelled as if it were complete.
        else if (stream.aborted || stream.rstCode !== constants.NGHTTP2_NO_ERROR)
          throw new ApiError('api-reset', `the server cancelled the answer (code ${stream.rstCode} of HTTP/2)`)
        return next
      },
      return: async () => {
        await chunks.return?.()
        return { done: true, value: undefined }
      },
    }
  }
}
