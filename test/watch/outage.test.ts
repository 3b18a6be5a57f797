import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiError } from '../../src/watch/api-error.ts'
import { Outage } from '../../src/watch/outage.ts'
import { recordingLog } from '../support/recording-log.ts'

const ERROR = new ApiError('api-unreachable', 'connect ECONNREFUSED 127.0.0.1:6443')

test('Outage warns at once, then once a minute, and says when it is over', () => {
  const log = recordingLog()
  let now = 1_000_000
  const outage = new Outage(log, () => now)
  for (let second = 0; second <= 150; second++, now += 1000) {
    outage.failed('services', ERROR, 800)
    outage.failed('nodes', ERROR, 800)
  }
  outage.recovered('services')
  assert.equal(log.lines.length, 3)
  outage.recovered('nodes')
  outage.recovered('nodes')
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, fields['forSeconds'] ?? fields['afterSeconds']]),
    [
      ['warn', 0],
      ['warn', 60],
      ['warn', 120],
      ['info', 151],
    ],
  )
  assert.equal(log.lines[0]?.fields['reason'], ERROR.message)
  assert.equal(log.lines[0]?.fields['code'], 'api-unreachable')
})
