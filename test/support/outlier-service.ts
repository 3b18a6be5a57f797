/**
 * A Service of four endpoints that can stop answering and answer again, and clients on the node that
 * connect to it all the time. An endpoint is dead when its host does not have its address any more:
 * packets to it are dropped without a word.
 */
import assert from 'node:assert/strict'
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { connect, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CONNECTIONS, PACKETS_OUT } from '../../src/ipvs/codec-traffic.ts'
import type { IpvsConnection } from '../../src/ipvs/connection.ts'
import { virtualServerKey, type VirtualServerKey } from '../../src/ipvs/types.ts'
import { eventually } from './deadline.ts'
import { listenStream, listenUdp } from './exchange.ts'
import { type Manifest, service, slice } from './manifests.ts'
import { inside } from './net-namespace.ts'
import { sh } from './programs.ts'

const FIRST_PORT = 11_000
const LAST_PORT = 29_999
const GIVE_UP_MS = 2500
const STAY_MS = 2000

/** What the kernel knows of an endpoint. */
interface Seen {
  readonly weight: number
  /** Exact. */
  readonly open: number
  readonly connections: number
  readonly packetsOut: number
}

/** What an endpoint does with a connection. */
export type Habit =
  /** It sends its address back for whatever it gets. */
  | 'answers'
  /** It accepts, and sends nothing. */
  | 'mute'
  /** Its first byte comes after 10 s. */
  | 'slow'

/** What a client does. */
export type Client =
  /** It asks, waits for the answer, and ends with a reset. */
  | 'asks'
  /** The same, and it has time. */
  | 'patient'
  /** It asks, waits for the answer, and ends with a reset two seconds later. */
  | 'stays'
  /** It connects, and neither sends nor closes anything. */
  | 'idle'
  /** It asks, closes its direction, and leaves the other one open. */
  | 'half-closed'
  /** It sends a datagram to a port that may answer or not. */
  | 'datagram'

export interface OutlierServiceOptions {
  readonly name: string
  /** 0 to 200: the addresses of the Service and of its endpoints. */
  readonly index: number
  /** Where the endpoints are. */
  readonly host: string
  /** Schedulers that hash the client's address must see many. */
  readonly clients: readonly string[]
  readonly ipvs: IpvsConnection
  readonly protocol?: 'tcp' | 'udp'
  /** Without the prefix. */
  readonly annotations?: Readonly<Record<string, string>>
}

export class OutlierService {
  readonly name: string
  readonly address: string
  readonly endpoints: readonly string[]
  /** The one that the tests let die. */
  readonly dead: string
  readonly key: VirtualServerKey
  readonly manifests: readonly Manifest[]
  /** Connections that were answered, refused, and neither. */
  readonly outcomes = { answered: 0, refused: 0, none: 0 }
  readonly #options: OutlierServiceOptions
  readonly #servers = new Map<string, Server | UdpSocket>()
  readonly #sockets = new Set<Socket>()
  readonly #clients = new Set<Promise<void>>()
  #isOver = false
  #port = FIRST_PORT

  constructor(options: OutlierServiceOptions) {
    const { name, index, annotations = {}, protocol = 'tcp' } = options
    this.#options = options
    this.name = name
    this.address = `10.96.0.${10 + index}`
    this.dead = `10.2.${1 + index}.1`
    this.endpoints = [this.dead, ...[2, 3, 4].map((last) => `10.2.${1 + index}.${last}`)]
    this.key = virtualServerKey({ address: this.address, port: 80, protocol })
    const prefixed = Object.entries(annotations).map(([key, value]) => [`kube-ipvs.io/${key}`, value])
    const metadata = { annotations: Object.fromEntries(prefixed) as Record<string, string> } // pairs of texts
    const ports = [{ name: 'http', protocol: protocol.toUpperCase(), port: 80, targetPort: 8080 }]
    const endpointPorts = [{ name: 'http', protocol: protocol.toUpperCase(), port: 8080 }]
    this.manifests = [
      service(name, { clusterIP: this.address, ports }, { metadata }),
      slice(name, this.endpoints, { ports: endpointPorts }),
    ]
    this.#inHost(this.endpoints.map((endpoint) => `ip address add ${endpoint}/32 dev lo`).join(' && '))
    for (const endpoint of this.endpoints) this.listen(endpoint)
  }

  kill(endpoint = this.dead): void {
    this.#inHost(`ip address delete ${endpoint}/32 dev lo`)
  }

  revive(endpoint = this.dead): void {
    this.#inHost(`ip address add ${endpoint}/32 dev lo`)
  }

  /** It does something else with its connections from now on. */
  turn(habit: Habit, ...endpoints: readonly string[]): void {
    for (const endpoint of endpoints) {
      this.stopListening(endpoint)
      this.listen(endpoint, habit)
    }
  }

  listen(endpoint: string, habit: Habit = 'answers'): void {
    const { protocol = 'tcp', host } = this.#options
    const at = { protocol, address: endpoint, port: 8080 }
    if (protocol === 'udp') return void this.#servers.set(endpoint, listenUdp(host, at))
    const server = listenStream(host, at, (socket) => {
      this.#keep(socket)
      socket.on('data', () => {
        if (habit === 'answers') socket.write(endpoint)
        else if (habit === 'slow') setTimeout(() => socket.write(endpoint), 10_000).unref()
      })
    })
    this.#servers.set(endpoint, server)
  }

