/**
 * A small API server for tests and bench, over real HTTP or HTTPS on loopback: list, watch and
 * streaming list of Services, EndpointSlices and Nodes, writing of Events, and faults on request.
 * It answers as a recorded kube-apiserver 1.36 does; where it is simpler, a comment says so.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { ObjectKind } from '../../src/service/objects.ts'
import { Authorizer } from './authorizer.ts'
import { collectionOf } from './collections.ts'
import { acceptsGzip, compressed, GZIP_HEADER, inMembers } from './compression.ts'
import { answerEvent, EventStore } from './events.ts'
import { type Body, bodyOf, type Fault, type Verb } from './faults.ts'
import {
  API_VERSION,
  ApiStore,
  KIND_NAME,
  type Sendable,
  selectorOf,
  sentEvent,
  type Stored,
  type StoreEvent,
} from './store.ts'
import { breakOff, createListener } from './listener.ts'
import { refuse, status } from './status.ts'
import { type Wire, wireFor } from './wire.ts'

export interface ApiServerOptions {
  readonly store?: ApiStore
  /** Default 0: any free port. */
  readonly port?: number
  /** HTTPS with this certificate; with `clientCa` clients must show one that it signed. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly clientCa?: string }
  /** The accepted tokens, read at each request; absent: every client is accepted. */
  readonly tokens?: ReadonlySet<string>
  /** Time between bookmarks; default 60,000, as a real one. */
  readonly bookmarkMs?: number
  /** Whether it speaks HTTP/2 beside HTTP/1.1; default true. */
  readonly http2?: boolean
}

/** A request as it was received. */
export interface SeenRequest {
  readonly kind: ObjectKind | undefined
  readonly verb: Verb
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  /** The encoding of the answer; undefined when the client accepts none of ours. */
  readonly wire: Wire | undefined
  readonly atMs: number
}

/**
 * How a server answers `sendInitialEvents`: correctly, by ignoring it (older than 1.27), with 422
 * (gate off), or with an error in the stream (its etcd is too old).
 */
export type StreamingList = 'works' | 'ignored' | 'forbidden' | 'storage'

interface Watch {
  readonly body: Body
  readonly kind: ObjectKind
  /** Writes the events that were held. */
  release(): void
}

/** Bytes of one write: some hundred objects. */
const PIECE_BYTES = 256 * 1024

export class ApiServer {
  readonly store: ApiStore
  readonly events = new EventStore()
  readonly requests: SeenRequest[] = []
  readonly faults: { fault: Fault; left: number }[] = []
  streamingList: StreamingList = 'works'
  /** Whether it answers in protobuf when a client accepts that. */
  speaksProtobuf = true
  /** Whether it compresses long lists and streaming lists, as 1.37 does, for clients that accept gzip. */
  compresses = false
  /** What clients may do. */
  readonly authorizer = new Authorizer()
  /** Whether continue tokens have expired. */
  continueTokensExpire = false
  url = ''
  readonly #options: ApiServerOptions
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #closedBytes = 0
  readonly #watches = new Set<Watch>()
  #isHeld = false
  readonly #snapshots = new Map<string, { readonly items: readonly Stored[]; readonly version: number }>()

