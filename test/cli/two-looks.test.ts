/** A node is called wrong for what two looks have in common, and not for what changes between them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type LookOptions, lookTwice, wrongInBoth } from '../../src/cli/two-looks.ts'
import type { RowsView, WrongRow } from '../../src/inspect/view.ts'
import { VIRTUAL_SERVERS } from '../../src/ipvs/diff.ts'
import { noRows, type RowCounts } from '../../src/sync/plan.ts'
import { EMPTY, IPVS, rowsOf, VIRTUAL } from './known-status.ts'

const TABLE = VIRTUAL_SERVERS.name
const [GONE, NEW, LOST] = ['10.96.0.7:80/tcp', '10.96.0.8:80/tcp', '10.96.0.9:80/tcp'] as const

type Rows = Parameters<typeof wrongInBoth>[0]
const row = (key: string, state: WrongRow['state'] = 'missing'): WrongRow => ({ table: TABLE, key, state })
const view = (counts: Partial<RowCounts>, wrong: readonly WrongRow[] = []): RowsView => ({
  format: 3,
  tables: [{ table: TABLE, ...noRows(), present: 4, ...counts }],
  unread: [],
  wrong,
})
const namesOf = (keys: readonly string[]) => new Map(keys.map((key) => [key, { key, servicePort: 'demo/web:http' }]))

interface Instant {
  readonly inKernel: readonly string[]
  readonly named: readonly string[]
  readonly rows?: RowsView
}

/** Each question is answered as the node is at its time. */
function node(instants: readonly Instant[]): LookOptions & { asked: string[] } {
  const asked: string[] = []
  const take = (what: string): Instant => {
    const now = instants[Math.min(asked.length, instants.length - 1)]
    assert.ok(now !== undefined)
    asked.push(what)
    return now
  }
  return {
    asked,
    daemon: { mode: 'ipvs', families: ['IPv4'] },
    readKernel: async () => {
      const virtualServers = take('kernel').inKernel.map((key) => ({ ...VIRTUAL, key }))
      return { ...EMPTY, ipvs: { ...IPVS, virtualServers } }
    },
    client: {
      names: async () => namesOf(take('names').named) as never,
      rows: async () => take('rows').rows ?? view({}),
    },
    pause: async () => undefined,
  }
}

describe('lookTwice', () => {
  it('does not miss the virtual server of a Service that is deleted during the command', async () => {
    const before = { inKernel: [GONE], named: [GONE] }
    const after = { inKernel: [], named: [] }
    for (let at = 0; at <= 3; at++) {
      const options = node([...Array.from({ length: at }, () => before), after])
      const { rows, names } = await lookTwice(options)
      assert.deepEqual([rows?.missing, rows?.wrong], [0, []])
      if (at < 2) assert.equal(names?.size, 0)
    }
  })

  it('does not count Services that are made one after the other, of which each look has seen another', async () => {
    const first = { inKernel: [], named: [NEW] }
    const second = { inKernel: [NEW], named: [NEW, LOST] }
    const { rows } = await lookTwice(node([first, first, first, second]))
    assert.deepEqual([rows?.missing, rows?.present, rows?.wrong], [0, 4, []])
  })

  it('names what the kernel lacks in both looks, and looks once where nothing is wrong', async () => {
    const lost = node([{ inKernel: [NEW], named: [NEW, LOST] }])
    assert.deepEqual((await lookTwice(lost)).rows?.wrong, [row(LOST)])
    assert.equal(lost.asked.length, 6)
    const fine = node([{ inKernel: [NEW], named: [NEW] }])
    assert.equal((await lookTwice(fine)).rows?.missing, 0)
    assert.deepEqual(fine.asked, ['kernel', 'names', 'rows'])
  })
})

describe('wrongInBoth', () => {
  const rows = (counts: Partial<RowCounts>, wrong: readonly WrongRow[]): Rows => ({
    ...rowsOf(counts, wrong),
    tables: view(counts).tables,
  })
  const wrongOf = ({ missing, differs, extra, present, wrong }: Rows) => [
    missing,
    differs,
    extra,
    present,
    wrong.map(({ key }) => key),
  ]

  it('takes the state of the second look for what is wrong in both', () => {
    const first = rows({ missing: 2, extra: 1 }, [row('a'), row('b'), row('x', 'extra')])
    const second = rows({ missing: 1, differs: 2, extra: 1, present: 3 }, [
      row('c'),
      row('a', 'differs'),
      row('d', 'differs'),
      row('y', 'extra'),
    ])
    const both = wrongInBoth(first, second)
    assert.deepEqual(wrongOf(both), [0, 1, 0, 5, ['a']])
    assert.deepEqual(both.tables, [{ table: TABLE, missing: 0, extra: 0, differs: 1, present: 5, draining: 0 }])
  })

  it('takes the smaller count where a look did not name all, and at least what both name', () => {
    const first = rows({ missing: 500 }, [row('a'), row('b')])
    const second = rows({ missing: 300, differs: 1, present: 204 }, [row('b'), row('c'), row('a', 'differs')])
    assert.deepEqual(wrongOf(wrongInBoth(first, second)), [300, 1, 0, 204, ['b', 'a']])
    assert.deepEqual(wrongOf(wrongInBoth(second, first)), [300, 0, 0, 204, ['a', 'b']])
  })

  it('does not count a table that only one look has read', () => {
    const first: Rows = { ...rows({}, []), tables: [], unread: [TABLE] }
    const both = wrongInBoth(first, rows({ missing: 1 }, [row('a')]))
    assert.deepEqual([both.missing, both.wrong, both.tables, both.unread], [0, [], [], [TABLE]])
  })
})
