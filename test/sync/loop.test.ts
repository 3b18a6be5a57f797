import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { SyncLoop } from '../../src/sync/loop.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { memoryVirtualServers } from '../support/memory-table.ts'
import { makeVirtualServer } from '../support/virtual-servers.ts'

const NODE = {
  nodeName: 'node0',
  zone: undefined,
  nodeIps: {},
  localAddresses: new Set<string>(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}

describe('SyncLoop', () => {
  it('waits longer each time before it reads an unreadable table again, and never spins', async () => {
    const timers = mock.timers
    timers.enable({ apis: ['setTimeout'] })
    let nowMs = 0
    const [broken, whole] = [memoryVirtualServers(), memoryVirtualServers()]
    broken.failRead = true
    const syncs = [broken, whole].map((table) => new TableSync(table))
    const reconciler = new Reconciler(syncs.map((sync) => reconciled(sync)))
    const reports: PassReport[] = []
    const loop = new SyncLoop({
      dataplane: {
        frontend: () => undefined,
        pass: (options) => reconciler.pass({ ...options, now: () => nowMs }),
        nextDueMs: () => reconciler.nextDueMs(),
      },
      desired: new DesiredFrontends(NODE),
      minSyncPeriodMs: () => 0,
      now: () => nowMs,
      listener: {
        passBegins: () => undefined,
        frontendChanged: () => undefined,
        serviceProblems: () => undefined,
        frontendsReady: () => undefined,
        tablesPassed: (report) => void reports.push(report),
        passFailed: (error) => assert.fail(String(error)),
      },
    })
    try {
      for (const [index, sync] of syncs.entries())
        sync.want('10.96.0.1:80/tcp', makeVirtualServer('10.96.0.1', [], { port: 80 + index }))
      loop.open(true)
      const turns = async () => {
        for (let count = 0; count < 20; count++) await turn()
      }
      await turns()
      for (; nowMs < 60_000; nowMs += 500, timers.tick(500)) await turns()
      // At 0, 1, 3, 7, 15 and 31 seconds.
      assert.equal(reports.length, 6)
      assert.equal(broken.reads, 6)
      assert.equal(whole.kernel.size, 1, 'the other table is still written')
      // A change of the other table causes a pass, which reports the unreadable table without reading it.
      syncs[1]?.want('10.96.0.2:80/tcp', makeVirtualServer('10.96.0.2'))
      loop.request()
      await turns()
      assert.equal(whole.kernel.size, 2)
      assert.deepEqual([reports.length, broken.reads], [7, 6])
      assert.equal(reports.at(-1)?.unreadable.length, 1)
      broken.failRead = false
      for (; nowMs < 90_000; nowMs += 500, timers.tick(500)) await turns()
      assert.equal(broken.kernel.size, 1)
      assert.deepEqual(reports.at(-1)?.unreadable, [])
    } finally {
      await loop.close()
      timers.reset()
    }
  })

  it('says that another pass follows when what a pass waits for comes while it runs', async () => {
    const sync = new TableSync(memoryVirtualServers())
    const reconciler = new Reconciler([reconciled(sync)])
    const ends: boolean[] = []
    const loop: SyncLoop = new SyncLoop({
      dataplane: {
        frontend: () => undefined,
        pass: async (options) => {
          const report = await reconciler.pass({ ...options, now: () => 0 })
          // The rules that virtual servers waited for are written before the first pass has ended.
          if (ends.length === 0) loop.resume()
          return report
        },
        nextDueMs: () => reconciler.nextDueMs(),
      },
      desired: new DesiredFrontends(NODE),
      minSyncPeriodMs: () => 0,
      now: () => 0,
      listener: {
        passBegins: () => undefined,
        frontendChanged: () => undefined,
        serviceProblems: () => undefined,
        frontendsReady: () => undefined,
        tablesPassed: (_report, _durationMs, isLast) => void ends.push(isLast),
        passFailed: (error) => assert.fail(String(error)),
      },
    })
    loop.open(true)
    for (let count = 0; count < 20; count++) await turn()
    await loop.close()
    assert.deepEqual(ends, [false, true])
  })
})
