/**
 * Answers that the API server sends compressed. It compresses lists of more than 128 KiB. From 1.37
 * on it also compresses streaming lists, and everything that follows on the same watch
 * (WatchListCompression): there each flush of the server writes one gzip member (RFC 1952 section 2.2).
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
 * touched. Throws `api-bad-response` for a coding that no request accepts. A refusal with such a coding
 * is returned as it is, because its status is enough.
 */
export function decoded(response: HttpResponse): HttpResponse {
  const coding = (response.headers['content-encoding'] ?? '').trim().toLowerCase()
  if (coding === 'gzip') return new GzipResponse(response)
  const isRefusal = response.statusCode !== 200 && response.statusCode !== 201
  if (coding === '' || coding === 'identity' || isRefusal) return response
  response.destroy()
  throw new ApiError('api-bad-response', 'the answer has a Content-Encoding that was not asked for')
}

/**
 * Limits count decompressed bytes. Besides one chunk of the compressed body this holds only a few
 * pieces of 16 KiB, however much these bytes expand to.
 */
class GzipResponse implements HttpResponse {
  readonly #response: HttpResponse
  readonly #gunzip = createGunzip()
  /** Why the compressed body broke off. What arrived before is handed out first, as without compression. */
  #broken: unknown

  constructor(response: HttpResponse) {
    this.#response = response
    // `pipeline` stops listening when all is written, before the end of the last member is checked.
    this.#gunzip.on('error', () => undefined)
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
    pipeline(this.#compressed(), gunzip, () => undefined)
    const chunks = (gunzip as AsyncIterable<Buffer, undefined>)[Symbol.asyncIterator]() // no text encoding is set
    return {
      next: async () => {
        try {
          const next = await chunks.next()
          if (next.done !== true) return next
        } catch (error) {
          // A watch that ended before its first event has no member.
          const isEmpty = codeOf(error) === 'Z_BUF_ERROR' && gunzip.bytesWritten === 0
          if (!isEmpty) this.#broken ??= gzipError(error)
        }
        // The server may keep the answer open behind the last member.
        this.destroy()
        if (this.#broken !== undefined) throw this.#broken
        return { done: true, value: undefined }
      },
      return: async () => {
        this.destroy()
        return { done: true, value: undefined }
      },
    }
  }

  async *#compressed(): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* this.#response
    } catch (error) {
      this.#broken = error
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
