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
