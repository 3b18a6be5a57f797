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
  const comparison = new Comparison<Item, number>(audited, { isSame: ({ value }, listed) => value === listed })
  const list = (listed: readonly (readonly [string, number])[]): void => {
    for (const [key, value] of listed) comparison.compare(key, value)
  }
  return { live, audited, comparison, doubted, list }
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
    it(`doubts ${what}`, () => {
      const { comparison, doubted, list } = world({ a: 1, b: 2 })
      list(listed)
      assert.equal(comparison.end(), expected.length > 0)
      assert.deepEqual(doubted, expected)
    })

  it('forgets what was listed before the list began again', () => {
    const { comparison, doubted, list } = world({ a: 1, b: 2 })
    list([
      ['a', 9],
      ['b', 2],
    ])
    comparison.restart()
    list([['a', 1]])
    comparison.end()
    assert.deepEqual(doubted, ['b'])
  })

  it('looks only for the keys that it is given, and for none that the mirror has lost meanwhile', () => {
    const { live, audited, doubted } = world({ a: 1, b: 2, c: 3 })
    const comparison = new Comparison(audited, { isSame: Object.is, keys: () => ['b', 'c'] })
    live.delete('b')
    comparison.end()
    assert.deepEqual(doubted, ['c'])
  })

  it('doubts nothing that a pass replaced or added while the list arrived', () => {
    const { live, comparison, doubted, list } = world({ a: 1, b: 2 })
    list([['a', 1]])
    live.set('a', { value: 1 })
    live.set('c', { value: 3 })
    list([['b', 2]])
    assert.equal(comparison.end(), false)
    assert.deepEqual(doubted, [])
  })

  it('takes an item of several parts as listed once all of them were', () => {
    for (const [parts, expected] of [
      [[1, 2], []],
      [[1], ['a']],
      [[1, 2, 3], ['a']],
    ] as const) {
      const doubted: string[] = []
      const live = new Map([['a', [1, 2]]])
      const comparison = new Comparison<number[], number>(
        { live: (key) => live.get(key), liveKeys: () => live.keys(), doubt: (keys) => void doubted.push(...keys) },
        { isSame: (item, part) => item.includes(part), partsOf: (item) => item.length },
      )
      for (const part of parts) comparison.compare('a', part)
      comparison.end()
      assert.deepEqual(doubted, expected)
    }
  })
})
