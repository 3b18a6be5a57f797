/**
 * What this command sees of the rows that the daemon counted: IPVS announces no changes, so of a
 * virtual server that another program has just deleted the daemon learns at its next audit.
 */
import type { Wanted } from '../explain/wanted.ts'
import type { Names } from '../inspect/names.ts'
import type { DaemonView } from '../inspect/view.ts'
import type { KernelState } from '../modes/look/kernel-state.ts'
import type { Status } from './node-status.ts'

const TABLE: Wanted['table'] = 'virtual-servers'
/** So many rows are named, as in the daemon's answer. */
const MAX_WRONG = 100

export type Rows = NonNullable<Status['rows']>

/** Counts virtual servers of Services that the kernel lacks now as missing. `names` are those that the daemon serves. */
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
