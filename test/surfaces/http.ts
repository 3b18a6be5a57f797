/**
 * Group: the HTTP recordings. Each exchange is sent to our own servers in the state that its group
 * names. That state is reproduced by its cause in the recording (a Node is removed, rules fail,
 * time passes), never by setting the answer.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { flagTexts } from '../../src/start/flag-value.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'
import type { ProxyHealth } from '../../src/daemon/proxy-health.ts'
import { healthResponder, metricsResponder } from '../../src/daemon/servers.ts'
import { HealthChecks } from '../../src/serve/health-checks.ts'
import { HttpListener } from '../../src/serve/http-listener.ts'
import type { HealthCheck } from '../../src/serve/wanted-health-checks.ts'
import { silentLog } from '../../src/values/log.ts'
import { until } from '../support/deadline.ts'
import { listens } from '../support/tcp-client.ts'
import { type Answer, compare, type Exchange, send } from './http-exchange.ts'
import { healthIn } from './http-states.ts'
import type { Recordings, SurfaceCase } from './surface-case.ts'

const FILES = ['health', 'metrics-server', 'health-check-node-port'] as const

/** The file in which the recorded proxy shows its configuration. */
const SHOWING = 'metrics-server'

export const HTTP: readonly Recordings[] = FILES.map((name) => ({
  path: `http/${name}.json`,
  read(file) {
    const showing = join(dirname(file), `${SHOWING}.json`)
    const last = existsSync(showing) ? exchangesIn(showing).findLast(showsConfiguration) : undefined
    let configuration = last === undefined ? defaultConfiguration() : configurationOf(last)
    return exchangesIn(file).map((exchange): SurfaceCase => {
      const { group } = exchange
      if (showsConfiguration(exchange)) configuration = configurationOf(exchange)
      const startedWith = configuration
      return {
        name: `http/${name}/${group}/${exchange.name}`,
        run: () => replay(exchange, healthIn(name, group), startedWith),
      }
    })
  },
}))

const exchangesIn = (file: string): readonly Exchange[] => JSON.parse(readFileSync(file, 'utf8'))

/** The configuration of the recorded proxy, from the page on which it showed it. */
const showsConfiguration = ({ request, body = '' }: Exchange): boolean => request.path === '/configz' && body !== ''

function configurationOf({ body = '' }: Exchange): KubeProxyConfiguration {
  const shown: Readonly<Record<string, unknown>> = JSON.parse(body)
  const result = loadConfiguration(JSON.stringify(shown['kubeproxy.config.k8s.io']), 'configz')
  if ('errors' in result) throw new Error(JSON.stringify(result.errors))
  return result.configuration
}

async function replay(
  exchange: Exchange,
  health: ProxyHealth | undefined,
  configuration: KubeProxyConfiguration,
): Promise<readonly string[]> {
  // Before the process starts there is no server of ours to send a request to.
  if (exchange.group === 'not started') return []
  if (health === undefined) return ['the state of this group is not known']
  const mode = exchange.group.startsWith('iptables') ? 'iptables' : 'ipvs'
  const enableProfiling = exchange.group.endsWith('profiling on')
  const servers = await Servers.open(exchange, health, { ...configuration, mode, enableProfiling })
  try {
    return outcome(exchange, await servers.ask(exchange))
  } catch (error) {
    const refused = error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'
    if (refused && exchange.failure?.includes('Connection refused') === true) return []
    return [`no answer: ${String(error)}`]
  } finally {
    servers.close()
  }
}

function outcome(exchange: Exchange, answer: Answer): readonly string[] {
  if (exchange.failure !== undefined) return [`recorded ${exchange.failure}, ours ${answer.status}`]
  const mismatches = [...compare(exchange, answer, (text) => withoutOwnFlags(exchange, text))]
  if (new Map(answer.headers).get('Content-Encoding') === 'gzip' && gunzipSync(answer.body).toString() !== METRICS)
    mismatches.push('gzip: the page differs')
  return mismatches
}