  /** Connections to it are refused from now on. */
  stopListening(endpoint = this.dead): void {
    this.#servers.get(endpoint)?.close()
    this.#servers.delete(endpoint)
  }

  /** Clients that connect all the time, all together so often a second, whatever the outcome is. */
  connectAllTheTime(perSecond: number, client: Client = 'asks'): void {
    this.#isOver = false
    const clients = Math.ceil(perSecond / 8)
    for (let index = 0; index < clients; index++) this.#clients.add(this.#connects(index, clients, perSecond, client))
  }

  async stopClients(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#clients)
    this.#clients.clear()
  }

  /** A connection that stays open; says which endpoint answers. */
  async hold(): Promise<{ readonly socket: Socket; readonly ask: () => Promise<string> }> {
    const socket = this.#connect()
    const ask = async (): Promise<string> => {
      socket.write('?')
      return new Promise((resolve, reject) => {
        socket.once('data', (text) => resolve(text.toString())).once('error', reject)
      })
    }
    return { socket, ask }
  }

  /** What the kernel has of each endpoint. */
  async seen(): Promise<ReadonlyMap<string, Seen>> {
    const { protocol = 'tcp', ipvs } = this.#options
    const destinations = await ipvs.listCountedDestinations({
      family: 'IPv4',
      address: this.address,
      port: 80,
      protocol,
    })
    return new Map(
      destinations.map(({ realServer, traffic, activeConnections, inactiveConnections }) => [
        realServer.address,
        {
          weight: realServer.weight,
          open: activeConnections + inactiveConnections,
          connections: traffic[CONNECTIONS] ?? 0,
          packetsOut: traffic[PACKETS_OUT] ?? 0,
        },
      ]),
    )
  }

  async weights(): Promise<readonly number[]> {
    const seen = await this.seen()
    return this.endpoints.map((endpoint) => seen.get(endpoint)?.weight ?? -1)
  }

  async haveWeights(expected: readonly number[], deadlineMs?: number): Promise<void> {
    await eventually(async () => assert.deepEqual(await this.weights(), expected), deadlineMs)
  }

  /** Waits until the kernel has counted so many more connections to each endpoint. */
  async gotConnections(more: number, endpoints = this.endpoints, deadlineMs = 60_000): Promise<void> {
    const before = await this.seen()
    await eventually(async () => {
      const now = await this.seen()
      for (const endpoint of endpoints)
        assert.ok((now.get(endpoint)?.connections ?? 0) >= (before.get(endpoint)?.connections ?? 0) + more, endpoint)
    }, deadlineMs)
  }

  async stop(): Promise<void> {
    await this.stopClients()
    for (const server of this.#servers.values()) server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  async #connects(index: number, clients: number, perSecond: number, client: Client): Promise<void> {
    const pauseMs = (1000 * clients) / perSecond
    await sleep((index * pauseMs) / clients)
    while (!this.#isOver) {
      void this.#use(client)
      await sleep(pauseMs)
    }
  }

  #local(): { readonly localPort: number; readonly localAddress: string } {
    const { clients } = this.#options
    const localPort = this.#port
    this.#port = localPort === LAST_PORT ? FIRST_PORT : localPort + 1
    return { localPort, localAddress: clients[localPort % clients.length] ?? '' }
  }

  #connect(): Socket {
    const socket = connect({ host: this.address, port: 80, allowHalfOpen: true, ...this.#local() })
    return this.#keep(socket)
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket)
    return socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket))
  }

  async #use(client: Client): Promise<void> {
    if (client === 'datagram') return this.#sendDatagram()
    const socket = this.#connect()
    const outcome = await new Promise<'answered' | 'refused' | 'none'>((resolve) => {
      socket.on('error', ({ message }) => resolve(message.includes('ECONNREFUSED') ? 'refused' : 'none'))
      socket.setTimeout(client === 'patient' ? 5 * GIVE_UP_MS : GIVE_UP_MS, () => resolve('none'))
      socket.on('connect', () => (client === 'idle' ? resolve('answered') : socket.write('?')))
      socket.on('data', () => resolve('answered'))
    })
    this.outcomes[outcome]++
    if (client === 'stays' && outcome === 'answered') await sleep(STAY_MS)
    const isLeftOpen = outcome === 'answered' && (client === 'idle' || client === 'half-closed')
    // A reset leaves nothing to wait for, so that ports can be used again.
    if (!isLeftOpen) socket.resetAndDestroy()
    else if (client === 'half-closed') socket.end()
    socket.unref()
  }

  async #sendDatagram(): Promise<void> {
    const { localPort, localAddress } = this.#local()
    const socket = createSocket('udp4')
    await new Promise<void>((resolve) => socket.on('error', resolve).bind(localPort, localAddress, resolve))
    await new Promise<unknown>((resolve) => socket.send('?', 80, this.address, resolve))
    socket.close()
  }

  #inHost(command: string): void {
    inside(this.#options.host, () => sh(command))
  }
}
