/**
 * The API server in a process of its own (`api-server-main.ts`), and the changes that the bench makes through it. This file
 * computes addresses as that process does, from the number of changes so far, so only this class may change anything in it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { clusterIpOf, endpointAddress, namespaceOf, serviceName } from '../api-server/generate.ts'
import { costOf } from './program-cost.ts'
import type { Expected } from './table-view.ts'

const MAIN = join(import.meta.dirname, 'api-server-main.ts')
const READY_MS = 120_000
const ENDPOINT_PORT = 8080

/** A write of objects; `atMs` is its time on the clock of `monotonicMs`. */
export interface Written {
  readonly atMs: number
  /** The changed Services as the table must have them. */
  readonly expected: readonly Expected[]
}

export interface Change extends Written {
  /** The new endpoint: `10.128.0.1:8080`. */
  readonly added: string
}

export class ApiServerProcess {
  readonly url: string
  readonly #control: string
  readonly #child: ChildProcess
  readonly #services: number
  readonly #endpoints: number
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  #generation = 0
  #turn = 0

  /** Resolves when the server has made all objects and answers. */
  static async start(services: number, endpoints: number, node: string): Promise<ApiServerProcess> {
    const flags = { services, endpoints, node }
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
    const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    const signal = AbortSignal.timeout(READY_MS)
    const ended = once(child, 'exit', { signal }).then(([code, killedBy]) => {
      throw new Error(`the API server ended with ${killedBy ?? `code ${code}`}`)
    })
    const [line] = await Promise.race([once(child.stdout, 'data', { signal }), ended])
    ended.catch(() => undefined)
    const { url, control } = JSON.parse(String(line)) as { url: string; control: string } // the line that api-server-main.ts prints
    return new ApiServerProcess({ child, url, control, services, endpoints })
  }

  private constructor(started: {
    readonly child: ChildProcess
    readonly url: string
    readonly control: string
    readonly services: number
    readonly endpoints: number
  }) {
    this.#child = started.child
    this.url = started.url
    this.#control = started.control
    this.#services = started.services
    this.#endpoints = started.endpoints
  }

  /** The table that the objects require before the first change. */
  expected(): Expected[] {
    return Array.from({ length: this.#services }, (_, service) => this.#fresh(service))
  }

  /** Bytes it has written to its clients so far. */
  async bytesSent(): Promise<number> {
    const { bytesSent = 0 } = await this.#ask('GET', '/counts')
    return bytesSent
  }

  /** Its own processor time so far, in milliseconds. */
  cpuMs(): number {
    return costOf(this.#child.pid ?? 0).cpuMs
  }

  /** Replaces one endpoint of one Service; without a number consecutive changes concern distant Services. */
  async change(service?: number): Promise<Change> {
    this.#turn = (this.#turn + 7919) % this.#services
    const changed = service ?? this.#turn
    const { atNs, addresses = [] } = await this.#ask('POST', `/endpoints?service=${changed}`)
    this.#generation++
    const added = addresses[this.#generation % addresses.length]
    return {
      atMs: Number(atNs) / 1e6,
      expected: [expectedOf(changed, addresses)],
      added: `${added}:${ENDPOINT_PORT}`,
    }
  }

  /** Replaces every endpoint of so many percent of the Services at once. */
  async burst(percent: number): Promise<Written> {
    const { atNs } = await this.#ask('POST', `/replace?percent=${percent}`)
    this.#generation++
    const step = Math.max(1, Math.round(100 / percent))
    const expected: Expected[] = []
    for (let service = 0; service < this.#services; service += step) expected.push(this.#fresh(service))
    return { atMs: Number(atNs) / 1e6, expected }
  }

  async stop(): Promise<void> {
    this.#agent.destroy()
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  #fresh(service: number): Expected {
    return expectedOf(
      service,
      Array.from({ length: this.#endpoints }, (_, endpoint) =>
        endpointAddress(service, endpoint, this.#endpoints, this.#generation),
      ),
    )
  }

  async #ask(method: 'GET' | 'POST', path: string): Promise<Answer> {
    const sent = request(`${this.#control}${path}`, { method, agent: this.#agent }).end()
    const [response] = await once(sent, 'response')
    let text = ''
    for await (const chunk of response) text += chunk
    return JSON.parse(text) // written by api-server-main.ts
  }
}

interface Answer {
  /** Of a change. */
  readonly atNs?: string
  readonly addresses?: string[]
  /** Of the counts. */
  readonly bytesSent?: number
}

function expectedOf(service: number, addresses: readonly string[]): Expected {
  return {
    port: `${namespaceOf(service)}/${serviceName(service)}:http`,
    address: clusterIpOf(service),
    endpoints: new Set(addresses.map((address) => `${address}:${ENDPOINT_PORT}`)),
  }
}
