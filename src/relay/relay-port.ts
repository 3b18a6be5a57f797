/**
 * One relayed port: its socket while it has endpoints, and its connections, which may outlive the
 * socket but not the Service.
 * @impure
 */
import type { Socket } from 'node:net'
import { getSystemErrorMessage } from 'node:util'
import { formatEndpoint, isLoopback } from '../values/address.ts'
import type { Clock } from '../values/clock.ts'
import type { Problem } from '../values/errors.ts'
import { type Log, ObjectName } from '../values/log.ts'
import { LOOPBACK_ADDRESS } from '../values/well-known.ts'
import { EndpointChoice } from './endpoint-choice.ts'
import { RelayListener } from './relay-listener.ts'
import { RelayedConnection } from './relayed-connection.ts'
import type { RelayedPort } from './wanted-relays.ts'

/** What all ports share. */
export interface RelayPortOwner {
  readonly nodeName: string
  /** Whether the daemon itself listens at the port. */
  readonly isReserved: (port: number) => boolean
  readonly log: Log
  readonly now: Clock
  readonly random: () => number
  readonly limits: { readonly connectionsOfPort: number; readonly attempts: number; readonly connectMs: number }
  /** Whether the node may have one connection more. */
  readonly mayConnect: () => boolean
  readonly counts: { connections: number; relayed: number; overLimit: number; unreachable: number; foreign: number }
  /** A connection was refused because of a limit. */
  readonly onOverLimit: (port: RelayedPort) => void
  readonly onProblem: (socket: string, problem: Problem | undefined) => void
}

export class RelayPort {
  readonly #owner: RelayPortOwner
  readonly #connections = new Set<RelayedConnection>()
  #wanted: RelayedPort
  #choice: EndpointChoice
  #listener: RelayListener | undefined
  #isOpen = false

  constructor(wanted: RelayedPort, owner: RelayPortOwner) {
    this.#owner = owner
    this.#wanted = wanted
    this.#choice = new EndpointChoice(owner.random, owner.now)
  }

  /** Whether it has a socket, or tries to get one. */
  get isListening(): boolean {
    return this.#listener !== undefined
  }

  /** Whether clients can connect. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  open(): void {
    if (this.#listener !== undefined) return
    const { family, port } = this.#wanted
    if (this.#owner.isReserved(port)) {
      this.#report('it is a port of kube-ipvs itself')
      return
    }
    const listener = new RelayListener({
      address: LOOPBACK_ADDRESS[family],
      port,
      onConnection: (client) => this.#accept(client),
      onOpen: () => {
        this.#isOpen = true
        this.#report(undefined)
      },
      onFailure: (error) =>
        this.#report(error.errno === undefined ? error.message : getSystemErrorMessage(error.errno)),
    })
    this.#listener = listener
    listener.open()
  }

  /** Other endpoints, another affinity, or another Service. Connections stay if it is the same Service. */
  update(wanted: RelayedPort): void {
    const { namespace, name } = this.#wanted
    this.#wanted = wanted
    if (wanted.namespace !== namespace || wanted.name !== name) {
      this.#closeConnections()
      // It was about the Service before.
      if (!this.#isOpen) this.#report(undefined)
      this.#choice = new EndpointChoice(this.#owner.random, this.#owner.now)
    }
    if (wanted.endpoints.length === 0) this.#closeListener()
  }

  /** Closes the socket and all connections before it returns. */
  close(): void {
    this.#closeListener()
    this.#closeConnections()
  }

  #closeListener(): void {
    this.#listener?.close()
    this.#listener = undefined
    this.#isOpen = false
    this.#report(undefined)
  }

  #closeConnections(): void {
    for (const connection of this.#connections) connection.close()
  }

  #accept(client: Socket): void {
    const { counts, limits, mayConnect, onOverLimit } = this.#owner
    const refuse = (): void => {
      client.on('error', () => undefined)
      client.resetAndDestroy()
    }
    // Packets from elsewhere arrive at 127.0.0.1 only where another program has set route_localnet.
    if (!isLoopback(client.remoteAddress ?? '')) {
      counts.foreign++
      refuse()
    } else if (!mayConnect() || this.#connections.size >= limits.connectionsOfPort) {
      counts.overLimit++
      refuse()
      onOverLimit(this.#wanted)
    } else this.#relay(client)
  }

  #relay(client: Socket): void {
    const { counts, limits, log } = this.#owner
    counts.connections++
    const connection = new RelayedConnection({
      client,
      attempts: limits.attempts,
      connectMs: limits.connectMs,
      next: (tried) => this.#choice.next(this.#wanted, tried),
      onJoined: () => counts.relayed++,
      onUnreachable: (tried, error) => {
        counts.unreachable++
        const { namespace, name, port } = this.#wanted
        log.verbose(2, 'No endpoint answered a connection to a node port at 127.0.0.1 or ::1', {
          service: new ObjectName(namespace, name),
          port,
          tried: tried.map((endpoint) => formatEndpoint(endpoint.address, endpoint.port)),
          error,
        })
      },
      onClosed: () => {
        counts.connections--
        this.#connections.delete(connection)
      },
    })
    this.#connections.add(connection)
  }

  #report(reason: string | undefined): void {
    const { nodeName, onProblem } = this.#owner
    const { family, port, namespace, name } = this.#wanted
    const socket = formatEndpoint(LOOPBACK_ADDRESS[family], port)
    onProblem(
      socket,
      reason === undefined
        ? undefined
        : {
            code: 'localhost-node-port',
            about: 'object',
            subject: `service ${namespace}/${name}`,
            field: 'spec.ports',
            message: `node ${nodeName} cannot listen at ${socket} for the node port: ${reason}`,
          },
    )
  }
}
