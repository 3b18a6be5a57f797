/**
 * A TCP load balancer in front of a server, which may stop to pass anything on for the connections
 * that it has, and keeps them open.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

export interface Relay {
  readonly port: number
  /** Connections of clients so far. */
  readonly connections: () => number
  /** As if the server behind all present connections had lost its power. */
  readonly cut: () => void
}

/** @param port where a new connection leads to */
export async function openRelay(t: TestContext, port: () => number): Promise<Relay> {
  let connections = 0
  const sockets = new Set<Socket>()
  let pairs: (readonly [Socket, Socket])[] = []
  const server = createServer((client) => {
    connections++
    const upstream = connect(port(), '127.0.0.1')
    pairs.push([client, upstream])
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => undefined).on('close', () => other.destroy())
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const cut = (): void => {
    for (const [client, upstream] of pairs) {
      client.unpipe(upstream)
      upstream.unpipe(client)
      client.resume()
      upstream.pause()
    }
    pairs = []
  }
  return { port: (server.address() as AddressInfo).port, connections: () => connections, cut } // it listens on TCP
}
