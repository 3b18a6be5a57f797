/**
 * The body of an answer of the API server, with limits for its length and its pauses.
 * @impure
 */
import { ApiError, connectionError } from './api-error.ts'
import type { HttpResponse } from './http-request.ts'

/** The whole body. @param silenceMs longest pause between two chunks */
export async function readBody(response: HttpResponse, maxBytes: number, silenceMs: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  const late = setTimeout(() => response.destroy(silence()), silenceMs)
  try {
    for await (const chunk of response) {
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

/** The error of a body that stopped. */
export function silence(): ApiError {
  return new ApiError('api-silent', 'the API server sent nothing in time')
}
