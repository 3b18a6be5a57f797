/**
 * One listening socket: every port of this program is served by it. Opened, and tried again for as long as somebody else
 * has the port.
 * What could break: anybody who reaches the node may connect. Headers, bodies, times and connections are bounded here,
 * once for all ports; what a request is, Node's parser decides, strictly (no bare line feeds, no two lengths).
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type Answering, type HttpAnswer, type HttpRequest, splitTarget, textAnswer } from './http-answer.ts'
import { HttpConnections } from './http-connections.ts'

export interface HttpListenerOptions {
  /** An address of this node, 0.0.0.0 for all IPv4 ones, :: for all IPv6 ones. */
  readonly address: string
  readonly port: number
  /** Whether 0.0.0.0 and :: stand for all addresses of both families, as in Go. */
  readonly bothFamilies?: boolean
  /** Asked at each request. What it throws is answered with 500. */
  readonly answer: Answering
  readonly onOpen?: () => void
  /** It could not be opened, for the `attempts`th time in a row. */
  readonly onFailure: (error: NodeJS.ErrnoException, attempts: number) => void
  /** How long to wait after the `attempts`th failure in a row. */
  readonly retryMs: (attempts: number) => number
  /** An answer could not be made. */
  readonly onError?: (error: unknown) => void
  /** Other bounds than the usual ones, for tests. */
  readonly limits?: Partial<HttpLimits>
}

/** Bounds for one listener; times in milliseconds. */
export interface HttpLimits {
  readonly headerBytes: number
  /** For all headers of a request, and for the whole of it. */
  readonly headersMs: number
  readonly requestMs: number
  /** Nothing sent and nothing taken for so long: a client that does not read its answer. */
  readonly silenceMs: number
  /** Between two requests; longer than load balancers wait between two checks, so that they find their connection open. */
  readonly keepAliveMs: number
  /** How often the times above are looked after. */
  readonly checkMs: number
  readonly connections: number
  readonly pipelined: number
}

const HTTP_LIMITS: HttpLimits = {
  headerBytes: 16_384,
  headersMs: 10_000,
  requestMs: 15_000,
  silenceMs: 30_000,
  keepAliveMs: 75_000,
  checkMs: 5_000,
  connections: 64,
  pipelined: 4,
}

/** Of a body that somebody reads, and of one that is thrown away before the connection is. */
const READ_BYTES = 4096
const IGNORED_BYTES = 65_536
/** Go's server sends longer answers in chunks, without their length. */
const CHUNKED_FROM_BYTES = 2049
/** The kernel has no IPv6. */
const NO_IPV6: ReadonlySet<string | undefined> = new Set(['EAFNOSUPPORT', 'EADDRNOTAVAIL', 'EINVAL'])
const ALL_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

export class HttpListener {
  readonly #options: HttpListenerOptions
  readonly #server: Server
  #retryTimer: NodeJS.Timeout | undefined
  #attempts = 0
  #closed = false
  #onlyIpv4 = false

