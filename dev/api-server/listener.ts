/**
 * The sockets of the API server: HTTP/2 and HTTP/1.1 at one port, as a real one has with TLS.
 * Without TLS, where a real one no longer listens, the first bytes of a connection tell which of
 * the two it is.
 */
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { constants, createSecureServer, createServer as createHttp2, type Http2ServerResponse } from 'node:http2'
import { createServer as createHttps } from 'node:https'
import { createServer as createTcp, type Server } from 'node:net'

export interface ListenerOptions {
  /** With `clientCa` clients must show a certificate that it signed. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly clientCa?: string } | undefined
  readonly http2: boolean
  readonly answer: (request: IncomingMessage, response: ServerResponse) => void
}

/** How a client of HTTP/2 begins (RFC 9113, 3.4). */
const PREFACE = 'PRI * HTTP/2.0\r\n'
/** As a real one. */
const SETTINGS = { maxConcurrentStreams: 100 }

/** Reports each connection by `connection`, as all servers do. */
export function createListener({ tls, http2, answer }: ListenerOptions): Server {
  // The methods of both versions that are used here are the same.
  const answerHttp2 = answer as unknown as (request: unknown, response: Http2ServerResponse) => void
  if (tls !== undefined) {
    const { cert, key, clientCa } = tls
    const client = clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true }
    if (!http2) return createHttps({ cert, key, ...client }, answer)
    return createSecureServer({ cert, key, ...client, allowHTTP1: true, settings: SETTINGS }, answerHttp2 as never)
  }
  const plain = createHttp(answer)
  if (!http2) return plain
  const multiplexed = createHttp2({ settings: SETTINGS }, answerHttp2)
  return createTcp((socket) => {
    socket.once('data', (first) => {
      socket.pause()
      socket.unshift(first)
      const isHttp2 = first.subarray(0, PREFACE.length).toString('latin1') === PREFACE
      ;(isHttp2 ? multiplexed : plain).emit('connection', socket)
      // The other server reads what is here by itself.
      if (!isHttp2) socket.resume()
    })
  })
}

/** Breaks off an answer: in HTTP/1.1 with its connection, in HTTP/2 without those beside it. */
export function breakOff(response: ServerResponse): void {
  if (isHttp2(response)) response.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  else response.socket?.resetAndDestroy()
}

/** Whether the client is gone. */
export function isGone(response: ServerResponse): boolean {
  return isHttp2(response) ? response.stream.destroyed || response.stream.closed : response.destroyed
}

function isHttp2(response: unknown): response is Http2ServerResponse {
  return typeof response === 'object' && response !== null && 'stream' in response
}
