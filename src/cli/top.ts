/**
 * `kube-ipvs top`: connections, packets and bytes a second by Service or by real server, from two
 * reads of the kernel's counters. In a terminal it goes on until a key ends it. It changes nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { askDaemon, type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import { openTraffic, type TrafficReader } from '../traffic/open-traffic.ts'
import { RatesReader } from '../traffic/rates-reader.ts'
import { type Grouping, rowsOf, type SortKey } from '../traffic/rows.ts'
import type { Rates } from '../traffic/sample.ts'
import { deadlineSignal } from '../node/deadline.ts'
import type { FlagValues } from '../start/flags.ts'
import { canDraw } from './key-screen.ts'
import { page, printJson, printLines, screenOfProcess, stderrLog } from '../start/output.ts'
import { outliersOf } from './read-status.ts'
import { ServiceNames } from './service-names.ts'
import { loadSettings } from '../start/settings.ts'
import { type TopRequest, topRequest } from './top-flags.ts'
import { liveTop } from './top-live.ts'
import { topJson } from './top-json.ts'
import { type Outliers, tableText, type TopTable } from './top-text.ts'

/** Opening loads modules, and a first read of many rules may take seconds. */
const DEADLINE_MS = 60_000

/** @param words at most one NAMESPACE or NAMESPACE/NAME. Resolves to the exit code. */
export async function top(flags: FlagValues, words: readonly string[]): Promise<number> {
  const request = topRequest(flags, words)
  const { configuration } = await loadSettings(flags)
  const daemon = askDaemon(configuration.kubeIPVS.socket)
  const view = await daemon.daemon()
  const reader = await openTraffic(
    isUnknown(view) ? undefined : view.mode,
    deadlineSignal(DEADLINE_MS, 'opening the kernel'),
  )
  try {
    const names = new ServiceNames(daemon, () => performance.now())
    const source = new TopSource(reader, names, request, daemon)
    const terminal = screenOfProcess()
    const { input, output, environment } = terminal
    const isLive = flags.once !== true && flags.output !== 'json' && input.isTTY && canDraw(output, environment)
    if (isLive) return await liveTop({ source, request, ...terminal })
    return await topOnce(source, request, flags.output === 'json')
  } finally {
    reader.close()
  }
}

async function topOnce(source: TopSource, { sort, by, intervalMs }: TopRequest, asJson: boolean): Promise<number> {
  const signal = deadlineSignal(DEADLINE_MS + intervalMs, 'reading the traffic')
  // Rates of real servers need two reads of them; connections need the last one only.
  await source.read({ sort, withRealServers: by === 'real-server', signal })
  await sleep(intervalMs)
  const rates = await source.read({ sort, withRealServers: true, signal })
  // Every read but the first has rates.
  if (rates === undefined) return 1
  for (const reason of source.unnamed) stderrLog.warn(`kube-ipvs top: ${reason}`)
  const table = source.table(rates, by, sort, '')
  const { style, columns } = page()
  if (asJson) printJson(topJson(table))
  else printLines(tableText(table, style, columns))
  return 0
}

/** What the lines are made of: rates with names, filtered by the command line. */
export class TopSource {
  readonly #rates: RatesReader
  readonly #mode: TrafficReader['mode']
  readonly #names: ServiceNames
  readonly #request: TopRequest
  readonly #daemon: Pick<DaemonClient, 'outliers'>
  #outliers: Outliers | undefined

  constructor(
    reader: Pick<TrafficReader, 'mode' | 'read'>,
    names: ServiceNames,
    request: TopRequest,
    daemon: Pick<DaemonClient, 'outliers'>,
  ) {
    this.#daemon = daemon
    this.#rates = new RatesReader(reader)
    this.#mode = reader.mode
    this.#names = names
    this.#request = request
  }

  /** Why rows have no names of Services, as lines for people. */
  get unnamed(): readonly string[] {
    const { reason } = this.#names
    if (this.#mode === 'iptables' || reason === undefined) return []
    const isFiltered = this.#request.filter.namespace !== undefined
    const effect = isFiltered ? ', so nothing belongs to the Services that were asked for (use --address)' : ''
    return [`no names of Services: ${reason}${effect}`]
  }

  /** As RatesReader.next. */
  async read(options: Parameters<RatesReader['next']>[0]): Promise<Rates | undefined> {
    const rates = await this.#rates.next(options)
    // Rules have names.
    if (rates === undefined || this.#mode !== 'ipvs') return rates
    await this.#names.refresh(rates.places.keys())
    this.#outliers = await outliersOf(this.#daemon)
    return rates
  }

  table(rates: Rates, by: Grouping, sort: SortKey, text: string): TopTable {
    const filter = { ...this.#request.filter, ...(text === '' ? {} : { text }) }
    const outliers = this.#outliers && { outliers: this.#outliers }
    return { rates, rows: rowsOf(rates, by, this.#names.nameOf, filter), by, sort, ...outliers }
  }
}
