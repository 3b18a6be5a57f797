/**
 * Events in the API server of tests and bench: created and patched as a real one does, and stored
 * as they were sent. A real server accepts more encodings and checks more; whatever this one
 * refuses, a real one refuses too.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'

/** A write request, accepted or refused. */
export interface EventWrite {
  readonly request: 'create' | 'patch'
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly object: object
  readonly status: number
}

const PATH = /^\/apis\/events\.k8s\.io\/v1\/namespaces\/([^/]+)\/events(?:\/([^/]+))?$/

export class EventStore {
  readonly writes: EventWrite[] = []
  /** By namespace and name. */
  readonly objects = new Map<string, object>()

  /** What a request does with an Event; undefined when it concerns something else. */
  static verbOf({ method = '' }: IncomingMessage, path: string): 'create' | 'patch' | undefined {
    const [all, , name] = PATH.exec(path) ?? []
    if (all === undefined) return undefined
    if (method === 'POST' && name === undefined) return 'create'
    return method === 'PATCH' && name !== undefined ? 'patch' : undefined
  }

  /** Reads and applies the body; returns the resulting object, or the reason of a refusal. */
  async write(request: IncomingMessage, path: string): Promise<{ status: number; reason: string; object: object }> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const verb = EventStore.verbOf(request, path) ?? 'create'
    const type = request.headers['content-type']
    // A real one accepts protobuf too.
    if (type !== (verb === 'patch' ? 'application/strategic-merge-patch+json' : 'application/json')) {
      this.writes.push({ request: verb, path, headers: request.headers, object: {}, status: 415 })
      return { status: 415, reason: 'UnsupportedMediaType', object: {} }
    }
    const object = JSON.parse(Buffer.concat(chunks).toString()) as object
    const [, namespace = '', inPath = ''] = PATH.exec(path) ?? []
    const { metadata } = object as { metadata?: { name?: string; namespace?: string } }
    const key = `${namespace}/${verb === 'patch' ? inPath : metadata?.name}`
    const before = this.objects.get(key)
    const outcome =
      verb === 'create' && metadata?.namespace !== namespace
        ? { status: 400, reason: 'BadRequest' }
        : verb === 'create' && before !== undefined
          ? { status: 409, reason: 'AlreadyExists' }
          : verb === 'patch' && before === undefined
            ? { status: 404, reason: 'NotFound' }
            : { status: verb === 'create' ? 201 : 200, reason: '' }
    if (outcome.reason === '') this.objects.set(key, { ...before, ...object })
    this.writes.push({ request: verb, path, headers: request.headers, object, status: outcome.status })
    return { ...outcome, object: this.objects.get(key) ?? {} }
  }
}

/** Answers with the object as JSON. */
export function answerEvent(response: ServerResponse, status: number, object: object): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(object))
}
