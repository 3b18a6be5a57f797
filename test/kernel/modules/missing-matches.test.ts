/**
 * iptables mode on a kernel without the matches recent and statistic and without counters (nfacct):
 * all Services are served.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Workbench } from '../../support/daemon.ts'
import { service, slice } from '../../support/manifests.ts'
import { freshNode, rulesText } from '../../support/kernel-state.ts'
import { sh } from '../../support/programs.ts'
import { eventually } from '../../support/deadline.ts'
import { needs } from '../needs.ts'

const MODULES = ['xt_recent', 'xt_statistic', 'xt_nfacct', 'nfnetlink_acct']
/** The program that the kernel starts to load a module. */
const MODPROBE = '/proc/sys/kernel/modprobe'
/** This kernel is slower than the others. */
const START_MS = 30_000

describe('iptables mode', needs('legacy-iptables'), () => {
  let bench: Workbench
  const modprobe = readFileSync(MODPROBE, 'utf8').trim()
  const rules = (): string => rulesText('iptables-legacy-save')
  const isServed = (address: string): void =>
    assert.match(rules(), new RegExp(`^-A KUBE-SERVICES -d ${address}/32 .* -j KUBE-SVC-`, 'm'))
  /** Chains of Services with a rule that leads to an endpoint. */
  const services = (text: string): ReadonlySet<string> =>
    new Set(text.match(/(?<=^-A )KUBE-SVC-\S+(?= .*-j KUBE-SEP-)/gm))

  before(() => {
    freshNode()
    bench = new Workbench({}, { mode: 'iptables', iptables: { minSyncPeriod: '0s' } })
    const affinity = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } }
    bench.write('a.yaml', service('a', { clusterIP: '10.96.0.1', ...affinity }), slice('a', ['10.244.0.5']))
    bench.write('b.yaml', service('b', { clusterIP: '10.96.0.2' }), slice('b', ['10.244.0.6', '10.244.0.7']))
  })
  after(async () => {
    writeFileSync(MODPROBE, modprobe)
    await bench.close()
  })

  it('uses all of them where the kernel may load them', async () => {
    const daemon = bench.start()
    await eventually(() => assert.match(rules(), /-m recent .*[^]*-m statistic /), START_MS)
    await bench.stop(daemon)
    assert.equal((await bench.run('cleanup')).code, 0)
  })

  it('serves Services without affinity, or by one endpoint, where they are missing, and names what is missing', async () => {
    await eventually(() => void sh(`modprobe -r ${MODULES.join(' ')}`), START_MS)
    writeFileSync(MODPROBE, '/bin/false')
    const before = bench.log.length
    const daemon = bench.start()
    await eventually(() => {
      isServed('10.96.0.1')
      isServed('10.96.0.2')
    }, START_MS)
    const text = rules()
    assert.doesNotMatch(text, /-m (recent|statistic|nfacct) /)
    // Without a match the first rule of each Service takes every connection.
    assert.equal(services(text).size, 2, text)
    for (const match of ['recent', 'statistic']) assert.match(bench.log.slice(before), new RegExp(`xt_${match}\\b`))
    // The port opens when the first pass has ended, which is some time after its rules are there.
    await eventually(async () => assert.equal((await fetch('http://127.0.0.1:10256/healthz')).status, 200))
    await bench.stop(daemon)
  })

  it('uses them again when a start finds them', async () => {
    writeFileSync(MODPROBE, modprobe)
    const daemon = bench.start()
    await eventually(() => assert.match(rules(), /-m recent .*[^]*-m statistic /), START_MS)
    assert.equal(services(rules()).size, 2)
    await bench.stop(daemon)
  })
})
