import assert from 'node:assert/strict'
import { test } from 'node:test'
import { remarksOn } from '../../src/cli/diff.ts'
import type { DaemonView } from '../../src/inspect/view.ts'
import { DAEMON } from './known-status.ts'

test('remarksOn says what the daemon does that explains a difference, and nothing of a daemon that is done', () => {
  assert.deepEqual(remarksOn(DAEMON, 'ipvs'), [])
  const busy: DaemonView = {
    ...DAEMON,
    awaiting: ['endpointslices'],
    health: { healthy: true, reason: null, pending: [{ what: 'a pass has not ended', seconds: 2 }] },
    passes: [{ what: 'tables', endedSecondsAgo: 1, durationMs: 1, applied: 0, failed: 1, unreadable: 2 }],
    counts: { ...DAEMON.counts, draining: 3 },
    problems: [{ code: 'rival-writes', about: 'node', subject: 'node0', message: 'another program\nwrites' }],
  }
  assert.deepEqual(remarksOn(busy, 'iptables'), [
    'the daemon is configured for ipvs mode, and these differences are those of iptables mode',
    'the daemon waits for the list of endpointslices, and removes nothing before it has all',
    'the daemon is at work: a pass has not ended (2s)',
    'the last pass of the daemon failed at 1 operation, which it retries',
    'the daemon could not read 2 tables in its last pass',
    'another program\\nwrites',
    '3 real servers draining: they are no differences, and are removed when their connections have ended',
  ])
})
