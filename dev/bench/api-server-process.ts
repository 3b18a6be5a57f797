/**
 * The API server in a process of its own (`api-server-main.ts`), and the changes that the bench
 * makes through it. This file computes addresses as that process does, from the number of changes
 * so far, so only this class may change anything in it.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { clusterIpOf, endpointAddress, namespaceOf, serviceName } from '../api-server/generate.ts'
import type { Answer, Objects, Question } from './api-server-main.ts'
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
  readonly #child: ChildProcess
  readonly #objects: Objects
  #generation = 0
  #turn = 0

  /** Resolves when the server has made all objects and answers. */
  static async start(services: number, endpoints: number, node: string): Promise<ApiServerProcess> {
    const objects = { services, endpoints, node }
    const child = fork(MAIN, [JSON.stringify(objects)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const { url = '' } = await nextAnswer(child, AbortSignal.timeout(READY_MS))
    return new ApiServerProcess(child, url, objects)
  }

  private constructor(child: ChildProcess, url: string, objects: Objects) {
    this.#child = child
    this.url = url
    this.#objects = objects
  }

  /** The table that the objects require before the first change. */
  expected(): Expected[] {
    return Array.from({ length: this.#objects.services }, (_, service) => this.#fresh(service))
  }

  /** Bytes it has written to its clients so far. */
  async bytesSent(): Promise<number> {
    return (await this.#ask('bytes')).bytes ?? 0
  }

  /** Its own processor time so far, in milliseconds. */
  cpuMs(): number {
    return costOf(this.#child.pid ?? 0).cpuMs
  }

  /** Replaces one endpoint of one Service. Consecutive changes concern distant Services. */
  async change(): Promise<Change> {
    const changed = (this.#turn += 7919) % this.#objects.services
    const { atMs = 0, addresses = [] } = await this.#ask({ change: changed })
    this.#generation++
    const added = addresses[this.#generation % addresses.length]
    return { atMs, expected: [expectedOf(changed, addresses)], added: `${added}:${ENDPOINT_PORT}` }
  }

  /** Replaces every endpoint of so many percent of the Services at once. */
  async burst(percent: number): Promise<Written> {
    const { atMs = 0 } = await this.#ask({ burst: percent })
    this.#generation++
    const step = Math.max(1, Math.round(100 / percent))
    const expected: Expected[] = []
    for (let service = 0; service < this.#objects.services; service += step) expected.push(this.#fresh(service))
    return { atMs, expected }
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  #fresh(service: number): Expected {
    const { endpoints } = this.#objects
    const addresses = Array.from({ length: endpoints }, (_, endpoint) =>
      endpointAddress(service, endpoint, endpoints, this.#generation),
    )
    return expectedOf(service, addresses)
  }

  async #ask(question: Question): Promise<Answer> {
    const answered = nextAnswer(this.#child)
    this.#child.send(question)
    const answer = await answered
    if (answer.error !== undefined) throw new Error(`the API server: ${answer.error}`)
    return answer
  }
}

/** Rejects when the process ends instead. */
async function nextAnswer(child: ChildProcess, signal?: AbortSignal): Promise<Answer> {
  const stop = new AbortController()
  const either = { signal: signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal]) }
  const ended = once(child, 'exit', either).then(([code, killedBy]) => {
    throw new Error(`the API server ended with ${killedBy ?? `code ${code}`}`)
  })
  try {
    const [answer] = await Promise.race([once(child, 'message', either), ended])
    return answer as Answer // sent by api-server-main.ts
  } finally {
    ended.catch(() => undefined)
    stop.abort()
  }
}

function expectedOf(service: number, addresses: readonly string[]): Expected {
  return {
    port: `${namespaceOf(service)}/${serviceName(service)}:http`,
    address: clusterIpOf(service),
    endpoints: new Set(addresses.map((address) => `${address}:${ENDPOINT_PORT}`)),
  }
}
