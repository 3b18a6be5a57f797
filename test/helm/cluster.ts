/**
 * As much of an API server as helm needs to install, test and remove a release: discovery, and
 * objects of a few kinds that are stored as they are sent. Jobs and Pods are finished as soon as
 * they are created. It listens on loopback.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { KubernetesObject } from './openapi.ts'

interface Kind {
  readonly kind: string
  readonly plural: string
  readonly namespaced: boolean
}

const kind = (name: string, namespaced = true): Kind => ({ kind: name, plural: `${name.toLowerCase()}s`, namespaced })

const GROUPS: Readonly<Record<string, readonly Kind[]>> = {
  v1: [
    kind('ConfigMap'),
    kind('Secret'),
    kind('Pod'),
    kind('ServiceAccount'),
    kind('Namespace', false),
    kind('Node', false),
  ],
  'apps/v1': [kind('DaemonSet')],
  'batch/v1': [kind('Job')],
  'rbac.authorization.k8s.io/v1': [kind('ClusterRole', false), kind('ClusterRoleBinding', false)],
}

interface Stored {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> }
  readonly [field: string]: unknown
}

const FINISHED: Readonly<Record<string, object>> = {
  jobs: { succeeded: 1, conditions: [{ type: 'Complete', status: 'True' }] },
  pods: { phase: 'Succeeded' },
}

export class Cluster {
  /** What was created, watched and deleted, in order: `POST jobs kube-ipvs-cleanup-x`. */
  readonly log: string[] = []
  /** Every object as it was sent when it was created. */
  readonly created: KubernetesObject[] = []
  readonly #objects = new Map<string, Stored>()
  readonly #server = createServer((request, response) => void this.#answer(request, response))
  readonly #watches = new Set<{ isWatched(path: string): boolean; send(type: string, object: object): void }>()
  #version = 0

  /** Listens and returns a kubeconfig as text. */
  async start(): Promise<string> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, '127.0.0.1', resolve)
    })
    const { port } = this.#server.address() as AddressInfo
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      users: [{ name: 'u', user: { token: 'none' } }],
    })
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => {
      this.#server.close(resolve)
    })
  }

  /** Stores an object that was there before, at its path. */
  add(path: string, more: object = {}): void {
    const name = path.split('/').at(-1) ?? ''
    const { apiVersion, kind } = placeOf(path) ?? {}
    this.#objects.set(path, { apiVersion, kind, metadata: { name }, ...more })
  }

  /** The objects of a kind, such as `daemonsets`. */
  objects(plural: string): readonly Stored[] {
    return [...this.#objects].flatMap(([path, object]) => (path.split('/').at(-2) === plural ? [object] : []))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const sent = Buffer.concat(chunks)
    const url = new URL(request.url ?? '', 'http://localhost')
    const send = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    // A document of OpenAPI without definitions, which is empty in protobuf: helm checks no object then.
    if (url.pathname === '/openapi/v2') {
      response.writeHead(200, { 'content-type': 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf' }).end()
      return
    }
    const discovered = discovery(url.pathname)
    if (discovered !== undefined) return send(200, discovered)
    const place = placeOf(url.pathname)
    if (place === undefined) return send(404, failure(404, 'NotFound'))
    const { plural, name } = place
    if (url.searchParams.get('watch') === 'true') return this.#watch(url, place, response)
    if (request.method === 'GET' && name === undefined) return send(200, this.#list(url, place))
    const body = bodyOf(sent)
    const path = name === undefined ? `${url.pathname}/${body.metadata.name}` : url.pathname
    const stored = this.#objects.get(path)
    if (request.method !== 'GET') this.log.push(`${request.method} ${plural} ${path.split('/').at(-1)}`)
    switch (request.method) {
      case 'POST':
        if (stored !== undefined) return send(409, failure(409, 'AlreadyExists'))
        if (isObject(body)) this.created.push(body)
        return send(201, this.#store(path, plural, body))
      case 'PUT':
        return send(200, this.#store(path, plural, body))
      case 'PATCH': {
        // helm 4 applies whole objects on the server; helm 3 sends what changed.
        const isApply = request.headers['content-type']?.startsWith('application/apply-patch') === true
        if (stored === undefined && isApply) this.created.push(...[body].filter(isObject))
        if (isApply) return send(stored === undefined ? 201 : 200, this.#store(path, plural, body))
        return stored === undefined
          ? send(404, failure(404, 'NotFound'))
          : send(200, this.#store(path, plural, merged(stored, body)))
      }
      case 'DELETE':
        if (stored !== undefined) this.#remove(path, stored)
        return stored === undefined
          ? send(404, failure(404, 'NotFound'))
          : send(200, { kind: 'Status', status: 'Success' })
      default:
        return stored === undefined ? send(404, failure(404, 'NotFound')) : send(200, stored)
    }
  }

  #store(path: string, plural: string, body: Stored): Stored {
    this.#version++
    const status = FINISHED[plural]
    const metadata = { ...body.metadata, uid: `${this.#version}`, resourceVersion: `${this.#version}` }
    const object = { ...body, metadata, ...(status === undefined ? {} : { status }) }
    this.#notify(this.#objects.has(path) ? 'MODIFIED' : 'ADDED', path, object)
    this.#objects.set(path, object)
    return object
  }

  #remove(path: string, object: Stored): void {
    this.#objects.delete(path)
    this.#notify('DELETED', path, object)
  }

  /** Sends the objects of a collection that a client watches, and what happens to them afterwards. */
  #watch(url: URL, { apiVersion, kind, plural }: Place, response: ServerResponse): void {
    const [, wanted] = /^metadata\.name=(.+)$/.exec(url.searchParams.get('fieldSelector') ?? '') ?? []
    this.log.push(`WATCH ${plural} ${wanted ?? ''}`)
    const isWatched = (path: string): boolean =>
      isIn(path, url.pathname) && (wanted === undefined || path.endsWith(`/${wanted}`))
    const send = (type: string, object: object): void => {
      response.write(`${JSON.stringify({ type, object })}\n`)
    }
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
    for (const [path, object] of this.#objects) if (isWatched(path)) send('ADDED', object)
    const metadata = { resourceVersion: `${this.#version}`, annotations: { 'k8s.io/initial-events-end': 'true' } }
    if (url.searchParams.has('sendInitialEvents')) send('BOOKMARK', { apiVersion, kind, metadata })
    this.#watches.add({ isWatched, send })
  }

  #notify(type: string, path: string, object: Stored): void {
    for (const { isWatched, send } of this.#watches) if (isWatched(path)) send(type, object)
  }

  #list(url: URL, { apiVersion, kind }: Place): object {
    const wanted = (url.searchParams.get('labelSelector') ?? '').split(',').filter((pair) => pair !== '')
    const items = [...this.#objects].flatMap(([path, object]) => {
      const { labels = {} } = object.metadata
      return isIn(path, url.pathname) &&
        wanted.every((pair) => labels[pair.split('=')[0] ?? ''] === pair.split('=').at(-1))
        ? [object]
        : []
    })
    return { apiVersion, kind: `${kind}List`, metadata: { resourceVersion: `${this.#version}` }, items }
  }
}

interface Place {
  readonly apiVersion: string
  readonly kind: string
  readonly plural: string
  readonly name: string | undefined
}

/** What a path of objects names; undefined for other paths and unknown kinds. */
function placeOf(path: string): Place | undefined {
  const [, core, group, , plural = '', name] =
    /^\/(?:api\/(v1)|apis\/([^/]+\/[^/]+))(\/namespaces\/[^/]+)?\/([^/]+)(?:\/([^/]+))?$/.exec(path) ?? []
  const apiVersion = core ?? group ?? ''
  const found = GROUPS[apiVersion]?.find((one) => one.plural === plural)
  return found === undefined ? undefined : { apiVersion, kind: found.kind, plural, name }
}

/** Whether an object is in a collection, of its namespace or of all. */
function isIn(path: string, collection: string): boolean {
  return [path, path.replace(/\/namespaces\/[^/]+/, '')].some((one) => one.startsWith(`${collection}/`))
}

function discovery(path: string): object | undefined {
  const groups = Object.keys(GROUPS).filter((name) => name !== 'v1')
  if (path === '/version') return { major: '1', minor: '36', gitVersion: 'v1.36.3' }
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] }
  if (path === '/apis')
    return {
      kind: 'APIGroupList',
      apiVersion: 'v1',
      groups: groups.map((groupVersion) => {
        const [name, version] = groupVersion.split('/')
        return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } }
      }),
    }
  const groupVersion = path.replace(/^\/apis?\//, '')
  const kinds = GROUPS[groupVersion]
  if (kinds === undefined) return undefined
  const resources = kinds.map(({ kind, plural, namespaced }) => ({
    name: plural,
    singularName: kind.toLowerCase(),
    namespaced,
    kind,
    verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
  }))
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources }
}

