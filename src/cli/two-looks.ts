/**
 * What `kube-ipvs status` sees in two looks, one shortly after the other. A pass may be at work, and
 * the kernel and the daemon are read one after the other, so only what both looks call wrong is.
 */
import type { Wanted } from '../explain/wanted.ts'
import { type Answered, type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import type { Names } from '../inspect/names.ts'
import type { DaemonView, RowsView } from '../inspect/view.ts'
import type { KernelState } from '../modes/look/kernel-state.ts'
import { noRows, ROW_STATES } from '../sync/plan.ts'
import type { Status } from './node-status.ts'

type Rows = NonNullable<Status['rows']>
type Table = Rows['tables'][number]

const WRONG_STATES = ['missing', 'extra', 'differs'] as const

export interface Looked {
  readonly state: KernelState
  /** null: no daemon told them. */
  readonly rows: Status['rows']
  /** undefined: no daemon told them. */
  readonly names: Names | undefined
}

export interface LookOptions {
  readonly readKernel: () => Promise<KernelState>
  readonly client: Pick<DaemonClient, 'names' | 'rows'>
  /** null: there is none to ask. */
  readonly daemon: Pick<DaemonView, 'mode' | 'families'> | null
  /** Until what seems to be wrong is looked for again. */
  readonly pause: () => Promise<void>
}

/** Looks once where nothing is wrong, else twice. */
export async function lookTwice(options: LookOptions): Promise<Looked> {
  const first = await look(options)
  if (first.rows === null || (first.rows.unread.length === 0 && first.rows.wrong.length === 0)) return first
  await options.pause()
  const second = await look(options)
  return { ...second, rows: second.rows && wrongInBoth(first.rows, second.rows) }
}

/** The names come after the kernel: a Service that is deleted in between is not missing there. */
async function look({ readKernel, client, daemon }: LookOptions): Promise<Looked> {
  const state = await readKernel()
  if (daemon === null) return { state, rows: null, names: undefined }
  const asked = await client.names()
  const names = isUnknown(asked) ? undefined : asked
  const rows = rowsIn(await client.rows())
  return { state, names, rows: rows === null || names === undefined ? rows : seenRows(rows, names, state, daemon) }
}

function rowsIn(answer: Answered<RowsView>): Status['rows'] {
  if (isUnknown(answer)) return null
  const { tables, unread, wrong } = answer
  return { ...sumOf(tables), tables, unread, wrong }
}

function sumOf(tables: Rows['tables']): ReturnType<typeof noRows> {
  const sum = noRows()
  for (const state of ROW_STATES) for (const table of tables) sum[state] += table[state]
  return sum
}

/**
 * The second look, with the rows that are wrong in both. A look names only its first wrong rows:
 * where it leaves out some of a table, the smaller count of both looks is taken. A table that the
 * daemon had not read at the first look has not been seen twice.
 */
export function wrongInBoth(first: Rows, second: Rows): Rows {
  const earlier = new Set(first.wrong.map(({ table, key }) => `${table} ${key}`))
  const wrong = second.wrong.filter(({ table, key }) => earlier.has(`${table} ${key}`))
  const before = new Map(first.tables.map((one) => [one.table, one]))
  const tables = second.tables.flatMap((after): Table[] => {
    const { table } = after
    const then = before.get(table)
    if (then === undefined) return []
    const namesAll = isNamed(then, first.wrong) && isNamed(after, second.wrong)
    const counts = { ...after }
    for (const state of WRONG_STATES) {
      const inBoth = wrong.filter((row) => row.table === table && row.state === state).length
      counts[state] = namesAll ? inBoth : Math.max(inBoth, Math.min(then[state], after[state]))
    }
    // What is wanted and was wrong in one look only has just been written, or is being written.
    counts.present += after.missing + after.differs - counts.missing - counts.differs
    return [counts]
  })
  const counted = new Set(tables.map(({ table }) => table))
  const late = second.tables.map(({ table }) => table).filter((table) => !counted.has(table))
  return { ...sumOf(tables), tables, unread: [...second.unread, ...late], wrong }
}

/** Whether every wrong row of the table is among the named ones. */
function isNamed(table: Table, wrong: Rows['wrong']): boolean {
  const named = wrong.filter((row) => row.table === table.table).length
  return named >= table.missing + table.extra + table.differs
}

const TABLE: Wanted['table'] = 'virtual-servers'
/** So many rows are named, as in the daemon's answer. */
const MAX_WRONG = 100

/**
 * What this command sees of the rows that the daemon counted: virtual servers of Services that the
 * kernel lacks now count as missing, because IPVS announces no changes, and of a virtual server that
 * another program has just deleted the daemon learns at its next audit. `names` are those that the
 * daemon serves.
 */
export function seenRows(
  rows: Rows,
  names: Names,
  { ipvs }: Pick<KernelState, 'ipvs'>,
  { mode, families }: Pick<DaemonView, 'mode' | 'families'>,
): Rows {
  if (mode !== 'ipvs' || ipvs === null || rows.unread.includes(TABLE)) return rows
  const known = new Set(ipvs.virtualServers.map(({ key }) => key))
  const named = rows.wrong.filter(({ table }) => table === TABLE)
  for (const { key } of named) known.add(key)
  const lost = Array.from(names.keys()).filter(
    (key) => families.includes(key.startsWith('[') ? 'IPv6' : 'IPv4') && !known.has(key),
  )
  if (lost.length === 0) return rows
  // The daemon names only some of those that it counts.
  const missing = rows.tables.find(({ table }) => table === TABLE)?.missing ?? 0
  const unnamed = missing - named.filter(({ state }) => state === 'missing').length
  const more = Math.max(0, lost.length - unnamed)
  const move = <Counts extends Rows | Rows['tables'][number]>(counts: Counts): Counts => ({
    ...counts,
    missing: counts.missing + more,
    present: Math.max(0, counts.present - more),
  })
  return {
    ...move(rows),
    tables: rows.tables.map((one) => (one.table === TABLE ? move(one) : one)),
    wrong: [...rows.wrong, ...lost.map((key) => ({ table: TABLE, key, state: 'missing' as const }))].slice(
      0,
      MAX_WRONG,
    ),
  }
}
