/**
 * A client that sends arbitrary bytes over TCP, and free ports. A port is free when it is checked;
 * another process may take it afterwards.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { until } from './deadline.ts'

/** An open connection and everything that it has received. */
export class TcpClient {
  text = ''
  readonly socket: Socket
  readonly closed: Promise<void>

  static open(port: number, host = '127.0.0.1'): Promise<TcpClient> {
    const socket = connect(port, host)
    return new Promise((resolve, reject) => {
      socket.once('error', reject)
      socket.once('connect', () => resolve(new TcpClient(socket)))
    })
  }

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      this.text += chunk.toString('latin1')
    })
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()))
  }

  /** Status codes of the answers so far. */
  get statuses(): number[] {
    return [...this.text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map((match) => Number(match[1]))
  }
}

/** One request on a new connection, read to the end of the announced body. */
export async function ask(port: number, request: string, host = '127.0.0.1'): Promise<string> {
  const client = await TcpClient.open(port, host)
  client.socket.write(request)
  await until('a whole answer', () => isWhole(client.text, request.startsWith('HEAD ')))
  client.socket.destroy()
  return client.text
}

export function isWhole(text: string, headOnly: boolean): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (/^Transfer-Encoding: chunked\r$/m.test(text)) return headOnly ? end >= 0 : text.endsWith('\r\n0\r\n\r\n')
  const length = Number(/^Content-Length: (\d+)\r$/m.exec(text)?.[1] ?? 0)
  return end >= 0 && text.length >= end + 4 + (headOnly ? 0 : length)
}

export const listens = (port: number, host = '127.0.0.1'): Promise<boolean> =>
  TcpClient.open(port, host).then(
    (client) => {
      client.socket.destroy()
      return true
    },
    () => false,
  )

/** A server that has a port and does nothing with it. */
export async function listen(port: number, host: string): Promise<Server> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve))
  return server
}

/** Below the ports that the kernel gives to clients, as other tests are running; no port twice. */
let nextPort = 12_000 + (process.pid % 1500) * 10

export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (;;) {
    const port = nextPort++
    const server = await listen(port, host).catch(() => undefined)
    if (server === undefined) continue
    await new Promise((resolve) => server.close(resolve))
    return port
  }
}
