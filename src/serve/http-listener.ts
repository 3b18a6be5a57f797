/**
 * One listening socket; every port of the program and its local socket use this class. It bounds
 * headers, bodies, times and connections, because any client that reaches the node can connect, and
 * retries while another program occupies the port. Written on node:http, whose strict parser and
 * limits it uses. No web framework, because every answer must have exactly the headers that Go
 * sends.
 * @impure
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type HttpAnswer, type Responder, textAnswer } from './http-answer.ts'
import { HttpConnections } from './http-connections.ts'
import { boundBody, ReceivedRequest } from './received-request.ts'

/** A port of the node, or a Unix socket. */
export type HttpPlace =
  | {
      /** An address of this node, 0.0.0.0 for all IPv4 ones, :: for all IPv6 ones. */
      readonly address: string
      readonly port: number
      /** Whether 0.0.0.0 and :: mean all addresses of both IP families, as in Go. */
      readonly bothFamilies?: boolean
    }
  | {
      /**
       * Of a Unix socket that only this user may use. No file may be there; the listener removes
       * the socket when it closes.
       */
      readonly path: string
    }

export type HttpListenerOptions = HttpPlace & {
  /** Called for each request. If it throws, the answer is 500. */
  readonly answer: Responder
  readonly onOpen?: () => void
  /** Called when the port could not be opened, for the `attempts`th time in a row. */
  readonly onFailure: (error: NodeJS.ErrnoException, attempts: number) => void
  /** Wait after the `attempts`th failure in a row. */
  readonly retryMs: (attempts: number) => number
  /** Called when `answer` has thrown. */
  readonly onError?: (error: unknown) => void
  /** Other limits than the default ones, for tests. */
  readonly limits?: Partial<HttpLimits>
}

/** Limits of one listener; times in milliseconds. */
export interface HttpLimits {
  readonly headerBytes: number
  /** Time to receive all headers of a request, and the whole request. */
  readonly headersMs: number
  readonly requestMs: number
  /** A connection on which no byte moves for this time is closed, such as one whose client does not read its answer. */
  readonly silenceMs: number
  /** Idle time between two requests; longer than the interval of load balancers, so that they can reuse connections. */
  readonly keepAliveMs: number
  /** How often headersMs and requestMs are checked; each check wakes the process, also while no connection is open. */
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
  checkMs: 15_000,
  connections: 64,
  pipelined: 4,
}

/** Go's server sends longer answers in chunks, without their length. */
const CHUNKED_FROM_BYTES = 2049
/** Errors of a kernel without IPv6. */
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
    // A client that sends `Expect: 100-continue` is answered without its body. The connection is
    // closed, so that a body that it sends anyway is not taken for a request.
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      response.shouldKeepAlive = false
      onRequest(request, response)
    })
    this.#server.on('listening', () => this.#opened())
    this.#server.on('error', (error) => this.#failed(error))
  }

  /** Starts listening, or retries until that is possible. */
  open(): void {
    if ('path' in this.#options) {
      this.#listenAtPath(this.#options.path)
      return
    }
    const { address, port, bothFamilies = false } = this.#options
    const all = bothFamilies && ALL_ADDRESSES.has(address)
    const host = all ? (this.#onlyIpv4 ? '0.0.0.0' : '::') : address
    this.#server.listen({ host, port, ipv6Only: !all, exclusive: true })
  }

  /** Binding happens inside the call, so the mask is in force for nothing else. */
  #listenAtPath(path: string): void {
    const mask = process.umask(0o177)
    try {
      this.#server.listen({ path, exclusive: true })
    } finally {
      process.umask(mask)
    }
  }

  /** The port it listens on, also if the option was 0; undefined while it does not listen. */
  get port(): number | undefined {
    const address = this.#server.address()
    return typeof address === 'object' ? address?.port : undefined
  }

  /** Closes the socket and all its connections before it returns. */
  close(): void {
    this.#closed = true
    clearTimeout(this.#retryTimer)
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #opened(): void {
    // close() was called before the socket was open.
    if (this.#closed) this.#server.close()
    else {
      this.#attempts = 0
      this.#options.onOpen?.()
    }
  }

  #failed(error: NodeJS.ErrnoException): void {
    // A connection that the kernel cannot make now (ENFILE, ENOMEM) leaves the server as it is.
    if (this.#closed || this.#server.listening) return
    const { onFailure, retryMs } = this.#options
    const isAll = 'address' in this.#options && this.#options.bothFamilies && this.#options.address === '0.0.0.0'
    if (isAll === true && !this.#onlyIpv4 && NO_IPV6.has(error.code)) {
      this.#onlyIpv4 = true
      this.open()
      return
    }
    onFailure(error, ++this.#attempts)
    // onFailure may have called close().
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
    if (!connections.beginRequest(socket)) return
    response.once('close', () => connections.endRequest(socket))
    boundBody(request, response)
    // Node's parser accepts HTTP/0.9 too.
    if (request.httpVersionMajor !== 1) {
      response.shouldKeepAlive = false
      send(response, BAD_REQUEST)
      return
    }
    const incoming = new ReceivedRequest(request, response)
    const result = attempt(() => answer(incoming), failed)
    if (!(result instanceof Promise)) {
      incoming.ignoreBody()
      send(response, result)
      return
    }
    // The silence limit is for clients, not for an answer that takes long.
    socket.setTimeout(0)
    void result.catch(failed).then((made) => {
      socket.setTimeout(limits.silenceMs)
      incoming.ignoreBody()
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

function send(response: ServerResponse, { status, headers, guessedType, body }: HttpAnswer): void {
  if (response.destroyed) return
  // Node adds `Connection: keep-alive`, kube-proxy does not.
  if (response.shouldKeepAlive) response.removeHeader('Connection')
  const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
  const all = [...headers, ['Date', new Date().toUTCString()]]
  if (bytes < CHUNKED_FROM_BYTES) all.push(['Content-Length', String(bytes)])
  if (guessedType !== undefined) all.push(['Content-Type', guessedType])
  response.writeHead(status, all.flat())
  response.end(body)
}
