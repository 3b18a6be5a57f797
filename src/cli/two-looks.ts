/**
 * What `kube-ipvs status` sees in two looks, one shortly after the other. A pass may be at work, and
 * the kernel and the daemon are read one after the other, so only what both looks call wrong is.
 */
import { type Answered, type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import type { Names } from '../inspect/names.ts'
import type { DaemonView, RowsView } from '../inspect/view.ts'
import type { KernelState } from '../modes/look/kernel-state.ts'
import { noRows, ROW_STATES } from '../sync/plan.ts'
import type { Status } from './node-status.ts'
import { type Rows, seenRows } from './seen-rows.ts'

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