  constructor(options: ApiServerOptions = {}) {
    this.#options = options
    this.store = options.store ?? new ApiStore()
    const answer = (request: IncomingMessage, response: ServerResponse): void => void this.#answer(request, response)
    const { tls, http2 = true } = options
    this.#server = createListener({ tls, http2, answer })
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        this.#closedBytes += socket.bytesWritten
      })
      socket.on('error', () => {})
    })
    this.#server.on('tlsClientError', () => {})
  }

  /** Listens on loopback, or on another address of this network namespace, and returns the URL. */
  async listen(port = this.#options.port ?? 0, address = '127.0.0.1'): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, address, resolve)
    })
    const { port: bound } = this.#server.address() as AddressInfo
    this.url = `${this.#options.tls === undefined ? 'http' : 'https'}://${address.includes(':') ? `[${address}]` : address}:${bound}`
    return this.url
  }

  /** From now on events are encoded, but watches get them only from `release`, and then all at once. */
  hold(): void {
    this.#isHeld = true
  }

  release(): void {
    this.#isHeld = false
    for (const watch of this.#watches) watch.release()
  }

  /** Open watches. */
  get watchCount(): number {
    return this.#watches.size
  }

  /** Open TCP connections. */
  get connectionCount(): number {
    return this.#sockets.size
  }

  /** Bytes written to all connections so far, headers of HTTP included. */
  get bytesSent(): number {
    return [...this.#sockets].reduce((sum, socket) => sum + socket.bytesWritten, this.#closedBytes)
  }

  /** Applies the fault to the next request that it fits. */
  inject(fault: Fault): void {
    this.faults.push({ fault, left: fault.times ?? 1 })
  }

  /** Resets every connection. */
  resetConnections(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** Every watch stays open and sends nothing more. */
  freezeWatches(): void {
    for (const watch of this.#watches) watch.body.write = async () => true
  }

  /** Ends every watch regularly, as a server does after timeoutSeconds. */
  endWatches(): void {
    for (const watch of this.#watches) watch.body.end()
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {})
    const url = new URL(request.url ?? '/', 'http://server')
    const { kind, namespace } = collectionOf(url.pathname)
    const query = url.searchParams
    if (namespace !== '') query.set('fieldSelector', `metadata.namespace=${namespace}`)
    const written = EventStore.verbOf(request, url.pathname)
    const verb = written ?? (query.get('watch') === 'true' ? 'watch' : 'list')
    const wire = wireFor(request.headers.accept ?? '*/*', this.speaksProtobuf)
    this.requests.push({ kind, verb, query, headers: request.headers, wire, atMs: performance.now() })
    const { tokens } = this.#options
    const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1]
    if (tokens !== undefined && !tokens.has(token ?? ''))
      return refuse(response, wire, 401, 'Unauthorized', 'Unauthorized')
    const refusal = this.authorizer.refusalOf(request.method ?? '', url)
    if (refusal !== undefined) return refuse(response, wire, 403, 'Forbidden', refusal)
    if (kind === undefined && written === undefined)
      return refuse(response, wire, 404, 'NotFound', 'the server could not find the requested resource')
    if (wire === undefined) return refuse(response, wire, 406, 'NotAcceptable', 'only application/json is acceptable')
    const fault = this.#faultFor(kind, verb)
    switch (fault?.kind) {
      case 'status':
        if (fault.body === undefined)
          return refuse(response, wire, fault.status, 'InternalError', 'injected fault', {}, fault.headers)
        response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers })
        response.end(fault.body)
        return
      case 'reset':
        breakOff(response)
        return
      case 'hang':
        return
      case 'line':
        response.writeHead(200, { 'content-type': wire.streamContentType })
        response.end(wire.line(fault.line))
        return
      case 'slow':
        await new Promise((resolve) => setTimeout(resolve, fault.delayMs))
        break
      default:
        break
    }
    if (kind === undefined) {
      const { status: code, reason, object } = await this.events.write(request, url.pathname)
      if (fault?.kind === 'cut') breakOff(response)
      if (reason !== '') return refuse(response, wire, code, reason, 'not this event')
      return answerEvent(response, code, object)
    }
    const body = bodyOf(response, fault)
    const isCompressed = this.compresses && acceptsGzip(request.headers['accept-encoding'])
    if (verb === 'watch') await this.#watch(kind, query, response, body, wire, isCompressed)
    else await this.#list(kind, query, response, body, wire, isCompressed)
  }

  #faultFor(kind: ObjectKind | undefined, verb: Verb): Fault['action'] | undefined {
    const index = this.faults.findIndex(({ fault }) => (fault.kind ?? kind) === kind && (fault.verb ?? verb) === verb)
    const entry = this.faults[index]
    if (entry === undefined) return undefined
    entry.left--
    if (entry.left === 0) this.faults.splice(index, 1)
    return entry.fault.action
  }

  async #list(
    kind: ObjectKind,
    query: URLSearchParams,
    response: ServerResponse,
    body: Body,
    wire: Wire,
    isCompressed: boolean,
  ): Promise<void> {
    const limit = Number(query.get('limit') ?? 0)
    const token = query.get('continue')
    let start = 0
    let id = ''
    if (token !== null) {
      ;[id = '', start = 0] = decodeToken(token)
      if (!this.#snapshots.has(id)) {
        const message = 'invalid continue token: continue key is not valid'
        return refuse(response, wire, 400, 'BadRequest', message)
      }
      if (this.continueTokensExpire) {
        const message = 'The provided continue parameter is too old to display a consistent list result.'
        return refuse(response, wire, 410, 'Expired', message, { continue: token })
      }
    } else {
      const selects = selectorOf(query.get('labelSelector') ?? '', query.get('fieldSelector') ?? '')
      const items = [...this.store.objects[kind].values()].filter(selects)
      id = String(this.requests.length)
      this.#snapshots.set(id, { items, version: this.store.version })
    }
    const { items, version } = this.#snapshots.get(id) ?? { items: [], version: 0 }
    const page = limit > 0 ? items.slice(start, start + limit) : items.slice(start)
    const rest = items.length - start - page.length
    const metadata = {
      resourceVersion: String(version),
      ...(rest > 0 ? { continue: encodeToken(id, start + page.length), remainingItemCount: rest } : {}),
    }
    const plain = wire.list(API_VERSION[kind], KIND_NAME[kind], metadata, page)
    const zipped = isCompressed ? compressed(plain) : undefined
    const bytes = zipped ?? plain
    response.writeHead(200, { 'content-type': wire.contentType, ...(zipped === undefined ? {} : GZIP_HEADER) })
    for (let from = 0; from < bytes.length; from += PIECE_BYTES)
      if (!(await body.write(bytes.subarray(from, from + PIECE_BYTES)))) break
    body.end()
  }

  async #watch(
    kind: ObjectKind,
    query: URLSearchParams,
    response: ServerResponse,
    plainBody: Body,
    wire: Wire,
    isCompressed: boolean,
  ): Promise<void> {
    const initial = query.get('sendInitialEvents') === 'true' && this.streamingList !== 'ignored'
    if (initial && (query.get('resourceVersionMatch') !== 'NotOlderThan' || this.streamingList === 'forbidden')) {
      const message = 'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden'
      return refuse(response, wire, 422, 'Invalid', message)
    }
    const body = initial && isCompressed ? inMembers(plainBody) : plainBody
    response.writeHead(200, { 'content-type': wire.streamContentType, ...(body === plainBody ? {} : GZIP_HEADER) })
    response.flushHeaders()
    // A streaming list has the objects as they are now, which are not older than any version.
    const from = initial ? 0 : Number(query.get('resourceVersion') ?? 0)
    if (initial && this.streamingList === 'storage') {
      const message =
        'a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled'
      await body.write(wire.event('ERROR', status(500, 'InternalError', message)))
      return body.end()
    }
    if (from > 0 && from < this.store.compactedAt) {
      const message = `too old resource version: ${from} (${this.store.compactedAt})`
      await body.write(wire.event('ERROR', status(410, 'Expired', message)))
      return body.end()
    }
    await this.#stream(kind, query, response, body, wire, from, initial)
  }

  async #stream(
    kind: ObjectKind,
    query: URLSearchParams,
    response: ServerResponse,
    body: Body,
    wire: Wire,
    from: number,
    initial: boolean,
  ): Promise<void> {
    const selects = selectorOf(query.get('labelSelector') ?? '', query.get('fieldSelector') ?? '')
    // Events that happen while the first objects are being sent wait until those are sent.
    const waiting: Buffer[] = []
    let live = false
    const bytesOf = (event: StoreEvent): Buffer | undefined => {
      // As a real one: after a backup was restored, a watch from a version that is lost waits for it.
      const sent = event.kind === kind && event.version > from ? sentEvent(event, selects) : undefined
      return sent && wire.event(sent.type, sent.object)
    }
    const listener = (event: StoreEvent): void => {
      const bytes = bytesOf(event)
      if (bytes === undefined) return
      if (live && !this.#isHeld) void watch.body.write(bytes)
      else waiting.push(bytes)
    }
    const bookmarkNow = (endsInitialEvents: boolean, version = this.store.version): Buffer =>
      wire.event('BOOKMARK', bookmark(kind, version, endsInitialEvents))
    const watch: Watch = {
      body,
      kind,
      release: () => {
        if (live && waiting.length > 0) void watch.body.write(Buffer.concat(waiting.splice(0)))
      },
    }
    this.#watches.add(watch)
    this.store.listeners.add(listener)
    const bookmarks = setInterval(() => {
      // Its version may be that of an event that is held.
      const isDue = this.store.version >= from && !this.#isHeld
      if (query.get('allowWatchBookmarks') === 'true' && isDue) void watch.body.write(bookmarkNow(false))
    }, this.#options.bookmarkMs ?? 60_000)
    const end = setTimeout(() => watch.body.end(), Number(query.get('timeoutSeconds') ?? 1800) * 1000)
    response.on('close', () => {
      clearInterval(bookmarks)
      clearTimeout(end)
      this.store.listeners.delete(listener)
      this.#watches.delete(watch)
    })
    const version = this.store.version
    const first =
      from === 0
        ? [...this.store.objects[kind].values()].filter(selects).map((object) => wire.event('ADDED', object))
        : this.store.history.filter((event) => event.version > from).map(bytesOf)
    for (const piece of pieces(first.filter((bytes) => bytes !== undefined))) if (!(await body.write(piece))) return
    if (initial) await body.write(bookmarkNow(true, version))
    while (waiting.length > 0 && !this.#isHeld) await body.write(Buffer.concat(waiting.splice(0)))
    live = true
  }
}

function* pieces(events: readonly Buffer[]): Generator<Buffer, void, undefined> {
  let piece: Buffer[] = []
  let bytes = 0
  for (const event of events) {
    piece.push(event)
    bytes += event.length
    if (bytes < PIECE_BYTES) continue
    yield Buffer.concat(piece)
    piece = []
    bytes = 0
  }
  if (piece.length > 0) yield Buffer.concat(piece)
}

/** A bookmark as a real server sends it: an object of the kind with nothing but a version. */
function bookmark(kind: ObjectKind, version: number, endsInitialEvents: boolean): Sendable {
  const annotations = endsInitialEvents ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}
  const metadata = { resourceVersion: String(version), ...annotations }
  const rest = kind === 'endpointslices' ? { addressType: '', endpoints: null, ports: null } : { spec: {}, status: {} }
  const type = { kind: KIND_NAME[kind], apiVersion: API_VERSION[kind] }
  return { ...type, json: JSON.stringify({ ...type, metadata, ...rest }) }
}

function encodeToken(id: string, start: number): string {
  return Buffer.from(JSON.stringify([id, start])).toString('base64url')
}

function decodeToken(token: string): [string?, number?] {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(token, 'base64url').toString())
    return Array.isArray(parsed) ? [String(parsed[0]), Number(parsed[1])] : []
  } catch {
    return []
  }
}
