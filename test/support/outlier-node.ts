/**
 * A node with four endpoints behind it, which can stop answering and answer again, and clients on the
 * node that connect to a Service of them all the time. An endpoint is dead when its host does not
 * have its address any more: packets to it are dropped without a word.
 */
import assert from 'node:assert/strict'
import { connect, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { openNetlinkConnection } from '../../native/open.ts'
import { CONNECTIONS, PACKETS_OUT } from '../../src/ipvs/codec-traffic.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import { parseFrontendKey } from '../../src/service/frontends.ts'
import { Workbench } from './daemon.ts'
import { eventually } from './deadline.ts'
import { listenStream } from './exchange.ts'
import { boundAddresses, freshNode } from './kernel-state.ts'
import { service, slice } from './manifests.ts'
import { inside, leave } from './net-namespace.ts'
import { run, sh } from './programs.ts'

export const ENDPOINTS = ['10.2.1.1', '10.2.1.2', '10.2.1.3', '10.2.1.4'] as const
export type Endpoint = (typeof ENDPOINTS)[number]
export const VIRTUAL_SERVER = '10.96.0.10:80/tcp'
/** Schedulers that hash the client's address must see many. */
const CLIENTS = Array.from({ length: 24 }, (_, index) => `10.2.0.${100 + index}`)
const FIRST_PORT = 11_000
const LAST_PORT = 29_999
const GIVE_UP_MS = 2500

/** What the kernel knows of an endpoint. */
interface Seen {
  readonly weight: number
  /** Exact. */
  readonly open: number
  readonly connections: number
  readonly packetsOut: number
}

export class OutlierNode {
  readonly bench: Workbench
  /** Connections that were answered, refused, and neither. */
  readonly outcomes = { answered: 0, refused: 0, none: 0 }
  readonly #host = `ep-${process.pid}`
  readonly #servers = new Map<string, Server>()
  readonly #served = new Set<Socket>()
  readonly #ipvs: IpvsConnection
  #isOver = false
  #port = FIRST_PORT
  #clients: Promise<void>[] = []

  static async start(more: Readonly<Record<string, unknown>> = {}): Promise<OutlierNode> {
    freshNode()
    return new OutlierNode(await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC)), more)
  }

  private constructor(ipvs: IpvsConnection, more: Readonly<Record<string, unknown>>) {
    this.#ipvs = ipvs
    sh(`ip netns add ${this.#host}`)
    sh(`ip link add vep type veth peer name eth0 netns ${this.#host}`)
    run(
      ['ip', '-batch', '-'],
      ['link set vep up', 'address add 10.2.0.1/24 dev vep', 'route add 10.2.1.0/24 via 10.2.0.2']
        .concat(CLIENTS.map((address) => `address add ${address}/32 dev vep`))
        .join('\n'),
    )
    this.inHost('ip link set lo up', 'ip link set eth0 up', 'ip address add 10.2.0.2/24 dev eth0')
    for (const endpoint of ENDPOINTS) {
      this.revive(endpoint)
      this.listen(endpoint)
    }
    this.bench = new Workbench({}, more)
  }

  /** Runs commands on the host of the endpoints. */
  inHost(...commands: readonly string[]): void {
    inside(this.#host, () => sh(commands.join(' && ')))
  }

  write(annotations: Readonly<Record<string, string>>): void {
    const prefixed = Object.entries(annotations).map(([name, value]) => [`kube-ipvs.io/${name}`, value])
    const metadata = { annotations: Object.fromEntries(prefixed) as Record<string, string> } // pairs of texts
    this.bench.write('web.yaml', service('web', { clusterIP: '10.96.0.10' }, { metadata }), slice('web', ENDPOINTS))
  }

  kill(endpoint: Endpoint): void {
    this.inHost(`ip address delete ${endpoint}/32 dev lo`)
  }

  revive(endpoint: Endpoint): void {
    this.inHost(`ip address add ${endpoint}/32 dev lo`)
  }

  /** @param answers false: it accepts connections and never says anything */
  listen(endpoint: Endpoint, answers = true): void {
    const at = { protocol: 'tcp', address: endpoint, port: 8080 } as const
    const server = listenStream(this.#host, at, (socket) => {
      this.#served.add(socket)
      socket.on('error', () => undefined).on('close', () => this.#served.delete(socket))
      if (answers) socket.on('data', () => socket.write(endpoint))
    })
    this.#servers.set(endpoint, server)
  }

  /** Connections to it are refused from now on. */
  stopListening(endpoint: Endpoint): void {
    this.#servers.get(endpoint)?.close()
    this.#servers.delete(endpoint)
  }

  /** Clients that connect all the time, each so often a second, whatever the outcome is. */
  connectAllTheTime(clients: number, perSecond: number, waits = true): void {
    this.#isOver = false
    this.#clients = Array.from({ length: clients }, async (_, index) => {
      await sleep((index * 1000) / perSecond / clients)
      while (!this.#isOver) {
        void this.#ask(waits)
        await sleep(1000 / perSecond)
      }
    })
  }

  async stopClients(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#clients)
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

  #connect(): Socket {
    const localPort = this.#port
    this.#port = localPort === LAST_PORT ? FIRST_PORT : localPort + 1
    const localAddress = CLIENTS[localPort % CLIENTS.length]
    return connect({ host: '10.96.0.10', port: 80, localPort, ...(localAddress && { localAddress }) })
  }

  async #ask(waits: boolean): Promise<void> {
    const socket = this.#connect()
    const outcome = await new Promise<'answered' | 'refused' | 'none'>((resolve) => {
      socket.on('error', ({ message }) => resolve(message.includes('ECONNREFUSED') ? 'refused' : 'none'))
      socket.setTimeout(GIVE_UP_MS, () => resolve('none'))
      socket.on('connect', () => (waits ? socket.write('?') : resolve('answered')))
      socket.on('data', () => resolve('answered'))
    })
    this.outcomes[outcome]++
    // A reset leaves nothing to wait for, so that ports can be used again.
    if (waits) socket.resetAndDestroy()
    else socket.unref()
  }

  /** What the kernel has of each endpoint. */
  async seen(): Promise<ReadonlyMap<string, Seen>> {
    const destinations = await this.#ipvs.listCountedDestinations(parseFrontendKey(VIRTUAL_SERVER))
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

  /** Waits until clients can connect: the address of a virtual server is bound after it. */
  async isServed(): Promise<void> {
    await this.haveWeights([1, 1, 1, 1])
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.10/32']))
  }

  async weights(): Promise<readonly number[]> {
    const seen = await this.seen()
    return ENDPOINTS.map((endpoint) => seen.get(endpoint)?.weight ?? -1)
  }

  async haveWeights(expected: readonly number[], deadlineMs?: number): Promise<void> {
    await eventually(async () => assert.deepEqual(await this.weights(), expected), deadlineMs)
  }

  /** Waits until the kernel has counted so many more connections to each of these endpoints. */
  async gotConnections(endpoints: readonly Endpoint[], more: number, deadlineMs = 60_000): Promise<void> {
    const before = await this.seen()
    await eventually(async () => {
      const now = await this.seen()
      for (const endpoint of endpoints)
        assert.ok((now.get(endpoint)?.connections ?? 0) >= (before.get(endpoint)?.connections ?? 0) + more, endpoint)
    }, deadlineMs)
  }

  async stop(): Promise<void> {
    await this.stopClients()
    await this.bench.close()
    for (const server of this.#servers.values()) server.close()
    for (const socket of this.#served) socket.destroy()
    this.#ipvs.close()
    leave(this.#host)
    sh(`ip netns delete ${this.#host}`)
  }
}
