import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRetryAfter, statusError } from '../../../src/watch/api/api-error.ts'

test('parseRetryAfter reads seconds and dates', () => {
  const nowMs = Date.UTC(2026, 10, 20, 16, 0, 0)
  const rows: [string | undefined, number][] = [
    [undefined, 0],
    ['', 0],
    ['0', 0],
    ['1', 1000],
    [' 30 ', 30_000],
    ['-5', 0],
    ['1.5e3000', 0],
    ['soon', 0],
    ['Fri, 20 Nov 2026 16:00:10 GMT', 10_000],
    ['Fri, 20 Nov 2026 15:00:00 GMT', 0],
  ]
  for (const [header, expected] of rows) assert.equal(parseRetryAfter(header, nowMs), expected, header)
})

test('statusError reads code, reason and message of a Status', () => {
  const status = { kind: 'Status', message: 'too old resource version: 1 (239)', reason: 'Expired', code: 410 }
  const error = statusError(status, { inStream: true })
  assert.equal(error.code, 'api-status')
  assert.equal(error.status, 410)
  assert.equal(error.reason, 'Expired')
  assert.equal(error.isExpired, true)
  assert.equal(error.inStream, true)
  assert.equal(error.message, '410 Expired: too old resource version: 1 (239)')
})

test('statusError uses the longer of two waits', () => {
  const details = { retryAfterSeconds: 5 }
  assert.equal(statusError({ code: 429, details }, { retryAfterMs: 1000 }).retryAfterMs, 5000)
  assert.equal(statusError({ code: 429, details }, { retryAfterMs: 9000 }).retryAfterMs, 9000)
})

test('statusError uses the HTTP status for any other JSON', () => {
  for (const json of [undefined, null, 7, 'x', [], { code: 'x', reason: 7, message: {}, details: 'x' }]) {
    const error = statusError(json, { status: 502 })
    assert.equal(error.status, 502)
    assert.equal(error.message, '502')
  }
})
