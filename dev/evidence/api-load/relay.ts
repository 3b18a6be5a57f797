/**
 * Passes TCP connections on to a server on loopback and counts what the server sends: clients see
 * an outage when it is closed, while the server runs on.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export class Relay {
  readonly #target: number
  readonly #clients = new Set<Socket>()
  #server: Server | undefined
  #port = 0
  #bytes = 0

  /** @param target the port of the server */
  constructor(target: number) {
    this.#target = target
  }

  /** Listens on loopback, always on the same port, and returns it. */
  async open(): Promise<number> {
    const server = createServer((client) => this.#pass(client))
    server.listen(this.#port, '127.0.0.1')
    await once(server, 'listening')
    this.#server = server
    this.#port = (server.address() as AddressInfo).port // it listens on TCP
    return this.#port
  }

  /** Cuts all connections and refuses new ones. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server?.close(resolve))
    for (const client of this.#clients) client.destroy()
    await closed
  }

  /** Resets all connections. */
  reset(): void {
    for (const client of this.#clients) client.resetAndDestroy()
  }

  get connections(): number {
    return this.#clients.size
  }

  /** Read from the server so far. */
  get bytes(): number {
    return this.#bytes
  }

  #pass(client: Socket): void {
    const server = connect(this.#target, '127.0.0.1')
    this.#clients.add(client)
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.setNoDelay(true)
      socket.on('error', () => other.destroy())
      socket.on('close', () => other.destroy())
    }
    client.on('close', () => this.#clients.delete(client))
    server.on('data', (chunk) => (this.#bytes += chunk.length))
    client.pipe(server).pipe(client)
  }
}
