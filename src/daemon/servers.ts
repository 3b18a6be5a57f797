/**
 * The health port and the metrics port, at the addresses of the configuration. A port that another
 * program has is retried until it is free, while everything else works; with bindAddressHardFail it
 * ends the daemon. The texts are kube-proxy's, because operators search for them.
 */
import { getSystemErrorMessage } from 'node:util'
import type { KubeProxyConfiguration, ProxyMode } from '../config/types.ts'
import { toV1alpha1 } from '../config/write.ts'
import { answerHealth, type HealthPath, type HealthState } from '../serve/health-answers.ts'
import type { Responder } from '../serve/http-answer.ts'
import { HttpListener } from '../serve/http-listener.ts'
import { MetricsAnswers, type ServedMetrics } from '../serve/metrics-answers.ts'
import { parseAddressSloppy, parseEndpoint } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { KUBE_PROXY_RELEASE, VERSION } from '../values/well-known.ts'

/** The metrics of the program, with the counters of probes. */
export interface ProbedMetrics extends ServedMetrics {
  readonly probes: ServedMetrics['probes'] & { answered(path: 'healthz' | 'livez', status: number): void }
}

export interface ServersOptions {
  /** The configuration in force; the addresses of the ports are read once. */
  readonly configuration: () => KubeProxyConfiguration
  /** The mode that the proxy runs in; until its kernel is open the configured one. */
  readonly mode: () => ProxyMode
  readonly health: { readonly state: HealthState }
  /** Undefined while the program starts. */
  readonly metrics: () => ProbedMetrics | undefined
  /** For /flagz: every flag with its value. */
  readonly flags: () => Readonly<Record<string, string>>
  /** Changes klog's -v. */
  readonly setVerbosity: (level: number) => void
  readonly log: Log
}

export interface Servers {
  /**
   * Resolves when both ports listen. With bindAddressHardFail it rejects with `bind-failed`,
   * otherwise it waits for a taken port.
   */
  readonly ready: Promise<void>
  /** Closes the ports with all their connections. */
  close(): void
}

/** As in kube-proxy. */
const RETRY_MS = 5000
/** A port that stays taken is logged once a minute. */
const ATTEMPTS_PER_LINE = 12

export function openServers(options: ServersOptions): Servers {
  const { configuration, log } = options
  const { healthzBindAddress, metricsBindAddress, bindAddressHardFail } = configuration()
  // An empty address switches its port off, as in kube-proxy.
  const ports = [
    new ServedPort({
      address: healthzBindAddress,
      answer: healthResponder(options),
      message: 'Healthz server failed',
      reason: (error) => `failed to start proxy healthz on ${healthzBindAddress}: ${error}`,
      fatal: 'healthz server failed: ',
      log,
    }),
    new ServedPort({
      address: metricsBindAddress,
      answer: metricsResponder(options),
      message: 'starting metrics server failed',
      reason: (error) => error,
      fatal: '',
      log,
    }),
  ].filter(({ address }) => address !== '')
  log.verbose(3, 'Starting healthz HTTP server', { address: healthzBindAddress })
  const opened = ports.map((port) => port.open(bindAddressHardFail))
  return {
    ready: Promise.all(opened).then(() => undefined),
    close: () => {
      for (const port of ports) port.close()
    },
  }
}

/** Answers /healthz and /livez. */
export function healthResponder({ health, metrics }: ServersOptions): Responder {
  const onAnswer = (path: HealthPath, status: number): void =>
    metrics()?.probes.answered(path === '/healthz' ? 'healthz' : 'livez', status)
  const port = { state: () => health.state, clock: Date.now, onAnswer }
  return ({ method, path, query }) => answerHealth(port, method, path, query)
}

/** Answers every path of the metrics port. */
export function metricsResponder({ configuration, mode, metrics, flags, setVerbosity }: ServersOptions): Responder {
  const { enableProfiling } = configuration()
  const debug: Responder = async (request) =>
    (await import('../serve/debug-answers.ts')).answerDebug({ setVerbosity }, request)
  const answers = new MetricsAnswers({
    mode,
    metrics,
    configuration: () => toV1alpha1(configuration()),
    component: {
      name: 'kube-ipvs',
      version: VERSION,
      emulates: `${KUBE_PROXY_RELEASE.major}.${KUBE_PROXY_RELEASE.minor}`,
      runtime: `node${process.versions.node}`,
      startedMs: performance.timeOrigin,
      flags: flags(),
    },
    clock: Date.now,
    ...(enableProfiling ? { debug } : {}),
  })
  return (request) => answers.answer(request)
}

interface ServedPortOptions {
  /** `IP:port`, checked with the configuration. */
  readonly address: string
  readonly answer: Responder
  /** Log message when the port cannot be opened. */
  readonly message: string
  readonly reason: (error: string) => string
  /** Precedes the reason when it ends the program. */
  readonly fatal: string
  readonly log: Log
}

class ServedPort {
  readonly #options: ServedPortOptions
  #listener: HttpListener | undefined

  constructor(options: ServedPortOptions) {
    this.#options = options
  }

  get address(): string {
    return this.#options.address
  }

  /**
   * Resolves when the port listens, however late. With `isHard` it rejects with `bind-failed` when
   * the first attempt fails.
   */
  open(isHard: boolean): Promise<void> {
    const { address: text, answer, message, reason, fatal, log } = this.#options
    const { address, port } = parseEndpoint(text)
    return new Promise((resolve, reject) => {
      let isTaken = false
      this.#listener = new HttpListener({
        address: parseAddressSloppy(address) ?? address,
        port,
        bothFamilies: true,
        answer,
        retryMs: () => RETRY_MS,
        onOpen: () => {
          if (isTaken) log.info('The port is free now and open', { address: text })
          isTaken = false
          resolve()
        },
        onFailure: (error, attempts) => {
          isTaken = true
          const why = reason(`listen tcp ${text}: bind: ${textOf(error)}`)
          if (attempts % ATTEMPTS_PER_LINE === 1) log.error(message, { err: why })
          if (!isHard) return
          this.close()
          reject(new CodedError('bind-failed', fatal + why))
        },
        onError: (error) => log.error('A request could not be answered', { address: text, error }),
      })
      this.#listener.open()
    })
  }

  close(): void {
    this.#listener?.close()
  }
}

function textOf(error: NodeJS.ErrnoException): string {
  return error.errno === undefined ? error.message : getSystemErrorMessage(error.errno)
}
