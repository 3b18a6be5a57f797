/** Answers of /healthz and /livez as values, and the health of the proxy that they report. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ProxyHealth } from '../../src/daemon/proxy-health.ts'
import type { TableHealth } from '../../src/modes/table-health.ts'
import { answerHealth, formatTime, type HealthState } from '../../src/serve/health-answers.ts'
import { SyncHealth } from '../../src/serve/sync-health.ts'
import type { Node } from '../../src/service/objects.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import type { PendingPart } from '../../src/modes/mode.ts'
import { rulesOf, TABLES } from '../../src/sync/part.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { node } from '../support/objects.ts'

const BOTH = ['IPv4', 'IPv6'] as const
const AT = Date.UTC(2026, 10, 20, 16, 11, 34, 460)

function state(more: Partial<HealthState> = {}, healthy = true): HealthState {
  return {
    nodeEligible: true,
    families: new Map([
      ['IPv4', { lastUpdatedMs: AT - 2000, healthy: true }],
      ['IPv6', { lastUpdatedMs: AT - 1000, healthy }],
    ]),
    ...more,
  }
}

const answer = (path: string, now: HealthState, method = 'GET', query = '') =>
  answerHealth({ state: () => now, clock: () => AT }, method, path, query)

describe('answerHealth', () => {
  it('reports a healthy proxy, and the Node only on /healthz', () => {
    const status =
      '"status":{"IPv4":{"lastUpdated":"2026-11-20T16:11:32.46Z","healthy":true},"IPv6":{"lastUpdated":"2026-11-20T16:11:33.46Z","healthy":true}}}'
    const times = '{"lastUpdated":"2026-11-20T16:11:34.46Z","currentTime":"2026-11-20T16:11:34.46Z",'
    assert.equal(answer('/healthz', state()).body, `${times}"nodeEligible":true,"healthy":true,${status}`)
    assert.equal(answer('/livez', state()).body, `${times}"healthy":true,${status}`)
  })

  it('is 503 with the last healthy time', () => {
    for (const [now, path, status] of [
      [state({ nodeEligible: false }), '/healthz', 503],
      [state({ nodeEligible: false }), '/livez', 200],
      [state({}, false), '/healthz', 503],
      [state({}, false), '/livez', 503],
    ] as const) {
      const { status: code, body } = answer(path, now)
      assert.equal(code, status)
      const since = status === 503 ? '33.46' : '34.46'
      assert.ok(String(body).startsWith(`{"lastUpdated":"2026-11-20T16:11:${since}Z"`), String(body))
    }
  })

  it('serves two paths, and redirects other forms of a path to its short form', () => {
    for (const path of ['/', '/healthz/', '/readyz', '/HEALTHZ', '']) assert.equal(answer(path, state()).status, 404)
    for (const [path, location] of [
      ['//healthz', '/healthz'],
      ['/./livez', '/livez'],
      ['/a/../../healthz', '/healthz'],
      ['//x/', '/x/'],
      ['//evil.example/a b', '/evil.example/a%20b?q=1'],
    ] as const) {
      const { status, headers } = answer(path, state(), 'GET', location.endsWith('?q=1') ? 'q=1' : '')
      assert.deepEqual([status, new Map(headers).get('Location')], [307, location])
    }
    assert.deepEqual(answer('//healthz', state(), 'POST'), {
      status: 307,
      headers: [['Location', '/healthz']],
      body: '',
    })
  })

  it('calls onAnswer with path and status', () => {
    const answers: unknown[] = []
    const port = {
      state: () => state({}, false),
      clock: () => AT,
      onAnswer: (...what: unknown[]) => answers.push(what),
    }
    for (const path of ['/healthz', '/livez', '/', '//livez']) answerHealth(port, 'GET', path, '')
    assert.deepEqual(answers, [
      ['/healthz', 503],
      ['/livez', 503],
    ])
  })

  it('prints times like Go', () => {
    assert.deepEqual(
      [0, 1, 10, 100, Number.NEGATIVE_INFINITY].map((ms) => formatTime(ms)),
      [
        '1970-01-01T00:00:00Z',
        '1970-01-01T00:00:00.001Z',
        '1970-01-01T00:00:00.01Z',
        '1970-01-01T00:00:00.1Z',
        '0001-01-01T00:00:00Z',
      ],
    )
  })
})

describe('SyncHealth', () => {
  it('makes the affected IP families unhealthy while a trouble exceeds the grace period', () => {
    let nowMs = 0
    const health = new SyncHealth({
      families: () => BOTH,
      graceMs: () => 100,
      now: () => nowMs,
      clock: () => 1000 + nowMs,
    })
    const well = (): unknown => BOTH.map((family) => health.families.get(family)?.healthy)
    health.begin('sets IPv6', ['IPv6'])
    nowMs = 99
    health.begin('sets IPv6', ['IPv6'])
    assert.deepEqual([well(), health.isHealthy], [[true, true], true])
    nowMs = 100
    assert.deepEqual([well(), health.isHealthy], [[true, false], false])
    health.markUpToDate()
    assert.deepEqual(
      BOTH.map((family) => health.families.get(family)?.lastUpdatedMs),
      [1100, 1000],
    )
    health.end('sets IPv6')
    assert.deepEqual([well(), health.isHealthy], [[true, true], true])
    health.begin('pass')
    nowMs = 200
    assert.deepEqual([well(), health.isHealthy], [[false, false], false])
  })

  it('reports only served IP families', () => {
    let families: readonly IpFamily[] = BOTH
    let nowMs = 0
    const health = new SyncHealth({ families: () => families, graceMs: () => 100, now: () => nowMs, clock: () => 0 })
    health.begin('start')
    health.begin('sets IPv6', ['IPv6'])
    assert.deepEqual([...health.families.keys()], BOTH)
    families = ['IPv4']
    nowMs = 100
    assert.deepEqual([...health.families.keys()], ['IPv4'])
    assert.equal(health.isHealthy, false)
    health.end('start')
    assert.equal(health.isHealthy, true)
  })
})

describe('ProxyHealth', () => {
  const DONE: PassReport = { applied: 0, failures: [], repairs: [], unreadable: [] }
  const UNREADABLE: PassReport = { ...DONE, unreadable: [{ table: 'sets', error: new Error('gone') }] }

  function newHealth() {
    const time = { ms: 0 }
    const health = new ProxyHealth({ nodeName: 'node0', families: BOTH, syncPeriodMs: () => 50, now: () => time.ms })
    const kernel = { tables: [] as TableHealth[], parts: [] as PendingPart[] }
    health.follow({ families: BOTH, tables: () => kernel.tables, parts: kernel.parts })
    return { time, health, kernel }
  }

  it('is unhealthy if the first pass takes too long', () => {
    const { time, health } = newHealth()
    time.ms = 99
    assert.equal(health.isHealthy, true)
    time.ms = 100
    assert.equal(health.isHealthy, false)
    health.passed(rulesOf('IPv4'), DONE)
    assert.equal(health.isHealthy, false)
    health.passed(TABLES, DONE)
    assert.equal(health.isHealthy, true)
  })

  it('reports the IP family whose rules cannot be read, although passes over the other one succeed', () => {
    const { time, health } = newHealth()
    const well = (): unknown => Array.from(health.state.families.values(), ({ healthy }) => healthy)
    health.passed(TABLES, DONE)
    health.passed(rulesOf('IPv6'), UNREADABLE)
    time.ms = 50
    health.passed(rulesOf('IPv4'), DONE)
    health.passed(rulesOf('IPv6'), UNREADABLE)
    time.ms = 100
    assert.deepEqual(well(), [true, false])
    health.passed(rulesOf('IPv6'), DONE)
    assert.deepEqual(well(), [true, true])
  })

  it('is unhealthy after a pass that does not end, unreadable tables, or hanging iptables', () => {
    const { time, health, kernel } = newHealth()
    health.passed(TABLES, DONE)
    health.passBegins()
    time.ms = 100
    assert.equal(health.isHealthy, false)
    health.passed(TABLES, UNREADABLE)
    assert.equal(health.isHealthy, true)
    time.ms = 200
    health.passed(rulesOf('IPv4'), DONE)
    assert.equal(health.isHealthy, false)
    health.passed(TABLES, DONE)
    kernel.parts.push({ ...rulesOf('IPv6'), isPending: true })
    assert.equal(health.isHealthy, true)
    time.ms = 300
    assert.deepEqual(
      Array.from(health.state.families.values(), ({ healthy }) => healthy),
      [true, false],
    )
  })

  it('derives eligibility from the Node with its own name', () => {
    const { health } = newHealth()
    const seen = (key: string, value: Node | undefined): boolean => {
      health.apply([{ kind: 'nodes', key, value }])
      return health.state.nodeEligible
    }
    assert.equal(health.state.nodeEligible, false)
    assert.equal(seen('node1', node({ name: 'node1' })), false)
    assert.equal(seen('node0', node({ name: 'node0' })), true)
    assert.equal(seen('node1', undefined), true)
    assert.equal(seen('node0', node({ name: 'node0', taintKeys: ['ToBeDeletedByClusterAutoscaler'] })), false)
  })
})