  constructor(options: HttpListenerOptions) {
    this.#options = options
    const limits = { ...HTTP_LIMITS, ...options.limits }
    const connections = new HttpConnections(limits)
    const onRequest = respondWith(options, connections, limits)
    this.#server = createServer(
      {
        maxHeaderSize: limits.headerBytes,
        headersTimeout: limits.headersMs,
        requestTimeout: limits.requestMs,
        keepAliveTimeout: limits.keepAliveMs,
        connectionsCheckingInterval: limits.checkMs,
      },
      onRequest,
    )
    this.#server.timeout = limits.silenceMs
    this.#server.on('connection', (socket) => connections.add(socket))
    // Who asks before sending a body has his answer without it; what he sends then is no request.
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      response.shouldKeepAlive = false
      onRequest(request, response)
    })
    this.#server.on('listening', () => this.#opened())
    this.#server.on('error', (error) => this.#failed(error))
  }

  /** Starts to listen, now or when it becomes possible. */
  open(): void {
    const { address, port, bothFamilies = false } = this.#options
    const all = bothFamilies && ALL_ADDRESSES.has(address)
    const host = all ? (this.#onlyIpv4 ? '0.0.0.0' : '::') : address
    this.#server.listen({ host, port, ipv6Only: !all, exclusive: true })
  }

  /** Where it listens, when `port` was 0; undefined while it does not. */
  get port(): number | undefined {
    const address = this.#server.address()
    return typeof address === 'object' ? address?.port : undefined
  }

  /** The socket and all its connections are closed when this returns. */
  close(): void {
    this.#closed = true
    clearTimeout(this.#retryTimer)
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #opened(): void {
    // It was closed while it was about to listen.
    if (this.#closed) this.#server.close()
    else {
      this.#attempts = 0
      this.#options.onOpen?.()
    }
  }

  #failed(error: NodeJS.ErrnoException): void {
    if (this.#closed) return
    const { bothFamilies, address, onFailure, retryMs } = this.#options
    if (bothFamilies === true && address === '0.0.0.0' && !this.#onlyIpv4 && NO_IPV6.has(error.code)) {
      this.#onlyIpv4 = true
      this.open()
      return
    }
    onFailure(error, ++this.#attempts)
    // Whoever heard of it may have given up.
    if (!this.#closed) this.#retryTimer = setTimeout(() => this.open(), retryMs(this.#attempts))
  }
}

const BAD_REQUEST = textAnswer('400 Bad Request', 400)

type OnRequest = (request: IncomingMessage, response: ServerResponse) => void

function respondWith(options: HttpListenerOptions, connections: HttpConnections, limits: HttpLimits): OnRequest {
  const { answer, onError } = options
  const failed = (error: unknown): HttpAnswer => {
    onError?.(error)
    return { status: 500, headers: [['Content-Type', 'text/plain; charset=utf-8']], body: 'Internal Server Error\n' }
  }
  return (request, response) => {
    const { socket } = request
    if (!connections.asked(socket)) return
    response.once('close', () => connections.answered(socket))
    boundBody(request, response)
    // Node's parser takes the requests of 1991 too.
    if (request.httpVersionMajor !== 1) {
      response.shouldKeepAlive = false
      send(response, BAD_REQUEST)
      return
    }
    const asked = new AskedRequest(request, response)
    const result = attempt(() => answer(asked), failed)
    if (!(result instanceof Promise)) {
      asked.ignoreBody()
      send(response, result)
      return
    }
    // An answer that takes its time is no silence of the client's.
    socket.setTimeout(0)
    void result.catch(failed).then((made) => {
      socket.setTimeout(limits.silenceMs)
      asked.ignoreBody()
      send(response, made)
    })
  }
}

function attempt<T>(make: () => T, failed: (error: unknown) => T): T {
  try {
    return make()
  } catch (error) {
    return failed(error)
  }
}

/** A connection on which too much is sent ends with its answer, at the latest. */
function boundBody(request: IncomingMessage, response: ServerResponse): void {
  if (Number(request.headers['content-length'] ?? 0) > IGNORED_BYTES) response.shouldKeepAlive = false
  let received = 0
  request.on('data', (chunk: Buffer) => {
    received += chunk.length
    if (received > IGNORED_BYTES) request.socket.destroySoon()
  })
  request.on('error', () => undefined)
  // Until somebody wants it.
  request.pause()
}

class AskedRequest implements HttpRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly #request: IncomingMessage
  readonly #response: ServerResponse

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request
    this.#response = response
    this.method = request.method ?? ''
    const { path, query } = splitTarget(request.url ?? '')
    this.path = path
    this.query = query
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name]
    return typeof value === 'object' ? value.join(', ') : value
  }

  get signal(): AbortSignal {
    const gone = new AbortController()
    if (this.#response.destroyed) gone.abort()
    else this.#response.once('close', () => gone.abort())
    return gone.signal
  }

  async readBody(): Promise<string> {
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of this.#request) {
      chunks.push(chunk)
      length += chunk.length
      if (length > READ_BYTES) throw new Error('the body is too long')
    }
    return Buffer.concat(chunks).toString()
  }

  /** Whatever comes with the request is no use any more. */
  ignoreBody(): void {
    this.#request.resume()
  }
}

function send(response: ServerResponse, { status, headers, guessedType, body }: HttpAnswer): void {
  if (response.destroyed) return
  // kube-proxy says nothing of a connection that stays open; Node would.
  if (response.shouldKeepAlive) response.removeHeader('Connection')
  const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
  const all = [...headers, ['Date', new Date().toUTCString()]]
  if (bytes < CHUNKED_FROM_BYTES) all.push(['Content-Length', String(bytes)])
  if (guessedType !== undefined) all.push(['Content-Type', guessedType])
  response.writeHead(status, all.flat())
  response.end(body)
}