/** /flagz shows our own flags too, those that kube-proxy does not have. */
function withoutOwnFlags({ request, body = '' }: Exchange, text: string): string {
  if (request.path !== '/flagz') return text
  let rest = text
  for (const name of Object.keys(flagTexts({})))
    if (!new RegExp(`^${name}\\b(?!-)|"${name}"`, 'm').test(body))
      rest = rest.replace(new RegExp(`^${name}: .*\n|"${name}":"[^"]*",?`, 'm'), '')
  return rest.replace(',}', '}')
}

/**
 * Long enough to be sent in chunks, even compressed, as every real page is. Pages themselves are
 * compared elsewhere.
 */
const METRICS = Array.from({ length: 2000 }, (_, index) => `a{b="${(index * 7919) % 10_007}"} ${index}\n`).join('')

/** Health check ports of the recorded Services: demo/lb-dual answers per family. */
const CHECKS: readonly Omit<HealthCheck, 'namespace'>[] = [
  { family: 'IPv4', port: 30900, name: 'lb-with-local', localEndpoints: 2 },
  { family: 'IPv4', port: 30901, name: 'lb-without-local', localEndpoints: 0 },
  { family: 'IPv4', port: 30902, name: 'lb-dual', localEndpoints: 0 },
  { family: 'IPv6', port: 30902, name: 'lb-dual', localEndpoints: 1 },
]

/** All ports of one proxy, on the loopback addresses, at other numbers. */
class Servers {
  readonly #closers: (() => void)[] = []
  /** Our port for each recorded port. */
  readonly #ports = new Map<number, number>()

  static async open(exchange: Exchange, health: ProxyHealth, configuration: KubeProxyConfiguration): Promise<Servers> {
    const servers = new Servers()
    const options = {
      configuration: () => configuration,
      mode: () => configuration.mode,
      health,
      metrics: () => ({
        text: async () => METRICS,
        slis: async () => exchange.body ?? '',
        probes: { answered: () => undefined, checked: () => undefined, resetChecks: () => undefined },
      }),
      flags: () => flagTexts({ config: 'DIR/kp-ipvs.yaml', 'logging.verbosity': 2 }),
      setVerbosity: () => undefined,
      log: silentLog,
    }
    for (const port of [10249, 10256, 30900, 30901, 30902]) servers.#ports.set(port, await freePort())
    for (const [port, answer] of [
      [10249, metricsResponder(options)],
      [10256, healthResponder(options)],
    ] as const)
      for (const address of ['127.0.0.1', '::1']) {
        const failed = (error: Error): void => {
          throw error
        }
        const listener = new HttpListener({
          address,
          port: servers.#ports.get(port) ?? 0,
          answer,
          onFailure: failed,
          retryMs: () => 1000,
        })
        servers.#closers.push(() => listener.close())
        listener.open()
      }
    servers.#openChecks(health)
    // Ports open in the order in which they are asked for.
    const last = servers.#ports.get(CHECKS.at(-1)?.port ?? 0) ?? 0
    await until('the last port', () => listens(last, '::1'))
    return servers
  }

  #openChecks(health: ProxyHealth): void {
    const checks = new HealthChecks({
      nodeName: 'node0',
      isProxyHealthy: () => health.isHealthy,
      onProblem: () => undefined,
      log: silentLog,
    })
    this.#closers.push(() => checks.close())
    checks.listenOn({ IPv4: ['127.0.0.1'], IPv6: ['::1'] })
    checks.update(
      CHECKS.map(({ family, port, ...check }) => {
        const at = this.#ports.get(port) ?? 0
        return { key: `${family} ${at}`, check: { family, port: at, namespace: 'demo', ...check } }
      }),
    )
  }

  ask(exchange: Exchange): Promise<Answer> {
    const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(exchange.request.host) ?? []
    return send(host.startsWith('[') ? '::1' : '127.0.0.1', this.#ports.get(Number(port)) ?? 0, exchange)
  }

  close(): void {
    for (const close of this.#closers) close()
  }
}

/** Below those that the kernel gives to clients; each case has its own, as cases run side by side. */
let nextPort = 12_000 + (process.pid % 1000) * 10

/** Free on both loopback addresses. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = nextPort++
    if ((await isFree(port, '127.0.0.1')) && (await isFree(port, '::1'))) return port
  }
}

function isFree(port: number, host: string): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false)).listen(port, host, () => server.close(() => resolve(true)))
  })
}
