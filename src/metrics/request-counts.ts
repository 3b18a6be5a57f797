/**
 * Counts requests to the API server as client-go does (rest_client_*). A watch lasts for minutes,
 * so every request is measured until the headers of its answer. client-go leaves watches out, and a
 * proxy, which only watches, would then show no latency.
 */
import { Histogram, REQUEST_BYTES, REQUEST_SECONDS } from './histogram.ts'

/** The counts of one HTTP method on one server. */
class EndpointCounts {
  readonly host: string
  readonly method: string
  readonly seconds = new Histogram(REQUEST_SECONDS)
  /** Time waited because of `clientConnection.qps`: always 0, since requests are not limited. */
  readonly limiterSeconds = new Histogram(REQUEST_SECONDS)
  readonly requestBytes = new Histogram(REQUEST_BYTES)
  readonly responseBytes = new Histogram(REQUEST_BYTES)
  /** Requests by status code; `<error>` when there was no answer. */
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
   * Counts one request. @param status undefined when there was no answer
   * @param durationMs from sending the request to the headers of the answer @param bodyBytes of the
   * request
   */
  requested(method: string, host: string, status: number | undefined, durationMs: number, bodyBytes: number): void {
    const counts = this.#of(method, host)
    const code = status === undefined ? '<error>' : String(status)
    counts.results.set(code, (counts.results.get(code) ?? 0) + 1)
    counts.seconds.observe(durationMs / 1000)
    counts.limiterSeconds.observe(0)
    counts.requestBytes.observe(bodyBytes)
  }

  /** Counts a body that was read to its end; the body of a watch has no end. */
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
