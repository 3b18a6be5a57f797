import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spanText } from '../../src/cli/status-words.ts'

test('spanText shows the two largest units', () => {
  const rows = [
    [0.4, '0s'],
    [45, '45s'],
    [185, '3m5s'],
    [7200, '2h0m'],
    [100 * 3600, '4d4h'],
    [-1, '0s'],
  ] as const
  for (const [seconds, text] of rows) assert.equal(spanText(seconds), text)
})