function isObject(body: Stored): body is KubernetesObject {
  return typeof body['kind'] === 'string'
}

/** What was sent: JSON, or a Secret in protobuf, as which helm stores its releases. */
function bodyOf(sent: Buffer): Stored {
  if (sent.subarray(0, 4).toString('latin1') === 'k8s\0') return secretOf(sent.subarray(4))
  return sent.length === 0 ? { metadata: { name: '' } } : JSON.parse(sent.toString())
}

/** The fields of type Secret and ObjectMeta that are needed; the numbers are those of Kubernetes' generated.proto. */
function secretOf(envelope: Buffer): Stored {
  const secret = lengthDelimited(lengthDelimited(envelope).get(2)?.[0] ?? Buffer.alloc(0))
  const metadata = lengthDelimited(secret.get(1)?.[0] ?? Buffer.alloc(0))
  const entries = (fields: readonly Buffer[] = [], encoding: BufferEncoding) =>
    Object.fromEntries(
      fields.map((entry) => {
        const pair = lengthDelimited(entry)
        return [String(pair.get(1)?.[0]), pair.get(2)?.[0]?.toString(encoding) ?? '']
      }),
    )
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: String(metadata.get(1)?.[0] ?? ''), labels: entries(metadata.get(11), 'utf8') },
    data: entries(secret.get(2), 'base64'),
    type: String(secret.get(3)?.[0]),
  }
}

/** Fields of a protobuf message that have a length, by number; numbers are skipped. */
function lengthDelimited(bytes: Buffer): ReadonlyMap<number, readonly Buffer[]> {
  const fields = new Map<number, Buffer[]>()
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at++] ?? 0
      value += (byte & 127) * shift
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = varint()
    const length = varint()
    if (tag % 8 !== 2) continue
    const number = Math.floor(tag / 8)
    fields.set(number, [...(fields.get(number) ?? []), bytes.subarray(at, at + length)])
    at += length
  }
  return fields
}

function failure(code: number, reason: string): object {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, message: reason, code, metadata: {} }
}

/** A merge patch: null removes, objects are merged, everything else replaces. */
function merged<T extends object>(object: T, patch: object): T {
  const result = new Map<string, unknown>(Object.entries(object))
  for (const [key, value] of Object.entries(patch)) {
    const before = result.get(key)
    const isBlock = typeof value === 'object' && value !== null && !Array.isArray(value)
    if (value === null) result.delete(key)
    else result.set(key, isBlock && typeof before === 'object' && before !== null ? merged(before, value) : value)
  }
  return Object.fromEntries(result) as T // a patch keeps the form of what it changes
}
