/**
 * Laws of the two tables, and the Reconciler over both in memory: a simulated kernel of sets and
 * entries that fails on demand. Like the real one it drops the entries of a set that is destroyed
 * or created again.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { CATALOGUE, definitionOf, setName } from '../../src/ipset/catalogue.ts'
import {
  diffEntry,
  diffSet,
  familyOfSet,
  formatEntryOperation,
  formatSetOperation,
  groupsOf,
  isEnough,
  parametersOf,
  sameEntry,
  sameKind,
  SET_ENTRIES,
  SETS,
} from '../../src/ipset/diff.ts'
import {
  entryKey,
  type SetEntry,
  type SetEntryOperation,
  type SetOperation,
  type SetParameters,
} from '../../src/ipset/types.ts'
import { commandsOf } from '../../src/sync/plan.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import type { TableIo } from '../../src/sync/table.ts'
import { liveEntry, someEntry, someSet } from './arbitraries.ts'

const signal = new AbortController().signal
const CLUSTER_IP = parametersOf(CATALOGUE[8] ?? assert.fail())
const NODE_PORT = parametersOf(definitionOf('KUBE-NODE-PORT-TCP') ?? assert.fail())

/** A set under one of our names as another program may have created it. */
const liveParameters: fc.Arbitrary<SetParameters> = fc.record(
  {
    type: fc.constantFrom('hash:ip', 'hash:ip,port', 'bitmap:port', 'list:set'),
    family: fc.constantFrom(undefined, 'IPv4', 'IPv6'),
    maxElements: fc.constantFrom(0, 10, 65_536, 131_072),
    firstPort: fc.constantFrom(0, 30_000),
    lastPort: fc.constantFrom(0, 65_535),
    extras: fc.constantFrom('', 'timeout 300'),
  },
  { noNullPrototype: true },
)

const SET_ROWS: readonly (readonly [
  string,
  SetParameters | undefined,
  SetParameters | undefined,
  readonly string[],
])[] = [
  ['nothing', undefined, undefined, []],
  ['equal', CLUSTER_IP, { ...CLUSTER_IP }, []],
  ['grown', CLUSTER_IP, { ...CLUSTER_IP, maxElements: 131_072 }, []],
  [
    'grown and far too large now',
    CLUSTER_IP,
    { ...CLUSTER_IP, maxElements: 131_072, isOversized: true },
    [
      'ipset create kube-ipvs-swap-8 hash:ip,port family inet hashsize 1024 maxelem 65536; ipset swap kube-ipvs-swap-8 KUBE-CLUSTER-IP; ipset destroy kube-ipvs-swap-8',
    ],
  ],
  [
    'missing',
    CLUSTER_IP,
    undefined,
    ['ipset create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536'],
  ],
  ['unwanted', undefined, CLUSTER_IP, ['ipset destroy KUBE-CLUSTER-IP']],
  [
    'too small',
    CLUSTER_IP,
    { ...CLUSTER_IP, maxElements: 1000 },
    [
      'ipset create kube-ipvs-swap-8 hash:ip,port family inet hashsize 1024 maxelem 65536; ipset swap kube-ipvs-swap-8 KUBE-CLUSTER-IP; ipset destroy kube-ipvs-swap-8',
    ],
  ],
  [
    'grown, with options of another program',
    CLUSTER_IP,
    { ...CLUSTER_IP, maxElements: 131_072, extras: 'counters' },
    [
      'ipset create kube-ipvs-swap-8 hash:ip,port family inet hashsize 1024 maxelem 131072; ipset swap kube-ipvs-swap-8 KUBE-CLUSTER-IP; ipset destroy kube-ipvs-swap-8',
    ],
  ],
  [
    'of another type: its size does not matter',
    CLUSTER_IP,
    { ...CLUSTER_IP, type: 'hash:ip', maxElements: 131_072 },
    [
      'ipset create kube-ipvs-swap-8 hash:ip,port family inet hashsize 1024 maxelem 65536; ipset swap kube-ipvs-swap-8 KUBE-CLUSTER-IP; ipset destroy kube-ipvs-swap-8',
    ],
  ],
]

describe('sets', () => {
  for (const [title, desired, live, commands] of SET_ROWS)
    it(`diffSet ${title}`, () =>
      assert.deepEqual(diffSet('KUBE-CLUSTER-IP', desired, live).map(formatSetOperation), commands))

  it('diffSet replaces a bitmap of another range', () => {
    const [op, ...rest] = diffSet('KUBE-NODE-PORT-TCP', NODE_PORT, { ...NODE_PORT, firstPort: 30_000 })
    assert.deepEqual([op?.kind, op?.parameters, rest], ['replace-set', NODE_PORT, []])
  })

  it('stepping through diffSet leads to a sufficient set and to no further operation', () => {
    const item = fc.option(liveParameters, { nil: undefined })
    fc.assert(
      fc.property(someSet, fc.boolean(), item, (set, wanted, live) => {
        const desired = wanted ? parametersOf(set) : undefined
        const after = diffSet(set.name, desired, live).reduce<SetParameters | undefined>(SETS.step, live)
        assert.deepEqual(diffSet(set.name, desired, after), [])
        if (desired === undefined || after === undefined) assert.equal(after, desired)
        else {
          assert.ok(isEnough(desired, after))
          assert.ok(live === undefined || !sameKind(live, after) || after.maxElements >= live.maxElements)
        }
      }),
    )
  })
})

