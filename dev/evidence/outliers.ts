/**
 * The part `outliers` of the evidence: how soon endpoints that die get no new connection, and
 * whether endpoints that live are taken for dead on a bad network, in a guest kernel.
 */
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice } from '../kernel/choice.ts'
import { chooseKernel } from '../kernel/choose.mjs'
import { ensurePackages } from '../packages.mjs'
import { say } from '../progress.mjs'
import type { FileResult } from '../testing/result.ts'
import { OUTLIER_ROW_VARIABLE, type OutlierFigures, type OutlierRow } from './outliers/row.ts'
import type { Part, PartOptions, PartResult } from './part.ts'
import { runTestFiles } from './test-files.ts'

const FILE = 'test/kernel/outlier-deaths.test.ts'
const TOOLS = ['ip', 'ipvsadm', 'iptables', 'ipset', 'nft', 'tc', 'prlimit']
/** A million connections in all; the hours scale the last row. */
const ROWS: readonly (OutlierRow & { readonly what: string })[] = [
  { what: 'beside 10,000 Services', perSecond: 20, services: 6, rounds: 17, impairedS: 30, others: 10_000 },
  { what: 'few connections', perSecond: 5, services: 12, rounds: 4, impairedS: 30, others: 0 },
  { what: 'a bad network', perSecond: 20, services: 20, rounds: 1, impairedS: 630, others: 0 },
]
const HOURS = 0.5
/** A row may take so many times as long as a test file. */
const DEADLINE_FACTOR = '3'
/** What is promised for endpoints of 20 connections a second. */
const [PROMISED_MS, PROMISED_PER_SECOND] = [3500, 20]

export const outliers: Part = {
  name: 'outliers',
  purpose: 'how soon endpoints that die get no new connection, and whether living ones do on a network that loses 2 %',
  run: measure,
}

async function measure({ hours = HOURS, signal }: PartOptions): Promise<PartResult> {
  await ensurePackages(TOOLS)
  const choice = (await chooseKernel(process.env)) as KernelChoice // as dev/kernel/choice.ts describes it
  const { entry } = await bundle()
  const problems: string[] = []
  const table: Record<string, string | number>[] = []
  for (const { what, ...row } of ROWS) {
    signal.throwIfAborted()
    const scaled = { ...row, impairedS: Math.ceil((row.impairedS * hours) / HOURS) }
    say(`  ${what}: ${JSON.stringify(scaled)} ...`)
    const results = await runTestFiles({
      choice,
      files: [FILE],
      program: entry,
      leastFactor: DEADLINE_FACTOR,
      env: { [OUTLIER_ROW_VARIABLE]: JSON.stringify(scaled) },
      signal,
    })
    for (const result of results)
      problems.push(...result.failures.map(({ name, text }) => `${what}: ${name}: ${text.split('\n')[0] ?? ''}`))
    const figures = figuresOf(results)
    problems.push(...problemsOf(what, row, figures))
    table.push({ what, 'connections a second of each endpoint': row.perSecond, ...figures })
  }
  const sum = (name: string): number => table.reduce((all, line) => all + Number(line[name] ?? 0), 0)
  return {
    problems,
    kernel: describeKernel(choice),
    network: 'netem: 2 % lost, and 300 ms late, in each direction',
    deaths: sum('deaths'),
    connections: sum('connections'),
    suspicions: sum('suspicions'),
    table,
  }
}

/** What its tests told, in one object. */
function figuresOf(results: readonly FileResult[]): OutlierFigures {
  const told = results.flatMap((result) => result.told).map((text) => text.slice(text.indexOf('{')))
  return Object.assign({}, ...told.map((text) => JSON.parse(text) as OutlierFigures)) as OutlierFigures // as the test writes it
}

function problemsOf(what: string, { perSecond }: OutlierRow, figures: OutlierFigures): string[] {
  const { p99Ms, suspicions } = figures
  const isLate = perSecond >= PROMISED_PER_SECOND && !((p99Ms ?? Number.NaN) <= PROMISED_MS)
  return [
    ...(isLate ? [`${what}: the last new connection came after ${p99Ms} ms in 1 of 100 deaths`] : []),
    ...(suspicions === 0 ? [] : [`${what}: living endpoints were suspected ${suspicions} times`]),
  ]
}
