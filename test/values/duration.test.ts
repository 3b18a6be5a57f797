import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatDuration, parseDuration } from '../../src/values/duration.ts'

const rows: readonly (readonly [text: string, milliseconds: number, printed: string])[] = [
  ['0', 0, '0s'],
  ['-0', 0, '0s'],
  ['+5s', 5_000, '5s'],
  ['1h30m', 5_400_000, '1h30m0s'],
  ['24h', 86_400_000, '24h0m0s'],
  ['250ms', 250, '250ms'],
  ['1.5s', 1_500, '1.5s'],
  ['.5s', 500, '500ms'],
  ['1.s', 1_000, '1s'],
  ['-2m', -120_000, '-2m0s'],
  ['1us', 0.001, '1µs'],
  ['1µs', 0.001, '1µs'],
  ['1.5μs', 0.0015, '1.5µs'],
  ['7ns', 0.000007, '7ns'],
  ['90s', 90_000, '1m30s'],
  ['30m', 1_800_000, '30m0s'],
  ['1m1ms', 60_001, '1m0.001s'],
  ['2562047h', 9_223_369_200_000, '2562047h0m0s'],
]

test('parseDuration and formatDuration agree with Go', () => {
  for (const [text, milliseconds, printed] of rows) {
    assert.deepEqual(parseDuration(text), { milliseconds }, text)
    assert.equal(formatDuration(milliseconds), printed, text)
  }
})

test('parseDuration refuses texts in the words of Go', () => {
  const errors: readonly (readonly [string, string])[] = [
    ['', 'time: invalid duration ""'],
    ['-', 'time: invalid duration "-"'],
    ['PT15M', 'time: invalid duration "PT15M"'],
    ['.s', 'time: invalid duration ".s"'],
    ['1h ', 'time: unknown unit "h " in duration "1h "'],
    ['30', 'time: missing unit in duration "30"'],
    ['1d', 'time: unknown unit "d" in duration "1d"'],
    ['1constructor', 'time: unknown unit "constructor" in duration "1constructor"'],
    ['3000000h', 'time: invalid duration "3000000h"'],
  ]
  for (const [text, error] of errors) assert.deepEqual(parseDuration(text), { error }, text)
})

test('parseDuration reads back what formatDuration prints', () => {
  fc.assert(
    fc.property(fc.integer({ min: -1e12, max: 1e12 }), fc.integer({ min: 0, max: 999 }), (ms, us) => {
      const milliseconds = ms + (ms < 0 ? -us : us) / 1e3
      const parsed = parseDuration(formatDuration(milliseconds))
      assert.ok('milliseconds' in parsed)
      assert.ok(Math.abs(parsed.milliseconds - milliseconds) < 1e-3)
      assert.equal(formatDuration(parsed.milliseconds), formatDuration(milliseconds))
    }),
  )
})
