/** Network namespaces that stand for pods, joined to this one by a veth pair, with a real server in each. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { sh } from './daemon.ts'

/** Answers every TCP line and UDP datagram with its name; TCP connections stay open. */
const SERVER = `
const [name, address, port] = process.argv.slice(1)
require('net').createServer((socket) => { socket.on('error', () => {}); socket.on('data', () => socket.write(name + '\\n')) }).listen(+port, address, () => {
  const udp = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
  udp.on('message', (_, from) => udp.send(name, from.port, from.address))
  udp.bind(+port, address, () => console.log('ready'))
})`

export class Pod {
  readonly name: string
  readonly address: string
  readonly #server: ChildProcess

  /** A pod with this address; it reaches everything else through this namespace. */
  static async start(name: string, address: string, port = 8080): Promise<Pod> {
    const namespace = `${name}-${process.pid}`
    sh(`ip netns add ${namespace}
      ip link add ve-${name} type veth peer name eth0 netns ${namespace}
      ip link set ve-${name} up; ip address add 169.254.1.1/32 dev ve-${name} 2>/dev/null || true
      ip route add ${address}/32 dev ve-${name}
      ip netns exec ${namespace} sh -c 'ip link set lo up; ip link set eth0 up; ip address add ${address}/32 dev eth0; ip route add 169.254.1.1 dev eth0; ip route add default via 169.254.1.1 dev eth0'`)
    const server = spawn(
      'ip',
      ['netns', 'exec', namespace, process.execPath, '-e', SERVER, name, address, String(port)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    await once(server.stdout, 'data')
    return new Pod(name, address, server)
  }

  private constructor(name: string, address: string, server: ChildProcess) {
    this.name = name
    this.address = address
    this.#server = server
  }

  stop(): void {
    this.#server.kill('SIGKILL')
    sh(`ip link delete ve-${this.name}; ip netns delete ${this.name}-${process.pid}`)
  }
}

/** A TCP connection that asks who answers. */
export class Conversation {
  readonly #socket: Socket

  /** Rejects when refused or when there is no answer within two seconds. */
  static async open(address: string, port: number): Promise<Conversation> {
    const socket = connect({ host: address, port })
    await once(socket, 'connect', { signal: AbortSignal.timeout(2000) })
    socket.on('error', () => undefined)
    return new Conversation(socket)
  }

  private constructor(socket: Socket) {
    this.#socket = socket
  }

  /** The name of the pod at the other end. */
  async ask(): Promise<string> {
    this.#socket.write('?\n')
    const [data] = await once(this.#socket, 'data', { signal: AbortSignal.timeout(2000) })
    return String(data).trim()
  }

  /** Ends it with a reset: after a FIN the kernel would keep counting the connection for two minutes. */
  close(): void {
    this.#socket.resetAndDestroy()
  }
}
