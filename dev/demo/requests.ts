/**
 * Sends requests to every expected address and counts the answers. `sent` counts before the request
 * goes out, so that a request without an answer is never lost.
 */
import { get } from 'node:http'
import type { Expected } from './expected.ts'
import { patience } from './patience.ts'

const TIMEOUT_MS = patience(3000)

export interface RequestCount {
  readonly sent: number
  readonly answered: number
  /** By pod name. */
  readonly perBackend: Readonly<Record<string, number>>
}

export class Requests {
  #sent = 0
  readonly #answers = new Map<string, Map<string, number>>()
  /** URL to the number of requests without an answer. */
  readonly #unanswered = new Map<string, number>()

  /** Sends requests to cluster IPs from the node, as its own programs do, and all others from the client. */
  async send(
    times: number,
    expected: readonly Expected[],
    from: { node(url: string): Promise<string | undefined>; client(url: string): Promise<string | undefined> },
    signal: AbortSignal,
  ): Promise<void> {
    for (const { key, kind, url, realServers } of expected) {
      if (realServers.length === 0) continue
      for (let count = 0; count < times && !signal.aborted; count++) {
        this.#sent++
        const pod = await (kind === 'ClusterIP' ? from.node(url) : from.client(url))
        if (pod === undefined) this.#unanswered.set(url, (this.#unanswered.get(url) ?? 0) + 1)
        else {
          const pods = this.#answers.get(key) ?? new Map<string, number>()
          this.#answers.set(key, pods.set(pod, (pods.get(pod) ?? 0) + 1))
        }
      }
    }
  }

  get answers(): ReadonlyMap<string, ReadonlyMap<string, number>> {
    return this.#answers
  }

  get unanswered(): ReadonlyMap<string, number> {
    return this.#unanswered
  }

  get count(): RequestCount {
    const perBackend: Record<string, number> = {}
    for (const pods of this.#answers.values())
      for (const [pod, times] of pods) perBackend[pod] = (perBackend[pod] ?? 0) + times
    const answered = Object.values(perBackend).reduce((sum, times) => sum + times, 0)
    const sorted = Object.fromEntries(Object.entries(perBackend).sort(([a], [b]) => (a < b ? -1 : 1)))
    return { sent: this.#sent, answered, perBackend: sorted }
  }
}

/**
 * One request: the name of the pod that answered; undefined when no pod answered in time. Without
 * an agent, because a kept connection would reach the same pod again.
 */
export function ask(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: TIMEOUT_MS }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (text: string) => {
        body += text
      })
      response.once('error', () => resolve(undefined))
      response.once('end', () => resolve(response.statusCode === 200 ? body : undefined))
    })
    request.once('timeout', () => request.destroy())
    request.once('close', () => resolve(undefined))
    request.once('error', () => resolve(undefined))
  })
}
