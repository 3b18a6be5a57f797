/**
 * Faults that a test injects into requests to the API server. The first request that a fault fits
 * consumes it; `times` makes it fit more of them.
 */
import type { ServerResponse } from 'node:http'
import { breakOff, isGone } from './listener.ts'
import type { ObjectKind } from '../../src/service/objects.ts'

export type Verb = 'list' | 'watch' | 'create' | 'patch'

export interface Fault {
  /** Which requests it fits; absent fits all. */
  readonly kind?: ObjectKind
  readonly verb?: Verb
  /** How many requests it applies to; default 1. */
  readonly times?: number
  readonly action:
    | {
        readonly kind: 'status'
        readonly status: number
        readonly headers?: Record<string, string>
        readonly body?: string | Buffer
      }
    /** The connection is reset without an answer, or in HTTP/2 the request. */
    | { readonly kind: 'reset' }
    /** No answer at all. */
    | { readonly kind: 'hang' }
    /** After so many bytes of the body nothing more is sent and the connection stays open. */
    | { readonly kind: 'stall'; readonly afterBytes: number }
    /** After so many bytes of the body the connection is reset, or in HTTP/2 the request. */
    | { readonly kind: 'cut'; readonly afterBytes: number }
    /** After so many bytes of the body the answer ends regularly. */
    | { readonly kind: 'end'; readonly afterBytes: number }
    /** This line is sent as an event, with status 200, and then the answer ends. */
    | { readonly kind: 'line'; readonly line: string }
    /** The answer is sent this much later. */
    | { readonly kind: 'slow'; readonly delayMs: number }
}

/** A response body that a fault may cut. */
export interface Body {
  /** Resolves when more can be written; false when the client is gone. */
  write(bytes: Buffer): Promise<boolean>
  end(): void
}

/** Writes to a response, up to the byte at which the fault happens. */
export function bodyOf(response: ServerResponse, action: Fault['action'] | undefined): Body {
  const limit = action !== undefined && 'afterBytes' in action ? action.afterBytes : Number.POSITIVE_INFINITY
  let sent = 0
  let broken = false
  /** One wait for all writes that the socket's buffer has no room for. */
  let draining: Promise<void> | undefined
  return {
    async write(whole) {
      if (broken || isGone(response) || response.writableEnded) return false
      let bytes = whole
      if (sent + bytes.length >= limit) {
        bytes = bytes.subarray(0, limit - sent)
        broken = true
      }
      sent += bytes.length
      const strike = (): void => {
        if (action?.kind === 'cut') breakOff(response)
        if (action?.kind === 'end') response.end()
      }
      if (broken) {
        // A reset must not overtake the bytes before it.
        if (bytes.length > 0) response.write(bytes, () => setTimeout(strike, 5))
        else strike()
        return false
      }
      if (response.write(bytes)) return true
      draining ??= drained(response).finally(() => {
        draining = undefined
      })
      await draining
      return !isGone(response)
    },
    end() {
      if (!broken) response.end()
    },
  }
}

/** Resolves when the response accepts more, or is closed. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done)
      response.off('close', done)
      resolve()
    }
    response.on('drain', done)
    response.on('close', done)
  })
}