describe('entries', () => {
  const item = fc.option(liveEntry, { nil: undefined })

  it('stepping through diffEntry leads to the desired entry', () => {
    const pair = fc.oneof(
      fc.tuple(fc.constant(undefined), item),
      someEntry.chain((entry) =>
        fc.tuple(fc.constant(entry), fc.constantFrom(undefined, entry, { ...entry, noMatch: true as const })),
      ),
    )
    fc.assert(
      fc.property(pair, ([desired, live]) => {
        const ops = diffEntry(desired, live)
        const after = ops.reduce<SetEntry | undefined>(SET_ENTRIES.step, live)
        assert.deepEqual(after, desired)
        assert.deepEqual(diffEntry(desired, after), [])
        assert.equal(
          ops.length === 0,
          live === desired || (live !== undefined && desired !== undefined && sameEntry(live, desired)),
        )
      }),
    )
  })

  it('formatEntryOperation prints what an operator would type', () => {
    const entry = { set: 'KUBE-CLUSTER-IP', entry: '10.96.0.1,tcp:443' }
    assert.equal(formatEntryOperation({ kind: 'add-entry', ...entry }), 'ipset add KUBE-CLUSTER-IP 10.96.0.1,tcp:443')
    assert.equal(
      formatEntryOperation({ kind: 'delete-entry', ...entry }),
      'ipset del KUBE-CLUSTER-IP 10.96.0.1,tcp:443',
    )
  })

  it('groupsOf puts every operation into one message, in the order of the sets', () => {
    const op = fc
      .tuple(someEntry, fc.constantFrom('add-entry' as const, 'delete-entry' as const))
      .map(([entry, kind]): SetEntryOperation => ({ kind, ...entry }))
    fc.assert(
      fc.property(fc.array(op, { maxLength: 60 }), (ops) => {
        const groups = groupsOf(ops)
        const all = groups.flatMap(({ indexes }) => indexes)
        assert.deepEqual(
          all.toSorted((a, b) => a - b),
          ops.map((_, index) => index),
        )
        for (const { set, kind, indexes } of groups)
          for (const index of indexes) assert.deepEqual([ops[index]?.set, ops[index]?.kind], [set.name, kind])
        const places = groups.map(({ kind, set }) => (kind === 'add-entry' ? set.rank : 100 - set.rank))
        assert.deepEqual(
          places,
          places.toSorted((a, b) => a - b),
        )
      }),
    )
  })

  it('groupsOf puts 500 entries into a message, and leaves out sets of other names', () => {
    const ops = Array.from({ length: 1001 }, (_, index) => ({
      kind: 'add-entry' as const,
      set: index === 7 ? 'KUBE-FOREIGN' : 'KUBE-NODE-PORT-TCP',
      entry: String(index),
    }))
    assert.deepEqual(
      groupsOf(ops).map(({ indexes }) => indexes.length),
      [500, 500],
    )
  })
})

/** Sets and entries in memory, with the pure functions of the real tables. */
class MemorySets {
  readonly sets = new Map<string, SetParameters>()
  readonly entries = new Map<string, SetEntry>()
  readonly applied: string[] = []
  fails: () => boolean = () => false

  readonly setTable: TableIo<SetParameters, SetOperation> = {
    kind: SETS,
    list: async (keys) => new Map([...this.sets].filter(([key]) => keys === 'all' || keys.includes(key))),
    isOurs: (name) => familyOfSet(name) !== undefined,
    apply: async (ops) => ops.map((op) => this.#attempt(formatSetOperation(op), () => this.#applySet(op))),
  }

  readonly entryTable: TableIo<SetEntry, SetEntryOperation> = {
    kind: SET_ENTRIES,
    list: async (keys) =>
      new Map(
        [...this.entries].filter(([key, { set }]) => (keys === 'all' || keys.includes(key)) && this.#isRight(set)),
      ),
    apply: async (ops) => ops.map((op) => this.#attempt(formatEntryOperation(op), () => this.#applyEntry(op))),
  }

  #isRight(name: string): boolean {
    const [set, live] = [definitionOf(name), this.sets.get(name)]
    return set !== undefined && live !== undefined && sameKind(parametersOf(set), live)
  }

  #attempt(command: string, run: () => Error | undefined): Error | undefined {
    if (this.fails()) return new Error('made to fail')
    const error = run()
    if (error === undefined) this.applied.push(command)
    return error
  }

  #applySet(op: SetOperation): Error | undefined {
    const live = this.sets.get(op.name)
    if (op.kind === 'create-set' && live !== undefined) return new Error('EEXIST')
    if (live === undefined || op.kind !== 'replace-set' || !sameKind(op.parameters, live)) this.forget(op.name)
    if (op.kind !== 'destroy-set') this.sets.set(op.name, op.parameters)
    return undefined
  }

