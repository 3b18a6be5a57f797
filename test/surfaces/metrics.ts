/**
 * Group: the families of /metrics. Each family of kube-proxy is compared with ours by type, help,
 * labels and buckets; a family that we do not have is a difference, by itself or with its kind.
 */
import { readFileSync } from 'node:fs'
import { goNumber, type MetricFamily } from '../../src/metrics/page.ts'
import { PROXY_IPTABLES } from '../../src/metrics/proxy-page.ts'
import { metricsText, slisText } from '../../src/metrics/scrape.ts'
import { everythingCounted } from '../support/counted.ts'
import { bucketsOf, labelsOf, type ParsedFamily, parseMetrics } from '../support/metrics-text.ts'
import type { Recordings, SurfaceCase } from './surface-case.ts'

interface Recorded {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly labels: readonly string[]
  readonly buckets?: readonly string[]
  readonly ipvs: boolean
}

/** Families of libraries, which are compared together, by the beginning of their names. */
const KINDS: readonly (readonly [kind: string, begin: RegExp])[] = [
  ['go_*', /^go_/],
  ['apiserver_* and aggregator_*', /^(apiserver|aggregator)_/],
  ['metrics about metrics', /^(cardinality_enforcement|disabled_metrics|hidden_metrics|registered_metrics)_/],
  ['rest_client_transport_* and rest_client_exec_plugin_*', /^rest_client_(transport|exec_plugin)_/],
]

export const METRICS: readonly Recordings[] = [
  { path: 'http/metrics.json', read: families },
  {
    path: 'http/metrics-ipvs.txt',
    read: (file) => [{ name: 'metrics/series in ipvs mode', run: async () => missingSeries(file, await ourPage()) }],
  },
  {
    path: 'http/metrics-slis-ipvs.txt',
    read: (file) => [{ name: 'metrics/slis', run: async () => differingSlis(file) }],
  },
]

type Page = ReadonlyMap<string, ParsedFamily>

let made: Promise<Page> | undefined
/** Our own page in ipvs mode, made once. */
function ourPage(): Promise<Page> {
  made ??= metricsText(everythingCounted()).then(parseMetrics)
  return made
}

function families(file: string): SurfaceCase[] {
  const recorded: readonly Recorded[] = JSON.parse(readFileSync(file, 'utf8')).families
  const kindOf = ({ name }: Recorded): string | undefined => KINDS.find(([, begin]) => begin.test(name))?.[0]
  return [
    ...recorded
      .filter((family) => kindOf(family) === undefined)
      .map((family) => ({
        name: `metrics/${family.name}`,
        run: async () =>
          family.ipvs ? differences(family, (await ourPage()).get(family.name)) : later(family, await ourPage()),
      })),
    ...KINDS.map(([kind]) => ({
      name: `metrics/${kind}`,
      run: async () => {
        const ours = await ourPage()
        const missing = recorded.filter((family) => kindOf(family) === kind && !ours.has(family.name))
        return missing.length === 0 ? [] : [`${missing.length} families are not there`]
      },
    })),
  ]
}

/** Families of /metrics/slis that we do not have, or describe in different words. */
function differingSlis(file: string): string[] {
  const ours = parseMetrics(slisText(everythingCounted().probes))
  const theirs = parseMetrics(readFileSync(file, 'utf8'))
  return [...theirs.values()].flatMap((family) => (ours.get(family.name)?.help === family.help ? [] : [family.name]))
}

function differences(family: Recorded, ours: ParsedFamily | undefined): string[] {
  if (ours === undefined) return ['it is not there']
  return compare(family, { ...ours, labels: labelsOf(ours), buckets: bucketsOf(ours) })
}

/** A family of iptables mode alone: described, and not on the page of ipvs mode. */
function later(family: Recorded, page: Page): string[] {
  if (page.has(family.name)) return ['it is there in ipvs mode']
  const ours: MetricFamily | undefined = Object.values(PROXY_IPTABLES).find(({ name }) => name === family.name)
  if (ours === undefined) return ['it is not there']
  const buckets = ours.buckets === undefined ? [] : [...ours.buckets, Number.POSITIVE_INFINITY].map(goNumber)
  return compare(family, { ...ours, buckets })
}

function compare(theirs: Recorded, ours: Omit<Recorded, 'name' | 'ipvs'>): string[] {
  const differs = (what: string, a: unknown, b: unknown): string[] =>
    JSON.stringify(a) === JSON.stringify(b) ? [] : [`${what}: ${JSON.stringify(b)} instead of ${JSON.stringify(a)}`]
  return [
    ...differs('type', theirs.type, ours.type),
    ...differs('help', theirs.help, ours.help),
    ...differs('labels', theirs.labels, ours.labels),
    ...differs('buckets', theirs.buckets ?? [], ours.buckets ?? []),
  ]
}

/** Series of kube-proxy's own families that our page does not have. */
function missingSeries(file: string, page: Page): string[] {
  const series = (family: ParsedFamily | undefined): string[] =>
    (family?.samples ?? []).map(({ name, labels }) => `${name} ${JSON.stringify(Object.fromEntries(labels))}`)
  const ours = new Set([...page.values()].flatMap(series))
  return [...parseMetrics(readFileSync(file, 'utf8')).values()]
    .filter(({ name }) => name.startsWith('kubeproxy_'))
    .flatMap(series)
    .filter((one) => !ours.has(one))
}
