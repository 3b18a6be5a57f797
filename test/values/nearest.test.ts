import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearest } from '../../src/values/nearest.ts'

test('nearest finds the intended word and no distant one', () => {
  const words = ['status', 'diff', 'cleanup', 'strictARP', 'scheduler', '-', '']
  const rows: readonly (readonly [word: string, found: string | undefined])[] = [
    ['status', 'status'],
    ['statsu', 'status'],
    ['difff', 'diff'],
    ['dif', 'diff'],
    ['strictArp', 'strictARP'],
    ['schedular', 'scheduler'],
    ['clean', 'cleanup'],
    ['cl', undefined],
    ['s', undefined],
    ['xyz', undefined],
    ['restart', undefined],
    ['dxxf', undefined],
  ]
  for (const [word, found] of rows) assert.equal(nearest(word, words), found, word)
  assert.equal(nearest('a', []), undefined)
})

test('nearest does not compare a word with those that are much shorter or longer', () => {
  const before = process.threadCpuUsage()
  for (let times = 0; times < 1000; times++)
    assert.equal(nearest('x'.repeat(10_000), ['strictARP', 'scheduler', 'minSyncPeriod']), undefined)
  const { user, system } = process.threadCpuUsage(before)
  assert.ok(user + system < 1_000_000, `${user + system} µs`)
})