  #applyEntry(op: SetEntryOperation): Error | undefined {
    if (!this.#isRight(op.set)) return new Error('no such set')
    const after = SET_ENTRIES.step(undefined, op)
    if (after === undefined) this.entries.delete(entryKey(op))
    else this.entries.set(entryKey(op), after)
    return undefined
  }

  forget(name: string): void {
    this.sets.delete(name)
    for (const [key, { set }] of this.entries) if (set === name) this.entries.delete(key)
  }
}

describe('Reconciler over sets and entries', () => {
  it('reaches the wanted state from any state after any sequence of failures and foreign changes', async () => {
    const change = fc.oneof(
      fc.record({ kind: fc.constantFrom('want' as const, 'unwant' as const), entry: someEntry }),
      fc.record({ kind: fc.constantFrom('add by hand' as const, 'delete by hand' as const), entry: liveEntry }),
      fc.record({ kind: fc.constant('destroy by hand' as const), entry: someEntry }),
      fc.record({ kind: fc.constant('other set by hand' as const), entry: someEntry, parameters: liveParameters }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 15 }), fc.infiniteStream(fc.boolean()), async (changes, luck) => {
        const kernel = new MemorySets()
        kernel.sets.set('KUBE-FOREIGN', CLUSTER_IP)
        kernel.fails = () => luck.next().value === true
        const sets = new TableSync(kernel.setTable)
        const entries = new TableSync(kernel.entryTable)
        const reconciler = new Reconciler([reconciled(sets), reconciled(entries)])
        for (const set of CATALOGUE) sets.want(set.name, parametersOf(set))
        const target = new Map<string, SetEntry>()
        let nowMs = 0
        for (const one of changes) {
          const key = entryKey(one.entry)
          switch (one.kind) {
            case 'want':
              target.set(key, one.entry)
              entries.want(key, one.entry)
              break
            case 'unwant':
              target.delete(key)
              entries.want(key, undefined)
              break
            case 'add by hand':
              if (kernel.sets.has(one.entry.set)) kernel.entries.set(key, one.entry)
              break
            case 'delete by hand':
              kernel.entries.delete(key)
              break
            case 'destroy by hand':
              kernel.forget(one.entry.set)
              break
            case 'other set by hand':
              kernel.forget(one.entry.set)
              kernel.sets.set(one.entry.set, one.parameters)
              break
          }
          if (one.kind.includes('hand')) {
            sets.doubt('all')
            entries.doubt('all')
          }
          await reconciler.pass({ signal, now: () => nowMs, mayRemove: true })
          nowMs += 100
        }
        kernel.fails = () => false
        for (let passes = 0; passes < 5; passes++) {
          nowMs += 60_000
          await reconciler.pass({ signal, now: () => nowMs, mayRemove: true })
        }
        assert.deepEqual(new Map([...kernel.entries].sort()), new Map([...target].sort()))
        for (const set of CATALOGUE)
          assert.ok(isEnough(parametersOf(set), kernel.sets.get(set.name) ?? assert.fail(set.name)))
        assert.ok(kernel.sets.has('KUBE-FOREIGN'))
        const before = kernel.applied.length
        sets.doubt('all')
        entries.doubt('all')
        await reconciler.pass({ signal, now: () => nowMs, mayRemove: true })
        assert.equal(kernel.applied.length, before)
      }),
      { numRuns: 200 },
    )
  })

  it('plans additions from the first set to the last, then removals', async () => {
    const kernel = new MemorySets()
    for (const set of CATALOGUE) kernel.sets.set(set.name, parametersOf(set))
    const old = { set: setName('CLUSTER-IP', 'IPv4'), entry: '10.96.0.1,tcp:1' }
    kernel.entries.set(entryKey(old), old)
    const sets = new TableSync(kernel.setTable)
    const entries = new TableSync(kernel.entryTable)
    for (const set of CATALOGUE) sets.want(set.name, parametersOf(set))
    const wanted = { set: setName('CLUSTER-IP', 'IPv4'), entry: '10.96.0.2,tcp:1' }
    entries.want(entryKey(wanted), wanted)
    const rows = await new Reconciler([reconciled(sets), reconciled(entries)]).plan({ signal, now: () => 0 })
    assert.deepEqual(commandsOf(rows), [
      'ipset add KUBE-CLUSTER-IP 10.96.0.2,tcp:1',
      'ipset del KUBE-CLUSTER-IP 10.96.0.1,tcp:1',
    ])
  })
})
