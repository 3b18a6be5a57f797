/**
 * TCP connections that exchange data all the time; reports those that end, fall silent or reach
 * another endpoint. A connection without traffic would survive anything and prove nothing.
 */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import type { Cluster, From } from './cluster.ts'
import type { Place } from './net-namespace.ts'
import { eventually } from './deadline.ts'

const PAUSE_MS = 200

interface Connection {
  readonly name: string
  readonly socket: Socket
  answers: number
  /** The pod that answers, always the same. */
  pod: string | undefined
  /** How it ended, if it did. */
  ended: string | undefined
}

export class LiveConnections {
  readonly #connections: Connection[] = []

  /** Throws when it cannot be opened. */
  async open(cluster: Cluster, from: From, to: Place): Promise<void> {
    const socket = await cluster.connect(from, to)
    const connection: Connection = {
      name: `${from} to ${to.address} ${to.port}`,
      socket,
      answers: 0,
      pod: undefined,
      ended: undefined,
    }
    this.#connections.push(connection)
    const end = (how: string): void => {
      connection.ended ??= how
    }
    socket.on('data', (data) => {
      const pod = String(data)
      connection.pod ??= pod
      if (pod !== connection.pod) end(`answered by ${pod} instead of ${connection.pod}`)
      connection.answers++
      setTimeout(() => socket.write('?\n'), PAUSE_MS).unref()
    })
    socket.on('error', ({ message }) => end(message))
    socket.on('close', () => end('closed'))
    socket.write('?\n')
  }

  get count(): number {
    return this.#connections.length
  }

  /** Resolves when every connection was alive until now and is answered twice more. */
  async check(): Promise<void> {
    const before = this.#connections.map(({ answers }) => answers)
    await eventually(() => {
      const silent = this.#connections.filter(({ answers }, index) => answers < (before[index] ?? 0) + 2)
      assert.deepEqual(this.#ended(), [])
      assert.deepEqual(
        silent.map(({ name }) => name),
        [],
      )
    })
  }

  #ended(): string[] {
    return this.#connections.flatMap(({ name, ended }) => (ended === undefined ? [] : [`${name}: ${ended}`]))
  }

  close(): void {
    for (const { socket } of this.#connections) socket.resetAndDestroy()
  }
}
