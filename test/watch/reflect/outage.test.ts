import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { Outage } from '../../../src/watch/reflect/outage.ts'
import { recordingLog } from '../../support/recording-log.ts'

const ERROR = new ApiError('api-unreachable', 'connect ECONNREFUSED 127.0.0.1:6443')

test('Outage speaks at once, then once a minute, of each kind, and says when it is over', () => {
  const log = recordingLog()
  let now = 1_000_000
  const outage = new Outage(log, () => now)
  for (let second = 0; second <= 150; second++, now += 1000) {
    outage.failed('services', ERROR, 800)
    if (second >= 30) outage.failed('nodes', ERROR, 800)
  }
  outage.recovered('services')
  outage.recovered('services')
  outage.recovered('endpointslices')
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, fields['type'], fields['forSeconds'] ?? fields['afterSeconds']]),
    [
      ['error', '*v1.Service', 0],
      ['error', '*v1.Node', 0],
      ['error', '*v1.Service', 60],
      ['error', '*v1.Node', 60],
      ['error', '*v1.Service', 120],
      ['error', '*v1.Node', 120],
      ['info', '*v1.Service', 151],
    ],
  )
  const [first] = log.lines
  assert.equal(first?.message, 'Failed to watch')
  assert.equal(first?.fields['error'], `failed to list *v1.Service: ${ERROR.message}`)
  assert.equal(first?.fields['code'], 'api-unreachable')
})
