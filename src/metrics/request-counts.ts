/**
 * Counts requests to the API server as client-go does (rest_client_*).
 * What could break: a watch lasts for minutes. Its request counts until the server lets it go on; client-go leaves watches out,
 * and then a proxy that only watches would have no latency at all.
 */
import { REQUEST_BYTES, REQUEST_SECONDS } from './buckets.ts'
import { Histogram } from './histogram.ts'

/** What is counted of one method on one server. */
class EndpointCounts {
  readonly host: string
  readonly method: string
  readonly seconds = new Histogram(REQUEST_SECONDS)
  /** Time spent waiting because of `clientConnection.qps`. */
  readonly limiterSeconds = new Histogram(REQUEST_SECONDS)
  readonly requestBytes = new Histogram(REQUEST_BYTES)
  readonly responseBytes = new Histogram(REQUEST_BYTES)
  /** By status code; `<error>` when there was no answer. */
  readonly results = new Map<string, number>()

  constructor(host: string, method: string) {
    this.host = host
    this.method = method
  }
}

export class RequestCounts {
  readonly #endpoints = new Map<string, EndpointCounts>()

  get endpoints(): Iterable<EndpointCounts> {
    return this.#endpoints.values()
  }

  /**
   * A request was answered, or not (`status` undefined). @param durationMs from sending it to the answer's headers
   * @param bodyBytes of the request
   */
  requested(method: string, host: string, status: number | undefined, durationMs: number, bodyBytes: number): void {
    const counts = this.#of(method, host)
    const code = status === undefined ? '<error>' : String(status)
    counts.results.set(code, (counts.results.get(code) ?? 0) + 1)
    counts.seconds.observe(durationMs / 1000)
    counts.limiterSeconds.observe(0)
    counts.requestBytes.observe(bodyBytes)
  }

  /** A whole answer was read; that of a watch never is. */
  received(method: string, host: string, bodyBytes: number): void {
    this.#of(method, host).responseBytes.observe(bodyBytes)
  }

  #of(method: string, host: string): EndpointCounts {
    const key = `${method} ${host}`
    let counts = this.#endpoints.get(key)
    if (counts === undefined) {
      counts = new EndpointCounts(host, method)
      this.#endpoints.set(key, counts)
    }
    return counts
  }
}
