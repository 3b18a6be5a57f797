import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { healthCheckFailed, proxyStarting } from '../../src/events/event-objects.ts'
import { EventSeries, FINISH_MS, MAX_SERIES } from '../../src/events/event-series.ts'

const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5, 678)
const failed = (name: string, note = 'a') => healthCheckFailed({ namespace: 'demo', name }, note)

/** Records an occurrence that must be sent, and returns the key of its series. */
function recordSent(series: EventSeries, occurrence: ReturnType<typeof failed>, nowMs: number): string {
  const key = series.record(occurrence, nowMs)
  assert.ok(key !== undefined)
  return key
}

describe('EventSeries', () => {
  it('sends the first and the second occurrence, even with different notes', () => {
    const series = new EventSeries('s0')
    const key = recordSent(series, failed('web'), START_MS)
    series.settle(key, 1, START_MS)
    assert.equal(recordSent(series, failed('web', 'b'), START_MS + 1), key)
    const request = series.request(key)
    assert.deepEqual(
      [request?.method, request?.body],
      ['PATCH', { series: { count: 2, lastObservedTime: '2026-01-02T03:04:05.679000Z' } }],
    )
    assert.equal(series.record(failed('web', 'c'), START_MS + 2), undefined)
    assert.notEqual(recordSent(series, failed('web2'), START_MS), key)
  })

  it('makes one request for all occurrences before the first was sent', () => {
    const series = new EventSeries('s0')
    const key = recordSent(series, failed('web'), START_MS)
    series.record(failed('web'), START_MS)
    series.record(failed('web'), START_MS)
    const request = series.request(key)
    assert.equal(request?.method, 'POST')
    assert.match(JSON.stringify(request?.body), /"series":\{"count":3,/)
  })

  it('ends a series after six quiet minutes, with its final count', () => {
    const series = new EventSeries('s0')
    const single = recordSent(series, failed('single'), START_MS)
    const key = recordSent(series, failed('web'), START_MS)
    for (let time = 0; time < 3; time++) series.record(failed('web'), START_MS)
    series.settle(single, 1, START_MS)
    series.settle(key, 2, START_MS)
    assert.deepEqual(series.sweep(START_MS + FINISH_MS), [])
    const later = START_MS + FINISH_MS + 1
    assert.deepEqual(series.sweep(later), [key])
    assert.equal(series.request(single), undefined)
    assert.match(JSON.stringify(series.request(key)?.body), /"count":4/)
    series.settle(key, 4, later)
    assert.deepEqual(series.sweep(later), [])
    assert.equal(series.request(key), undefined)
    assert.equal(recordSent(series, failed('web'), later), key)
    assert.equal(series.request(key)?.method, 'POST')
  })

  it('sends an ongoing series again every half hour', () => {
    const series = new EventSeries('s0')
    const key = recordSent(series, failed('web'), START_MS)
    series.settle(key, 1, START_MS)
    const due: number[] = []
    for (let minute = 1; minute <= 90; minute++) {
      const nowMs = START_MS + minute * 60_000
      series.record(failed('web'), nowMs)
      if (minute === 1) series.settle(key, 2, nowMs)
      if (minute % 6 !== 0 || series.sweep(nowMs).length === 0) continue
      due.push(minute)
      series.settle(key, series.count(key), nowMs)
    }
    assert.deepEqual(due, [36, 66])
  })

  it('keeps at most a thousand series', () => {
    const series = new EventSeries('s0')
    for (let index = 0; index < MAX_SERIES; index++) recordSent(series, failed(`web${index}`), START_MS)
    assert.equal(series.record(failed('one-more'), START_MS), undefined)
    // Whatever was written into Services, the node can say something.
    assert.ok(series.record(proxyStarting('node0'), START_MS))
  })

  it('gives each Event a unique name, in the form of client-go', () => {
    const series = new EventSeries('s0')
    const nameOf = (nodeName: string): string => {
      const body = series.request(recordSent(series, proxyStarting(nodeName), START_MS))?.body
      return body !== undefined && 'metadata' in body ? body.metadata.name : ''
    }
    const nanos = (BigInt(START_MS) * 1_000_000n).toString(16)
    assert.equal(nameOf('node0'), `node0.${nanos}`)
    assert.equal(nameOf('node1'), `node1.${(BigInt(START_MS) * 1_000_000n + 1n).toString(16)}`)
    // A name that would exceed the limit of 253 characters.
    assert.match(nameOf('n'.repeat(240)), /^kube-proxy\.[0-9a-f]{16}$/)
  })
})
