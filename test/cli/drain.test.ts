import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  countsText,
  drainsText,
  durationText,
  joinDrains,
  outliersText,
  withoutOutliers,
} from '../../src/cli/drain-text.ts'
import { waitForEnd, type WaitOptions } from '../../src/cli/drain-wait.ts'
import type { ConnectionCounts } from '../../src/modes/look/connections.ts'

const plain = (_: unknown, text: string): string => text
const LIVE = [
  { virtualServer: '10.96.0.1:80/tcp', realServer: '10.244.0.1:8080', active: 3, inactive: 1 },
  { virtualServer: '10.96.0.2:80/tcp', realServer: '10.244.0.2:8080', active: 0, inactive: 2 },
]

test('joinDrains takes names, ages and deadlines from the daemon, the oldest first', () => {
  const gone = {
    virtualServer: '10.96.0.9:80/tcp',
    realServer: '10.244.0.9:1',
    servicePort: null,
    seconds: 1,
    deadlineSeconds: null,
  }
  const known = {
    ...LIVE[1],
    virtualServer: '10.96.0.2:80/tcp',
    realServer: '10.244.0.2:8080',
    servicePort: 'demo/web:http',
    seconds: 75,
    deadlineSeconds: 60,
  }
  const drains = joinDrains(LIVE, [gone, known])
  assert.deepEqual(drainsText(drains, plain, undefined), [
    'REAL SERVER      ACTIVE  INACTIVE  SINCE  ENDS WITHIN  VIRTUAL SERVER    SERVICE',
    '10.244.0.2:8080       0         2  1m15s           0s  10.96.0.2:80/tcp  demo/web:http',
    '10.244.0.1:8080       3         1      -            -  10.96.0.1:80/tcp  -',
  ])
  assert.deepEqual(drainsText([], plain, 80), ['nothing is draining on this node'])
  for (const line of drainsText(drains, plain, 20)) assert.ok(line.length <= 20, line)
})

test('an endpoint that does not answer has weight 0 and does not drain', () => {
  const outlier = {
    virtualServer: '10.96.0.1:80/tcp',
    realServer: '10.244.0.1:8080',
    servicePort: 'demo/web:http',
    state: 'suspect',
    seconds: 12,
    nextTrialSeconds: 8,
  } as const
  assert.deepEqual(withoutOutliers(LIVE, [outlier]), LIVE.slice(1))
  assert.deepEqual(
    outliersText([outlier, { ...outlier, servicePort: null, nextTrialSeconds: null }], plain, undefined),
    [
      '',
      'DOES NOT ANSWER  SINCE  NEXT TRIAL  VIRTUAL SERVER    SERVICE',
      '10.244.0.1:8080    12s       in 8s  10.96.0.1:80/tcp  demo/web:http',
      '10.244.0.1:8080    12s           -  10.96.0.1:80/tcp  -',
    ],
  )
  assert.deepEqual(outliersText([], plain, 80), [])
})

test('durationText has the two largest units', () => {
  assert.deepEqual([0, 0.4, 45, 300, 3725, 90_061].map(durationText), ['0s', '0s', '45s', '5m', '1h2m', '1d1h'])
})

test('countsText says what keeps a wait', () => {
  assert.equal(countsText({ active: 1, inactive: 5, udp: null }, false), '1 active connection')
  assert.equal(
    countsText({ active: 2, inactive: 1, udp: 3 }, true),
    '2 active connections, 1 inactive connection, 3 UDP flows',
  )
})

/** Waits with a clock that only sleeping moves; counts are given in turn, and the last one is repeated. */
async function wait(given: readonly (ConnectionCounts | undefined)[], more: Partial<WaitOptions> = {}, countMs = 0) {
  let nowMs = 1000
  const sleeps: number[] = []
  let asked = 0
  const end = await waitForEnd({
    count: async () => {
      nowMs += countMs
      return given[Math.min(asked++, given.length - 1)]
    },
    timeoutMs: 10_000,
    all: false,
    now: () => nowMs,
    sleep: async (milliseconds) => {
      sleeps.push(milliseconds)
      nowMs += milliseconds
    },
    ...more,
  })
  return { ...end, sleeps, asked }
}
const counts = (active: number, inactive = 0, udp: number | null = null): ConnectionCounts => ({
  active,
  inactive,
  udp,
})

test('waitForEnd ends at once when nothing is there', async () => {
  const { isDone, sleeps, asked } = await wait([counts(0, 5, 7)])
  assert.deepEqual([isDone, sleeps, asked], [true, [], 1])
})

test('waitForEnd counts each second until the last active connection has gone', async () => {
  const { isDone, waitedMs, sleeps } = await wait([counts(2), counts(1), counts(0, 3)])
  assert.deepEqual([isDone, waitedMs, sleeps], [true, 2000, [1000, 1000]])
})

test('waitForEnd waits for what is closing and for UDP when all is asked for', async () => {
  const { isDone, asked } = await wait([counts(0, 1), counts(0, 0, 1), counts(0, 0, 0)], { all: true })
  assert.deepEqual([isDone, asked], [true, 3])
})

test('waitForEnd ends at the timeout with the last count, also with a timeout of 0', async () => {
  const late = await wait([counts(2), counts(1)], { timeoutMs: 1500 })
  assert.deepEqual([late.isDone, late.waitedMs, late.counts, late.sleeps], [false, 1500, counts(1), [1000, 500]])
  const now = await wait([counts(1)], { timeoutMs: 0 })
  assert.deepEqual([now.isDone, now.asked], [false, 1])
})

test('waitForEnd does not take an unknown count for none, and rests longer when counting is slow', async () => {
  const { isDone, waitedMs } = await wait([undefined, undefined], { timeoutMs: 3000 })
  assert.deepEqual([isDone, waitedMs], [false, 3000])
  const { sleeps } = await wait([counts(1), counts(0)], { timeoutMs: 60_000 }, 500)
  assert.deepEqual(sleeps, [2000])
})
