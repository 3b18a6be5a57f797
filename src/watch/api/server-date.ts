/**
 * The API server's clock, from the Date header of any answer of it; a refusal has one, too.
 * @impure
 */
import { VERSION } from '../../values/well-known.ts'
import type { AccessProvider } from './access.ts'
import { ApiError } from './api-error.ts'
import { HttpPool } from './http-pool.ts'

const CONNECT_MS = 5000
const HEADERS_MS = 10_000

/**
 * Milliseconds by which the clock of this machine is ahead of the server's. The header has whole
 * seconds, so the result is precise to half a second. Rejects with ApiError, an error of the
 * connection, or the reason of the abort.
 */
export async function clockAheadMs(provider: AccessProvider, signal: AbortSignal): Promise<number> {
  const { server, headers, tls, proxyUrl } = await provider.access()
  const url = new URL(server)
  const pool = new HttpPool({
    server: url,
    tls,
    connectTimeoutMs: CONNECT_MS,
    ...(proxyUrl === undefined ? {} : { proxyUrl }),
  })
  try {
    const beganMs = Date.now()
    const response = await pool.request({
      method: 'GET',
      path: `${url.pathname.replace(/\/$/, '')}/version`,
      headers: { accept: 'application/json', 'user-agent': `kube-ipvs/${VERSION}`, ...headers },
      signal,
      headersTimeoutMs: HEADERS_MS,
    })
    const endedMs = Date.now()
    const date = Date.parse(response.headers.date ?? '')
    response.destroy()
    if (Number.isNaN(date)) throw new ApiError('api-bad-response', 'the answer has no Date')
    return (beganMs + endedMs) / 2 - (date + 500)
  } finally {
    pool.close()
  }
}
