/** The API server of the tests as the one that a run measures. */
import { issueCertificate, makeAuthority } from '../../api-server/certificate.ts'
import { ApiServer } from '../../api-server/server.ts'
import type { LoadServer } from './load-server.ts'

export function testServer(): LoadServer {
  const authority = makeAuthority('api-load')
  const server = new ApiServer({ tls: issueCertificate(authority, 'server') })
  let port: number | undefined
  return {
    ca: authority.cert,
    ownObjects: 0,
    ended: new Promise(() => undefined),
    put: async (kind, object) => void server.store.put(kind, object),
    async open() {
      const url = await server.listen(port)
      port = Number(new URL(url).port)
      return url
    },
    close: () => server.close(),
    forget: async () => server.store.compact(),
    refuseStreaming: () => void (server.streamingList = 'forbidden'),
    reset: () => server.resetConnections(),
    requests: async () => server.requests,
    watchCount: async () => server.watchCount,
    connectionCount: () => server.connectionCount,
    bytesSent: () => server.bytesSent,
    stop: () => undefined,
  }
}
