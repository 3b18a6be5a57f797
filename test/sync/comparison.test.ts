import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AuditedMirror, Comparison } from '../../src/sync/comparison.ts'

interface Item {
  readonly value: number
}

function world(mirror: Readonly<Record<string, number>>) {
  const live = new Map<string, Item>(Object.entries(mirror).map(([key, value]) => [key, { value }]))
  const doubted: string[] = []
  const audited: AuditedMirror<Item> = {
    live: (key) => live.get(key),
    liveKeys: () => live.keys(),
    doubt: (keys) => void doubted.push(...keys),
  }
  const comparison = new Comparison<Item, number>(audited, ({ value }, listed) => value === listed)
  const list = (listed: readonly (readonly [string, number])[]): void => {
    for (const [key, value] of listed) comparison.compare(key, value)
  }
  return { live, comparison, doubted, list }
}

describe('Comparison', () => {
  const rows: readonly [what: string, listed: readonly (readonly [string, number])[], doubted: readonly string[]][] = [
    [
      'nothing, when list and mirror agree',
      [
        ['a', 1],
        ['b', 2],
      ],
      [],
    ],
    ['an item that the kernel does not list', [['b', 2]], ['a']],
    [
      'an item that the mirror does not have',
      [
        ['a', 1],
        ['b', 2],
        ['c', 3],
      ],
      ['c'],
    ],
    [
      'an item that differs, once',
      [
        ['a', 1],
        ['b', 3],
      ],
      ['b'],
    ],
    [
      'an item of which the list has another variant too',
      [
        ['a', 1],
        ['a', 7],
        ['b', 2],
      ],
      ['a'],
    ],
    ['everything, when the kernel lists nothing', [], ['a', 'b']],
  ]
  for (const [what, listed, expected] of rows)
    it(`doubts ${what}`, async () => {
      const { comparison, doubted, list } = world({ a: 1, b: 2 })
      list(listed)
      assert.equal(await comparison.end(), expected.length > 0)
      assert.deepEqual(doubted, expected)
      assert.equal(comparison.count, listed.length)
    })

  it('forgets what was listed before the list began again', async () => {
    const { comparison, doubted, list } = world({ a: 1, b: 2 })
    list([
      ['a', 9],
      ['b', 2],
    ])
    comparison.restart()
    list([['a', 1]])
    await comparison.end()
    assert.deepEqual(doubted, ['b'])
    assert.equal(comparison.count, 1)
  })

  it('looks only for the keys that it is given, and for none that the mirror has lost meanwhile', async () => {
    const { live, comparison, doubted } = world({ a: 1, b: 2, c: 3 })
    live.delete('b')
    await comparison.end(['b', 'c'])
    assert.deepEqual(doubted, ['c'])
  })

  it('lets the event loop run while it looks at many keys', async () => {
    const { comparison } = world(Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`${index}`, index])))
    let turns = 0
    let isOver = false
    setImmediate(function again() {
      turns++
      if (!isOver) setImmediate(again)
    })
    await comparison.end()
    isOver = true
    assert.ok(turns >= 4, `${turns} turns`)
  })
})
