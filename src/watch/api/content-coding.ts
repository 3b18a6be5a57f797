/**
 * Answers that the API server sends compressed. It compresses lists of more than 128 KiB, and from
 * 1.37 on streaming lists with everything that follows on the same watch (WatchListCompression),
 * where each flush is a gzip member of its own (RFC 1952 section 2.2).
 * @impure
 */
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { ApiError } from './api-error.ts'
import type { HttpResponse } from './http-request.ts'

/** The header of requests whose answer may be compressed. */
export const ACCEPT_GZIP = { 'accept-encoding': 'gzip' } as const

/**
 * The same answer with the body that the server compressed. Bodies that are not compressed are not
 * touched. Throws `api-bad-response` for a coding that no request accepts.
 */
export function decoded(response: HttpResponse): HttpResponse {
  const coding = (response.headers['content-encoding'] ?? '').trim().toLowerCase()
  if (coding === '' || coding === 'identity') return response
  if (coding === 'gzip') return new GzipResponse(response)
  response.destroy()
  throw new ApiError('api-bad-response', 'the answer has a Content-Encoding that was not asked for')
}

/** Limits are for what leaves it: it never holds more than some pieces of 16 KiB, however far they expand. */
class GzipResponse implements HttpResponse {
  readonly #response: HttpResponse
  readonly #gunzip = createGunzip()

  constructor(response: HttpResponse) {
    this.#response = response
  }

  get statusCode(): number | undefined {
    return this.#response.statusCode
  }

  get headers(): HttpResponse['headers'] {
    return this.#response.headers
  }

  get isPinged(): boolean {
    return this.#response.isPinged === true
  }

  destroy(error?: Error): void {
    this.#gunzip.destroy(error)
    this.#response.destroy(error)
  }

  /** No generator, as in Http2Response. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer, undefined, undefined> {
    const gunzip = this.#gunzip
    // The reader of `gunzip` gets the error.
    pipeline(this.#response, gunzip, () => undefined)
    const chunks = (gunzip as AsyncIterable<Buffer, undefined>)[Symbol.asyncIterator]() // no text encoding is set
    return {
      next: async () => {
        try {
          return await chunks.next()
        } catch (error) {
          // A watch that ended before its first event.
          if (codeOf(error) === 'Z_BUF_ERROR' && gunzip.bytesWritten === 0) return { done: true, value: undefined }
          throw gzipError(error)
        }
      },
      return: async () => {
        await chunks.return?.()
        this.#response.destroy()
        return { done: true, value: undefined }
      },
    }
  }
}

function gzipError(error: unknown): unknown {
  const code = codeOf(error)
  if (code === 'Z_BUF_ERROR')
    return new ApiError('api-reset', 'the connection ended in the middle of a compressed answer', { cause: error })
  if (code.startsWith('Z_')) return new ApiError('api-bad-response', 'the answer is not gzip', { cause: error })
  return error
}

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')
