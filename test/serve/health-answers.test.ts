/** /healthz and /livez as values: bodies, paths, times; and the health of the proxy behind them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ProxyHealth } from '../../src/daemon/proxy-health.ts'
import type { TableHealth } from '../../src/modes/table-health.ts'
import { answerHealth, formatTime, type HealthState } from '../../src/serve/health-answers.ts'
import { SyncHealth } from '../../src/serve/sync-health.ts'
import type { Node } from '../../src/service/objects.ts'
import type { PassReport } from '../../src/sync/reconciler.ts'
import type { IpFamily } from '../../src/values/protocol.ts'

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
  it('says all about a healthy proxy, and on /livez nothing of the Node', () => {
    const status =
      '"status":{"IPv4":{"lastUpdated":"2026-11-20T16:11:32.46Z","healthy":true},"IPv6":{"lastUpdated":"2026-11-20T16:11:33.46Z","healthy":true}}}'
    const times = '{"lastUpdated":"2026-11-20T16:11:34.46Z","currentTime":"2026-11-20T16:11:34.46Z",'
    assert.equal(answer('/healthz', state()).body, `${times}"nodeEligible":true,"healthy":true,${status}`)
    assert.equal(answer('/livez', state()).body, `${times}"healthy":true,${status}`)
  })

  it('is 503 with the last time all was well', () => {
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

  it('knows two paths, and sends long forms of any to the short one', () => {
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

  it('tells how it answered', () => {
    const heard: unknown[] = []
    const port = { state: () => state({}, false), clock: () => AT, onAnswer: (...what: unknown[]) => heard.push(what) }
    for (const path of ['/healthz', '/livez', '/', '//livez']) answerHealth(port, 'GET', path, '')
    assert.deepEqual(heard, [
      ['/healthz', 503],
      ['/livez', 503],
    ])
  })

  it('prints times as Go does', () => {
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
  it('counts what lasts, for its families only, and ends with it', () => {
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
    health.looked()
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

  it('knows only the families that are served, from when that is known', () => {
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
  const NODE: Node = { name: 'node0', zone: '', addresses: [], podCidrs: [], taintKeys: [], deleting: false }

  function newHealth() {
    const time = { ms: 0 }
    const health = new ProxyHealth({ nodeName: 'node0', families: BOTH, syncPeriodMs: () => 50, now: () => time.ms })
    const kernel = { tables: [] as TableHealth[], rules: [] as { family: IpFamily; isPending: boolean }[] }
    health.follow({ families: BOTH, tables: () => kernel.tables, rules: kernel.rules })
    return { time, health, kernel }
  }

  it('waits for the first pass, but not for ever', () => {
    const { time, health } = newHealth()
    time.ms = 99
    assert.equal(health.isHealthy, true)
    time.ms = 100
    assert.equal(health.isHealthy, false)
    health.passed('IPv4', DONE)
    assert.equal(health.isHealthy, false)
    health.passed('tables', DONE)
    assert.equal(health.isHealthy, true)
  })

  it('names the family whose rules cannot be read, whatever passes over the other one say', () => {
    const { time, health } = newHealth()
    const well = (): unknown => Array.from(health.state.families.values(), ({ healthy }) => healthy)
    health.passed('tables', DONE)
    health.passed('IPv6', UNREADABLE)
    time.ms = 50
    health.passed('IPv4', DONE)
    health.passed('IPv6', UNREADABLE)
    time.ms = 100
    assert.deepEqual(well(), [true, false])
    health.passed('IPv6', DONE)
    assert.deepEqual(well(), [true, true])
  })

  it('minds a pass that does not end, tables that cannot be read, and processes that hang', () => {
    const { time, health, kernel } = newHealth()
    health.passed('tables', DONE)
    health.passBegins()
    time.ms = 100
    assert.equal(health.isHealthy, false)
    health.passed('tables', UNREADABLE)
    assert.equal(health.isHealthy, true)
    time.ms = 200
    health.passed('IPv4', DONE)
    assert.equal(health.isHealthy, false)
    health.passed('tables', DONE)
    kernel.rules.push({ family: 'IPv6', isPending: true })
    assert.equal(health.isHealthy, true)
    time.ms = 300
    assert.deepEqual(
      Array.from(health.state.families.values(), ({ healthy }) => healthy),
      [true, false],
    )
  })

  it('knows the Node by its name alone', () => {
    const { health } = newHealth()
    const seen = (key: string, value: Node | undefined): boolean => {
      health.apply([{ kind: 'nodes', key, value }])
      return health.state.nodeEligible
    }
    assert.equal(health.state.nodeEligible, false)
    assert.equal(seen('node1', { ...NODE, name: 'node1' }), false)
    assert.equal(seen('node0', NODE), true)
    assert.equal(seen('node1', undefined), true)
    assert.equal(seen('node0', { ...NODE, taintKeys: ['ToBeDeletedByClusterAutoscaler'] }), false)
  })
})
