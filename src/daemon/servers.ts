/**
 * The health port and the metrics port, opened where the configuration says.
 * What could break: a port that somebody else has is tried again for ever, and everything else works meanwhile, unless
 * bindAddressHardFail asks for the opposite. The texts are those that operators of kube-proxy look for.
 */
import { getSystemErrorMessage } from 'node:util'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { toV1alpha1 } from '../config/write.ts'
import { answerHealth, type HealthPath, type HealthState } from '../serve/health-answers.ts'
import type { Responder } from '../serve/http-answer.ts'
import { HttpListener } from '../serve/http-listener.ts'
import { MetricsAnswers, type ServedMetrics } from '../serve/metrics-answers.ts'
import { parseAddressSloppy, parseEndpoint } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { KUBE_PROXY_RELEASE, VERSION } from '../values/well-known.ts'

/** The program's metrics, and what is counted of probes. */
export interface ProbedMetrics extends ServedMetrics {
  readonly probes: ServedMetrics['probes'] & { answered(path: 'healthz' | 'livez', status: number): void }
}

export interface ServersOptions {
  /** As it is in force; where to listen is read from it once. */
  readonly configuration: () => KubeProxyConfiguration
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
  /** Both ports listen. Rejects with `bind-failed` where bindAddressHardFail is set; pends while a port is taken else. */
  readonly ready: Promise<void>
  /** Closes the ports with all their connections. */
  close(): void
}

/** kube-proxy's own. */
const RETRY_MS = 5000
/** A port that stays taken is a line once a minute. */
const ATTEMPTS_PER_LINE = 12

export function openServers(options: ServersOptions): Servers {
  const { configuration, log } = options
  const { healthzBindAddress, metricsBindAddress, bindAddressHardFail } = configuration()
  const ports = [
    new ServedPort({
      address: healthzBindAddress,
      answer: healthAnswering(options),
      message: 'Healthz server failed',
      reason: (error) => `failed to start proxy healthz on ${healthzBindAddress}: ${error}`,
      fatal: 'healthz server failed: ',
      log,
    }),
    new ServedPort({
      address: metricsBindAddress,
      answer: metricsAnswering(options),
      message: 'starting metrics server failed',
      reason: (error) => error,
      fatal: '',
      log,
    }),
  ]
  log.verbose(3, 'Starting healthz HTTP server', { address: healthzBindAddress })
  const opened = ports.map((port) => port.open(bindAddressHardFail))
  return {
    ready: Promise.all(opened).then(() => undefined),
    close: () => {
      for (const port of ports) port.close()
    },
  }
}

export function healthAnswering({ health, metrics }: ServersOptions): Responder {
  const onAnswer = (path: HealthPath, status: number): void =>
    metrics()?.probes.answered(path === '/healthz' ? 'healthz' : 'livez', status)
  const port = { state: () => health.state, clock: Date.now, onAnswer }
  return ({ method, path, query }) => answerHealth(port, method, path, query)
}

export function metricsAnswering({ configuration, metrics, flags, setVerbosity }: ServersOptions): Responder {
  const { mode, enableProfiling } = configuration()
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
  /** Line of the log when it cannot be opened. */
  readonly message: string
  readonly reason: (error: string) => string
  /** What stands before the reason when it ends the program. */
  readonly fatal: string
  readonly log: Log
}

class ServedPort {
  readonly #options: ServedPortOptions
  #listener: HttpListener | undefined

  constructor(options: ServedPortOptions) {
    this.#options = options
  }

  /** Resolves when the port listens, however late. `hard`: rejects with `bind-failed` when it cannot be had at once. */
  open(hard: boolean): Promise<void> {
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
          if (isTaken) log.info('The port is free now and is served', { address: text })
          isTaken = false
          resolve()
        },
        onFailure: (error, attempts) => {
          isTaken = true
          const why = reason(`listen tcp ${text}: bind: ${textOf(error)}`)
          if (attempts % ATTEMPTS_PER_LINE === 1) log.error(message, { err: why })
          if (!hard) return
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
