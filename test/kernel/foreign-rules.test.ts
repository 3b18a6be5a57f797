/** Rules of other programs that concern ours: very many, and jumps to chains that must be deleted. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openIptablesKernel } from '../../src/modes/iptables/kernel.ts'
import { findServiceMatches } from '../../src/modes/iptables/service-matches.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, rulesText, setsText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { amountOfRun } from '../support/extent.ts'
import { isMet, needs } from './needs.ts'

const MODES = ['ipvs', 'iptables'] as const
const suffix = isMet('iptables-nft') ? '' : '-legacy'
const iptables = `iptables${suffix}`

let bench: Workbench
const workbench = (mode: (typeof MODES)[number]): Workbench =>
  new Workbench({}, { mode, iptables: { minSyncPeriod: '0s' } })
beforeEach(freshNode)
afterEach(() => bench.close())

/** Only of one table: the other one may be very large. */
const has = (text: string, table = 'filter'): boolean =>
  rulesText(`${iptables}-save -t ${table}`)
    .split('\n')
    .some((line) => line.includes(text))

/** Rejects unless the Service at this address is served; its endpoint is the last one that was written. */
function assertServed(mode: (typeof MODES)[number], address: string, endpoint: string): void {
  if (mode === 'ipvs')
    assert.ok(virtualServers().some((line) => line.includes(`${address}:80 -r ${endpoint}:8080 -m -w 1`)))
  else assert.ok(has(`-j DNAT --to-destination ${endpoint}:8080`, 'nat'))
}

describe('a foreign rule that jumps to a chain of the other mode', () => {
  for (const mode of MODES)
    it(`does not stop a switch to ${mode} mode: the chain is emptied and named, and deleted without the rule`, async () => {
      const other = mode === 'ipvs' ? 'iptables' : 'ipvs'
      const chain = mode === 'ipvs' ? 'KUBE-NODEPORTS' : 'KUBE-IPVS-FILTER'
      bench = workbench(other)
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
      const before = bench.start()
      await eventually(() => {
        assertServed(other, '10.96.0.1', '10.244.0.1')
        assert.ok(has(`:${chain} `))
      })
      await bench.stop(before)
      await bench.close()
      sh(`${iptables} -A INPUT -s 192.0.2.1 -j ${chain}`)
      bench = workbench(mode)
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
      bench.start()
      await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.1'))
      const named = new RegExp(`the chain ${chain} of filter was emptied but could not be deleted: .*192\\.0\\.2\\.1`)
      await eventually(() => assert.match(bench.log, named))
      // The rest goes on: all of the other mode is removed, and changes are written.
      await eventually(() => {
        assert.ok(!has(`-A ${chain} `) && !has(mode === 'ipvs' ? 'KUBE-SVC-' : 'KUBE-LOAD-BALANCER', 'nat'))
        if (mode === 'iptables') assert.deepEqual([virtualServers(), setsText('list', '-n')], [[], ''])
      }, 60_000)
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.2']))
      await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.2'))
      assert.ok(has(`-j ${chain}`), 'the foreign rule stays')
      sh(`${iptables} -D INPUT -s 192.0.2.1 -j ${chain}`)
      await eventually(() => assert.ok(!has(chain)), 60_000)
    })
})

const COUNT = amountOfRun(100_000, 20_000)

describe(`${COUNT} foreign rules in the table filter`, () => {
  for (const mode of MODES)
    it(`do not stop ${mode} mode, and stay`, async (context) => {
      bench = workbench(mode)
      const file = `${bench.directory}.rules`
      const line = (_: unknown, index: number): string =>
        `-A MINE -s 10.${index >> 16}.${(index >> 8) & 255}.${index & 255}/32 -j ACCEPT`
      writeFileSync(file, ['*filter', ':MINE - [0:0]', ...Array.from({ length: COUNT }, line), 'COMMIT', ''].join('\n'))
      sh(`${iptables}-restore --noflush < ${file}; rm ${file}`)
      const started = performance.now()
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
      const daemon = bench.start()
      if (mode === 'ipvs') await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']), 300_000)
      await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.1'), 300_000)
      const served = performance.now()
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.2']))
      await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.2'), 300_000)
      const changed = performance.now()
      assert.equal(sh(`${iptables}-save -t filter | grep -c '^-A MINE '`).trim(), String(COUNT))
      const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1])
      context.diagnostic(
        `served after ${Math.round(served - started)} ms, changed after ${Math.round(changed - served)} ms, peak ${Math.round(peak / 1024)} MiB`,
      )
      // The text of 100,000 rules is 6 MB, and its lines are read once.
      assert.ok(peak < 400 * 1024, `${peak} KiB`)
      assert.doesNotMatch(bench.log, /was killed/)
    })
})

describe('findServiceMatches', needs('iptables-nft'), () => {
  it('finds the matches that this kernel has', async () => {
    bench = workbench('iptables')
    const kernel = await openIptablesKernel()
    try {
      const found = await findServiceMatches(kernel, new AbortController().signal)
      assert.deepEqual(found, { hasRecent: true, hasStatistic: true })
    } finally {
      kernel.close()
    }
  })
})
