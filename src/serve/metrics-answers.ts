/**
 * Answers of the metrics port: /metrics and the other pages of kube-proxy. Paths are compared
 * exactly (`/metrics/` is 404) and the method does not matter, as in kube-proxy. Simultaneous
 * scrapes share one page.
 * @impure
 */
import { promisify } from 'node:util'
import { flagz, statusz, type Component } from './component-pages.ts'
import {
  type HttpAnswer,
  type HttpRequest,
  jsonAnswer,
  NOT_FOUND,
  queryValue,
  type Responder,
  textAnswer,
} from './http-answer.ts'

/** The metrics in Prometheus' text format. */
export interface ServedMetrics {
  text(): Promise<string>
  /** The page of /metrics/slis. */
  slis(): Promise<string>
  readonly probes: {
    /** Counts a check of /healthz, such as `ping`. */
    checked(name: string, passed: boolean): void
    /** Resets the counts of these checks. */
    resetChecks(): void
  }
}

/** Where the metrics port gets its answers from. */
export interface MetricsPort {
  /** The active mode: `ipvs`. */
  readonly mode: () => string
  /** Returns undefined while the program starts. */
  readonly metrics: () => ServedMetrics | undefined
  /** The configuration in force as the v1alpha1 object. */
  readonly configuration: () => Readonly<Record<string, unknown>>
  readonly component: Component
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Answers all paths below /debug; without it they are 404. */
  readonly debug?: Responder
}

const CONFIG_KEY = 'kubeproxy.config.k8s.io'
/** How a scraper wants metric names escaped that are not plain ASCII; our names are. */
const ESCAPING = /;\s*escaping=(allow-utf-8|underscores|dots|values)\b/

export class MetricsAnswers {
  readonly #port: MetricsPort
  readonly #pages: Readonly<Record<string, (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>>>

  constructor(port: MetricsPort) {
    this.#port = port
    const { component, mode } = port
    this.#pages = {
      '/metrics': (request) => this.#metrics(request, port.metrics()?.text()),
      '/metrics/slis': (request) => this.#slis(request),
      '/proxyMode': () => textAnswer(mode()),
      '/configz': () => this.#configz(),
      '/healthz': ({ query }) => this.#healthz(query),
      '/healthz/ping': () => ({ status: 200, headers: [], guessedType: 'text/plain; charset=utf-8', body: 'ok' }),
      '/statusz': (request) => statusz(component, request.header('accept'), port.clock()),
      '/flagz': (request) => flagz(component, request.header('accept')),
    }
  }

  answer(request: HttpRequest): HttpAnswer | Promise<HttpAnswer> {
    const { path } = request
    if (Object.hasOwn(this.#pages, path)) return this.#pages[path]?.(request) ?? NOT_FOUND
    if (path.startsWith('/debug/') && this.#port.debug !== undefined) return this.#port.debug(request)
    return NOT_FOUND
  }

  async #metrics(request: HttpRequest, page: Promise<string> | undefined): Promise<HttpAnswer> {
    const text = await page
    if (text === undefined) return textAnswer('starting\n', 503)
    const gzip = acceptsGzip(request.header('accept-encoding') ?? '')
    const escaping = ESCAPING.exec(request.header('accept') ?? '')?.[1] ?? 'underscores'
    return {
      status: 200,
      headers: [
        ...(gzip ? [['Content-Encoding', 'gzip'] as const] : []),
        ['Content-Type', `text/plain; version=0.0.4; charset=utf-8; escaping=${escaping}`],
        ['Process-Start-Time-Unix', String(Math.floor(this.#port.component.startedMs / 1000))],
      ],
      body: gzip ? await zip(text) : text,
    }
  }

  #slis(request: HttpRequest): HttpAnswer | Promise<HttpAnswer> {
    const metrics = this.#port.metrics()
    if (request.method !== 'DELETE') return this.#metrics(request, metrics?.slis())
    metrics?.probes.resetChecks()
    return { status: 200, headers: [], guessedType: 'text/plain; charset=utf-8', body: 'metrics reset\n' }
  }

  #configz(): HttpAnswer {
    const { kind, apiVersion, ...fields } = this.#port.configuration()
    return jsonAnswer(JSON.stringify({ [CONFIG_KEY]: { kind, apiVersion, ...fields } }))
  }

  #healthz(query: string): HttpAnswer {
    this.#port.metrics()?.probes.checked('ping', true)
    return textAnswer(queryValue(query, 'verbose') === undefined ? 'ok' : '[+]ping ok\nhealthz check passed\n')
  }
}

function acceptsGzip(header: string): boolean {
  return header.split(',').some((part) => /^\s*(x-)?gzip\s*(;(?!\s*q=0(\.0*)?\s*$).*)?$/i.test(part))
}

/** Loads zlib with the first compressed answer. */
async function zip(text: string): Promise<Buffer> {
  const { gzip } = await import('node:zlib')
  return promisify(gzip)(text)
}
