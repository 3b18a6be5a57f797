/** The counts after changes and passes. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SyncCounts } from '../../src/metrics/sync-counts.ts'
import type { EndpointSlice, ObjectChange, Service } from '../../src/service/objects.ts'
import type { ServicePort } from '../../src/service/service-port.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import { rulesOf, TABLES } from '../../src/sync/part.ts'
import { endpointsAt, frontendOf } from '../support/frontends.ts'
import { service, slice } from '../support/objects.ts'

const START_MS = 1_000_000
const GOOD: PassReport = { applied: 1, failures: [], repairs: [], unreadable: [] }
const UNREADABLE: PassReport = { ...GOOD, unreadable: [{ table: 'virtual-servers', error: new Error('no') }] }
const FAILED: PassReport = {
  ...GOOD,
  failures: [{ key: 'k', command: 'c', error: new Error('no'), attempts: 1, retryAtMs: 0, table: 'virtual-servers' }],
}

class Bench {
  wallMs = START_MS
  readonly slices = new Map<string, EndpointSlice>()
  readonly counts = new SyncCounts({ families: ['IPv4', 'IPv6'], wallMs: () => this.wallMs })

  slice(change: Partial<EndpointSlice> | undefined, key = 'demo/web-1'): void {
    const value = change && slice({ ports: [], ...change })
    this.changed({ kind: 'endpointslices', key, value })
    if (value === undefined) this.slices.delete(key)
    else this.slices.set(key, value)
  }

  changed(...changes: ObjectChange[]): void {
    this.counts.changed(changes, { slice: (key) => this.slices.get(key) })
  }

  pass(report = GOOD, durationMs = 10): void {
    this.counts.beginPass()
    this.counts.passed(TABLES, report, durationMs)
  }

  get ipv4() {
    return this.counts.byFamily.IPv4
  }

  get ipv6() {
    return this.counts.byFamily.IPv6
  }
}

describe('network programming latency', () => {
  it('is the time from the trigger to the end of the pass', () => {
    const bench = new Bench()
    bench.slice({ triggeredAtMs: START_MS + 1000 })
    bench.wallMs = START_MS + 4000
    bench.pass()
    assert.deepEqual([bench.ipv4.programmingSeconds.count, bench.ipv4.programmingSeconds.sum], [1, 3])
    bench.pass()
    assert.equal(bench.ipv4.programmingSeconds.count, 1)
    assert.equal(bench.ipv6.programmingSeconds.count, 0)
  })

  it('ignores triggers before the start, deletions, and changes without a new trigger', () => {
    const bench = new Bench()
    bench.slice({ triggeredAtMs: START_MS })
    bench.slice({})
    bench.slice({ triggeredAtMs: START_MS + 1000 })
    bench.pass()
    // A change of a label keeps the trigger time.
    bench.slice({ triggeredAtMs: START_MS + 1000 })
    bench.slice(undefined)
    bench.pass()
    assert.equal(bench.ipv4.programmingSeconds.count, 1)
  })

  it('counts each change before a pass, and changes during a pass with the next one', () => {
    const bench = new Bench()
    bench.slice({ triggeredAtMs: START_MS + 1 })
    bench.slice({ triggeredAtMs: START_MS + 2 })
    bench.counts.beginPass()
    bench.slice({ triggeredAtMs: START_MS + 3 })
    bench.counts.passed(TABLES, GOOD, 1)
    assert.equal(bench.ipv4.programmingSeconds.count, 2)
    bench.pass()
    assert.equal(bench.ipv4.programmingSeconds.count, 3)
  })

  it('continues while the kernel cannot be read, in bounded memory', () => {
    const bench = new Bench()
    for (let index = 1; index <= 30_000; index++) {
      bench.slice({ triggeredAtMs: START_MS + index })
      if (index % 100 === 0) bench.pass(UNREADABLE)
    }
    assert.ok(bench.ipv4.passTriggers.length <= 10_000)
    bench.wallMs = START_MS + 60_000
    bench.pass()
    assert.equal(bench.ipv4.programmingSeconds.count, 10_000)
    assert.ok(bench.ipv4.programmingSeconds.sum >= 10_000 * 30)
  })

  it('is 0 if the trigger time is in the future', () => {
    const bench = new Bench()
    bench.slice({ triggeredAtMs: START_MS + 60_000 })
    bench.pass()
    assert.deepEqual([bench.ipv4.programmingSeconds.count, bench.ipv4.programmingSeconds.sum], [1, 0])
  })
})

describe('changes', () => {
  it('are counted when they arrive and are pending until the next pass begins', () => {
    const bench = new Bench()
    bench.changed(
      { kind: 'services', key: 'demo/web', value: service() },
      { kind: 'nodes', key: 'n', value: undefined },
    )
    bench.slice({})
    bench.slice(undefined)
    const { counts } = bench
    assert.deepEqual([counts.serviceChanges, counts.servicesPending], [1, 1])
    assert.deepEqual([counts.sliceChanges, counts.slicesPending], [2, 2])
    counts.beginPass()
    bench.slice({})
    assert.deepEqual([counts.serviceChanges, counts.servicesPending], [1, 0])
    assert.deepEqual([counts.sliceChanges, counts.slicesPending], [3, 1])
  })

  it('queue a sync of the IP families that they affect', () => {
    const bench = new Bench()
    bench.changed({ kind: 'services', key: 'demo/web', value: service() })
    assert.deepEqual([bench.ipv4.lastQueuedMs, bench.ipv6.lastQueuedMs], [START_MS, 0])
    bench.wallMs += 1000
    bench.slice({ family: 'IPv6' })
    assert.deepEqual([bench.ipv4.lastQueuedMs, bench.ipv6.lastQueuedMs], [START_MS, START_MS + 1000])
    bench.wallMs += 1000
    bench.slice(undefined)
    assert.equal(bench.ipv4.lastQueuedMs, START_MS + 2000)
  })
})

describe('syncs', () => {
  it('are counted for the IP families whose frontends changed, or for both if none did', () => {
    const bench = new Bench()
    const { counts } = bench
    counts.frontend('10.96.0.1:80/tcp', frontendOf())
    bench.pass(GOOD, 30)
    assert.deepEqual([bench.ipv4.syncSeconds.count, bench.ipv6.syncSeconds.count], [1, 0])
    counts.frontend('[fd00::1]:80/tcp', undefined)
    bench.pass(GOOD, 30)
    assert.deepEqual([bench.ipv4.syncSeconds.count, bench.ipv6.syncSeconds.count], [1, 1])
    bench.pass(GOOD, 30)
    assert.deepEqual([bench.ipv4.syncSeconds.count, bench.ipv6.syncSeconds.count], [2, 2])
    assert.ok(Math.abs(bench.ipv4.syncSeconds.sum - 0.06) < 1e-9)
  })

  it('of rules are counted if they wrote or failed; an IP family with failed rules is not synced', () => {
    const bench = new Bench()
    const { counts } = bench
    counts.passed(rulesOf('IPv4'), { ...GOOD, applied: 0 }, 5)
    assert.equal(bench.ipv4.syncSeconds.count, 0)
    counts.passed(rulesOf('IPv4'), FAILED, 5)
    assert.deepEqual([bench.ipv4.syncSeconds.count, bench.ipv4.restoreFailures, counts.ruleFailures], [1, 1, 1])
    bench.wallMs += 5000
    bench.pass()
    assert.deepEqual([bench.ipv4.lastSyncedMs, bench.ipv6.lastSyncedMs], [START_MS, START_MS + 5000])
    counts.passed(rulesOf('IPv4'), UNREADABLE, 5)
    assert.deepEqual([bench.ipv4.restoreFailures, counts.ruleFailures], [1, 2])
    counts.passed(rulesOf('IPv4'), GOOD, 5)
    assert.equal(bench.ipv4.lastSyncedMs, START_MS + 5000)
  })

  it('succeed if everything could be read; failed items count as failures of the pass', () => {
    const bench = new Bench()
    bench.pass(UNREADABLE)
    assert.deepEqual([bench.ipv4.lastSyncedMs, bench.counts.tableFailures], [0, 1])
    bench.pass(FAILED)
    assert.deepEqual([bench.ipv4.lastSyncedMs, bench.counts.tableFailures], [START_MS, 2])
  })

  it('get a new time from an audit without findings, after the first sync', () => {
    const bench = new Bench()
    bench.counts.markUpToDate()
    assert.equal(bench.ipv4.lastSyncedMs, 0)
    bench.pass()
    bench.wallMs += 60_000
    bench.counts.markUpToDate()
    assert.equal(bench.ipv4.lastSyncedMs, START_MS + 60_000)
    bench.pass(UNREADABLE)
    bench.wallMs += 60_000
    bench.counts.markUpToDate()
    assert.equal(bench.ipv4.lastSyncedMs, START_MS + 60_000)
  })
})

describe('Services without a local endpoint', () => {
  const local = service({ internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local' })
  const seen = (counts: SyncCounts): number[] => [
    counts.withoutLocalEndpoints('IPv4', 'internal'),
    counts.withoutLocalEndpoints('IPv4', 'external'),
    counts.withoutLocalEndpoints('IPv6', 'external'),
  ]

  it('are counted by Service in ipvs mode, for each IP family and policy', () => {
    const { counts } = new Bench()
    const external = service({ externalTrafficPolicy: 'Local' })
    const elsewhere = ['10.244.1.1']
    const nodePort = (service: Service, servicePort: Partial<ServicePort> = {}) =>
      frontendOf({ roles: ['NodePort'], service, servicePort }, elsewhere)
    counts.frontend('10.0.0.1:30080/tcp', nodePort(external))
    counts.frontend('10.0.0.2:30080/tcp', nodePort(external))
    counts.frontend('10.0.0.2:30081/tcp', nodePort(external, { name: 'demo/web:other' }))
    counts.frontend('10.0.0.3:30082/tcp', nodePort({ ...external, name: 'other' }))
    assert.deepEqual(seen(counts), [0, 2, 0])
    // kube-proxy counts each policy that is Local if any frontend of the Service has no local endpoint.
    counts.frontend('10.96.0.1:80/tcp', frontendOf({ service: { ...local, name: 'third' } }, elsewhere))
    counts.frontend('10.96.0.2:80/tcp', frontendOf({ service: local }))
    assert.deepEqual(seen(counts), [1, 3, 0])
    counts.frontend('10.96.0.1:80/tcp', frontendOf())
    counts.frontend('10.0.0.1:30080/tcp', undefined)
    counts.frontend('10.0.0.2:30080/tcp', undefined)
    counts.frontend('10.0.0.2:30081/tcp', undefined)
    assert.deepEqual(seen(counts), [0, 1, 0])
  })

  it('are not counted in ipvs mode before the Service has an external address or a node port, as in kube-proxy', () => {
    const { counts } = new Bench()
    const external = service({ externalTrafficPolicy: 'Local' })
    counts.frontend('10.96.0.1:80/tcp', frontendOf({ service: external }, ['10.244.1.1']))
    assert.deepEqual(seen(counts), [0, 0, 0])
  })

  it('are counted by Service port in iptables mode, also before it has an external address', () => {
    const options = { families: ['IPv4', 'IPv6'] as const, wallMs: () => 0 }
    const counts = new SyncCounts({ ...options, rulesPending: () => false })
    const elsewhere = ['10.244.1.1', '10.244.1.2']
    const clusterIp = (service: Service, servicePort: Partial<ServicePort> = {}) =>
      frontendOf({ service, servicePort }, elsewhere)
    const external = service({ externalTrafficPolicy: 'Local' })
    counts.frontend('10.96.0.1:80/tcp', clusterIp(external))
    counts.frontend('10.96.0.1:81/tcp', clusterIp(external, { name: 'demo/web:other' }))
    assert.deepEqual(seen(counts), [0, 2, 0])
    counts.frontend('10.96.0.2:80/tcp', clusterIp({ ...local, name: 'local' }))
    assert.deepEqual(seen(counts), [1, 3, 0])
    const here = endpointsAt(elsewhere).map((one, index) =>
      index === 0 ? { ...one, source: { ...one.source, nodeName: 'node0' } } : one,
    )
    counts.frontend('10.96.0.1:80/tcp', clusterIp(external, { candidates: here }))
    counts.frontend('10.96.0.1:81/tcp', clusterIp(external, { candidates: [] }))
    assert.deepEqual(seen(counts), [1, 1, 0])
  })
})

describe('network programming latency in iptables mode', () => {
  it('ends with the pass for an IP family without pending rules, and with the rules for the other', () => {
    const pending = { IPv4: true, IPv6: false }
    let wallMs = START_MS
    const counts = new SyncCounts({
      families: ['IPv4', 'IPv6'],
      wallMs: () => wallMs,
      rulesPending: (family) => pending[family],
    })
    counts.byFamily.IPv4.waitingTriggers.push(START_MS)
    counts.byFamily.IPv6.waitingTriggers.push(START_MS)
    counts.beginPass()
    counts.passed(TABLES, { ...GOOD, applied: 0 }, 1)
    assert.deepEqual(
      [counts.byFamily.IPv4.programmingSeconds.count, counts.byFamily.IPv6.programmingSeconds.count],
      [0, 1],
    )
    assert.equal(counts.byFamily.IPv4.syncSeconds.count, 0, 'rendering rules is no sync')
    wallMs += 2000
    counts.passed(rulesOf('IPv4'), FAILED, 5)
    counts.passed(rulesOf('IPv4'), GOOD, 5)
    assert.equal(counts.byFamily.IPv4.programmingSeconds.count, 0, 'rules are still pending')
    pending.IPv4 = false
    counts.passed(rulesOf('IPv4'), GOOD, 5)
    assert.deepEqual(
      [counts.byFamily.IPv4.programmingSeconds.count, counts.byFamily.IPv4.programmingSeconds.sum],
      [1, 2],
    )
  })
})
