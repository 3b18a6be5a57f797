import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PassLog } from '../../src/daemon/pass-log.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import { rulesOf, TABLES } from '../../src/sync/part.ts'
import { recordingLog } from '../support/recording-log.ts'

const QUIET: PassReport = { applied: 0, failures: [], repairs: [], unreadable: [] }

/** @param conflicts the number of new conflicts at each pass */
function passLog(conflicts = 0) {
  const log = recordingLog(0)
  const losses = Array.from({ length: conflicts }, (_, index) => ({
    key: `k${index}`,
    winner: 'demo/a',
    loser: 'demo/b',
  }))
  return {
    log,
    passes: new PassLog({ log, desired: { lossCount: 10_000, takeNewLosses: () => losses }, now: () => 5 }),
  }
}

test('PassLog logs a failed restore with its rules and the message of kube-proxy', () => {
  const { log, passes } = passLog()
  const failed = { key: 'nat KUBE-SERVICES', attempts: 1, retryAtMs: 0, error: new Error('line 2 failed') }
  passes.passed(
    TABLES,
    {
      ...QUIET,
      failures: [
        { ...failed, table: 'chains-IPv6', command: 'ip6tables -t nat -N KUBE-SERVICES\nip6tables -t nat -A …' },
        { ...failed, table: 'virtual-servers', key: '10.96.0.1:80/tcp', command: 'ipvsadm -A -t 10.96.0.1:80 -s rr' },
      ],
    },
    1,
  )
  assert.deepEqual(
    log.lines.map(({ level, message, fields }) => [
      level,
      message,
      fields['error'],
      fields['ipFamily'],
      fields['rules'] ?? fields['command'],
    ]),
    [
      [
        'error',
        'Failed to execute iptables-restore',
        'line 2 failed',
        'IPv6',
        'ip6tables -t nat -N KUBE-SERVICES\nip6tables -t nat -A …',
      ],
      [
        'error',
        'An operation failed and will be retried',
        'line 2 failed',
        undefined,
        'ipvsadm -A -t 10.96.0.1:80 -s rr',
      ],
    ],
  )
})

test('PassLog limits the lines of one pass', () => {
  const { log, passes } = passLog()
  const failure = {
    key: 'k',
    command: 'c',
    attempts: 1,
    retryAtMs: 0,
    error: new Error('x'),
    table: 'virtual-servers' as const,
  }
  passes.passed(TABLES, { ...QUIET, failures: Array.from({ length: 5000 }, () => failure) }, 1)
  assert.equal(log.lines.length, 21)
})

test('PassLog logs the first two repairs of a key and leaves later ones to the report about another writer', () => {
  const { log, passes } = passLog()
  for (const times of [1, 2, 3, 4])
    passes.passed(TABLES, { ...QUIET, repairs: [{ table: 'addresses', key: 'k', commands: ['a', 'b'], times }] }, 1)
  assert.deepEqual(
    log.lines.map(({ message, fields }) => [message, fields['times'], fields['commands']]),
    [1, 2].map((times) => ['Repaired a change that another program made', times, 'a; b']),
  )
})

test('PassLog logs some of many conflicts in one pass, and their number', () => {
  const { log, passes } = passLog(100)
  passes.passed(TABLES, QUIET, 1)
  assert.equal(log.lines.length, 21)
  assert.deepEqual(log.lines[0]?.fields, { frontend: 'k0', winner: 'demo/a', loser: 'demo/b' })
  assert.deepEqual(log.lines.at(-1)?.fields, { conflicts: 10_000 })
})

test('PassLog keeps the last pass over each part', () => {
  const { passes } = passLog()
  passes.passed(TABLES, { ...QUIET, applied: 3 }, 1)
  passes.passed(rulesOf('IPv6'), QUIET, 7)
  passes.passed(TABLES, { ...QUIET, applied: 2 }, 4)
  const counts = { endedMs: 5, failed: 0, unreadable: 0 }
  assert.deepEqual(
    [...passes.last],
    [
      ['tables', { ...counts, applied: 2, durationMs: 4 }],
      ['IPv6', { ...counts, applied: 0, durationMs: 7 }],
    ],
  )
})
