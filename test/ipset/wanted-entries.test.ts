import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { CATALOGUE, definitionOf } from '../../src/ipset/catalogue.ts'
import { entryKey, type SetEntry, setOfKey } from '../../src/ipset/types.ts'
import { SET_ENTRIES } from '../../src/ipset/diff.ts'
import { wantedEntries } from '../../src/ipset/render.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { MemoryTable } from '../support/memory-table.ts'
import { someEntry } from './arbitraries.ts'

const entry = (set: string, text: string): SetEntry => ({ set, entry: text })
const PORT = entry('KUBE-NODE-PORT-TCP', '30080')
const IP = entry('KUBE-IPVS-IPS', '10.96.0.1')
const CLUSTER = entry('KUBE-CLUSTER-IP', '10.96.0.1,tcp:80')

describe('Contributions of sets', () => {
  it('keeps an entry until no frontend contributes it any more', () => {
    const wanted = wantedEntries()
    assert.deepEqual(wanted.set('a', [PORT]), [{ key: 'KUBE-NODE-PORT-TCP 30080', set: PORT.set, entry: PORT }])
    assert.deepEqual(wanted.set('b', [PORT]), [])
    assert.deepEqual(wanted.set('a', []), [])
    assert.equal(wanted.size('KUBE-NODE-PORT-TCP'), 1)
    assert.deepEqual(wanted.set('b', []), [{ key: 'KUBE-NODE-PORT-TCP 30080', set: PORT.set, entry: undefined }])
    assert.equal(wanted.size('KUBE-NODE-PORT-TCP'), 0)
  })

  it('returns removals in the order of the sets, which the reconciler reverses, then additions in the given order', () => {
    const wanted = wantedEntries()
    wanted.set('a', [CLUSTER, IP])
    const changes = wanted.set('a', [PORT])
    assert.deepEqual(
      changes.map(({ key, entry: value }) => [key, value !== undefined]),
      [
        ['KUBE-CLUSTER-IP 10.96.0.1,tcp:80', false],
        ['KUBE-IPVS-IPS 10.96.0.1', false],
        ['KUBE-NODE-PORT-TCP 30080', true],
      ],
    )
  })

  it('lets entries go from the last set to the first although there are stretches of them', async () => {
    const table = new MemoryTable(SET_ENTRIES)
    const sync = new TableSync(table)
    const reconciler = new Reconciler([reconciled(sync)])
    const wanted = wantedEntries()
    const pass = async (entries: readonly SetEntry[]): Promise<void> => {
      for (const change of wanted.set('a', entries)) sync.want(change.key, change.entry)
      await reconciler.pass({ signal: new AbortController().signal, now: () => 0, mayRemove: true })
    }
    const place = '192.0.2.1,tcp:80'
    const ranges = Array.from({ length: 600 }, (_, index): SetEntry => {
      const range = `10.${index >> 8}.${index & 255}.0/24`
      return { set: 'KUBE-LOAD-BALANCER-SOURCE-CIDR', entry: `${place},${range}` }
    })
    await pass([...ranges, { set: 'KUBE-LOAD-BALANCER-FW', entry: place }])
    table.applied.length = 0
    await pass([])
    assert.equal(table.applied.length, 601)
    assert.match(table.applied[0] ?? '', /KUBE-LOAD-BALANCER-FW/)
  })

  it('counts a shared list once for all frontends that contribute it', () => {
    const wanted = wantedEntries()
    const shared = [CLUSTER, IP]
    assert.equal(wanted.set('a', [PORT], shared).length, 3)
    assert.deepEqual(wanted.set('b', [], shared), [])
    assert.deepEqual(wanted.of('a'), [CLUSTER, IP, PORT])
    assert.deepEqual(wanted.set('a', [PORT]), [])
    // An equal list in its place changes nothing.
    assert.deepEqual(wanted.set('b', [], [...shared]), [])
    assert.equal(wanted.set('b', []).length, 2)
  })

  it('always wants the union of all contributions', () => {
    const owners = fc.constantFrom('a', 'b', 'c')
    const contribution = fc.uniqueArray(someEntry, { selector: entryKey, maxLength: 6 })
    const lists = fc.array(fc.uniqueArray(someEntry, { selector: entryKey, maxLength: 3 }), {
      minLength: 3,
      maxLength: 3,
    })
    const step = fc.tuple(owners, contribution, fc.nat(2))
    fc.assert(
      fc.property(lists, fc.array(step, { maxLength: 20 }), (shared, steps) => {
        const wanted = wantedEntries()
        const contributions = new Map<string, readonly SetEntry[]>()
        const followed = new Set<string>()
        for (const [owner, entries, index] of steps) {
          const list = shared[index] ?? []
          contributions.set(owner, [...entries, ...list])
          const changes = wanted.set(owner, entries, list)
          assert.equal(new Set(changes.map(({ key }) => key)).size, changes.length)
          for (const { key, entry: value } of changes) {
            assert.notEqual(followed.has(key), value !== undefined)
            if (value === undefined) followed.delete(key)
            else followed.add(key)
          }
          const going = changes.filter((change) => change.entry === undefined)
          const ranks = going.map(({ key }) => definitionOf(setOfKey(key))?.rank ?? -1)
          assert.deepEqual(
            ranks,
            ranks.toSorted((a, b) => a - b),
          )
          const union = new Set([...contributions.values()].flat().map(entryKey))
          assert.deepEqual([...followed].sort(), [...union].sort())
          for (const { name } of CATALOGUE)
            assert.equal(wanted.size(name), [...union].filter((key) => setOfKey(key) === name).length)
        }
      }),
    )
  })
})
