/**
 * A request of the listener, and its body, which is bounded whether it is read or ignored.
 * @impure
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type HttpRequest, splitTarget } from './http-answer.ts'

/** Limits of a body that is read, and of one that is ignored; beyond the latter the connection is closed. */
const READ_BYTES = 4096
const IGNORED_BYTES = 65_536

/** Closes the connection after its answer, or before, if the body is too long. */
export function boundBody(request: IncomingMessage, response: ServerResponse): void {
  if (Number(request.headers['content-length'] ?? 0) > IGNORED_BYTES) response.shouldKeepAlive = false
  let received = 0
  request.on('data', (chunk: Buffer) => {
    received += chunk.length
    if (received > IGNORED_BYTES) request.socket.destroySoon()
  })
  request.on('error', () => undefined)
  // Paused until readBody or ignoreBody.
  request.pause()
}

export class ReceivedRequest implements HttpRequest {
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
    const closed = new AbortController()
    if (this.#response.destroyed) closed.abort()
    else this.#response.once('close', () => closed.abort())
    return closed.signal
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

  /** Discards the rest of the body, so that the connection can carry the next request. */
  ignoreBody(): void {
    this.#request.resume()
  }
}
