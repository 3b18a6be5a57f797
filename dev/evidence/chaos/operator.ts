/** What an operator sees of a node in trouble: probes each second, the counters, the log and `kube-ipvs status`. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { METRICS_URL, metricsPage } from '../../bench/metrics-page.ts'
import type { Operator } from './fault.ts'

const HEALTH = 'http://127.0.0.1:10256'
const PERIOD_MS = 1_000
const PROBE_MS = 2_000
/** Lines that are kept. */
const LINES = 12
/** Counters that an operator has alerts for, and how many requests the API server got. */
const COUNTERS =
  /^(kubeipvs_(?:audit_failures|drift_repaired|read_failures|rival_writes|sync_failures)_total|kubeproxy_sync_proxy_rules_iptables_restore_failures_total|rest_client_requests_total)(?:\{[^}]*\})? (\S+)$/gm

const run = promisify(execFile)

export class OperatorView {
  readonly #status: readonly string[]
  readonly #log: () => string
  readonly #startMs = performance.now()
  readonly #abort = new AbortController()
  readonly #running: Promise<unknown>
  readonly #probed = { livez: [] as string[], healthz: [] as string[] }
  #before = new Map<string, number>()
  #counted = new Map<string, number>()
  readonly #logBefore: number

  /** @param status the command line of `kube-ipvs status` @param log everything logged so far */
  static async begin(status: readonly string[], log: () => string): Promise<OperatorView> {
    const view = new OperatorView(status, log)
    view.#before = countersOf(await metricsPage(METRICS_URL))
    return view
  }

  private constructor(status: readonly string[], log: () => string) {
    this.#status = status
    this.#log = log
    this.#logBefore = log().length
    this.#running = Promise.all((['livez', 'healthz'] as const).map((path) => this.#probe(path)))
  }

  async #probe(path: 'livez' | 'healthz'): Promise<void> {
    const { signal } = this.#abort
    let last = ''
    while (!signal.aborted) {
      const atMs = performance.now() - this.#startMs
      // A single probe without an answer is no trouble, as for a kubelet.
      let answer = await probe(path)
      if (answer === 'none') answer = await probe(path)
      if (answer !== last)
        this.#probed[path].push(last === '' ? answer : `${answer} after ${Math.round(atMs / 1000)} s`)
      last = answer
      await sleep(PERIOD_MS, undefined, { signal }).catch(() => undefined)
    }
  }

  /** What `kube-ipvs status` and the counters say now. */
  async look(): Promise<readonly string[]> {
    const page = await Promise.race([metricsPage(METRICS_URL), sleep(5_000).then(() => '')])
    if (page !== '') this.#counted = countersOf(page)
    const [program = '', ...args] = this.#status
    const { stdout } = await run(program, args, { timeout: 30_000, maxBuffer: 64 << 20 }).catch((error: unknown) =>
      Object(error),
    )
    return verdictOf(String(stdout))
  }

  async end(status: readonly string[]): Promise<Operator> {
    this.#abort.abort()
    await this.#running
    // A program that was started again counts from 0.
    const grown = [...this.#counted].map(([name, value]) => {
      const before = this.#before.get(name) ?? 0
      return [name, value >= before ? value - before : value] as const
    })
    return {
      livez: shortened(this.#probed.livez),
      healthz: shortened(this.#probed.healthz),
      status,
      metrics: Object.fromEntries(grown.filter(([, value]) => value > 0)),
      log: troublesIn(this.#log().slice(this.#logBefore)),
    }
  }
}

/** The status, or `none`. */
async function probe(path: string): Promise<string> {
  try {
    const response = await fetch(`${HEALTH}/${path}`, { signal: AbortSignal.timeout(PROBE_MS) })
    await response.text()
    return `${response.status}`
  } catch {
    return 'none'
  }
}

/** The sums of the families that are counted. */
export function countersOf(page: string): Map<string, number> {
  const sums = new Map<string, number>()
  for (const [, family = '', value] of page.matchAll(COUNTERS))
    sums.set(family, (sums.get(family) ?? 0) + Number(value))
  return sums
}

/** Warnings and errors by their text, in the order in which they first came. */
export function troublesIn(log: string): Record<string, number> {
  const counts = new Map<string, number>()
  for (const [, line = ''] of log.matchAll(/^[WE]\d{4} \S+ +\d+ [^\]]+\] (.*)$/gm)) {
    const text = line.replaceAll(/\s+/g, ' ').slice(0, 200)
    const key = [...counts.keys()].find((known) => titleOf(known) === titleOf(text)) ?? text
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return Object.fromEntries([...counts].slice(0, LINES))
}

const titleOf = (line: string): string => /^"(?:[^"\\]|\\.)*"/.exec(line)?.[0] ?? line

/** Of `kube-ipvs status --output json`. */
export function verdictOf(output: string): readonly string[] {
  try {
    const { verdict } = JSON.parse(output) as { verdict: { fine: boolean | null; reasons: readonly unknown[] } } // docs/inspect.md
    const fine = verdict.fine === null ? 'unknown' : verdict.fine ? 'fine' : 'not fine'
    return [fine, ...verdict.reasons.map((reason) => (typeof reason === 'string' ? reason : JSON.stringify(reason)))]
  } catch {
    return ['no answer']
  }
}

/** At most six changes. */
const shortened = (answers: readonly string[]): string =>
  answers.length <= 6 ? answers.join(', ') : `${answers.slice(0, 6).join(', ')} and ${answers.length - 6} more changes`
