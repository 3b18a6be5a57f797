/** The real daemon on folders of manifests that are odd, hostile, incomplete or deleted. */
import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { node, service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, rulesText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { isMet } from './needs.ts'

const WEB = service('web', { clusterIP: '10.96.0.1' })
const WEB_SLICE = slice('web', ['10.244.0.1'])
const WEB_TABLE = ['-A -t 10.96.0.1:80 -s rr', '-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1']
const HEALTHZ = 'http://127.0.0.1:10256/healthz'
const SAVE = `iptables${isMet('iptables-nft') ? '' : '-legacy'}-save`

let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

const hasWeb = (): Promise<void> => eventually(() => assert.deepEqual(virtualServers(), WEB_TABLE))

describe('daemon on a folder of manifests', () => {
  it('writes no rule that a name holds, and serves the other Services, in iptables mode', async () => {
    bench = new Workbench({}, { mode: 'iptables', iptables: { minSyncPeriod: '0s' } })
    const rule = '-I INPUT -p tcp --dport 22 -j ACCEPT'
    const evil = `x\n${rule}\n#`
    const ports = [
      { name: evil, protocol: 'TCP', port: 81 },
      { name: 'good', protocol: 'TCP', port: 82 },
    ]
    bench.write('namespace.yaml', service('a', { clusterIP: '10.96.0.7' }, { metadata: { namespace: evil } }))
    bench.write('name.yaml', service(evil, { clusterIP: '10.96.0.8' }))
    bench.write('port.yaml', service('b', { clusterIP: '10.96.0.9', ports }))
    bench.write('web.yaml', WEB, WEB_SLICE)
    bench.start()
    await eventually(() => assert.match(rulesText(SAVE), /-d 10\.96\.0\.1\/32 .*demo\/web:http cluster IP/))
    await eventually(() => assert.match(rulesText(SAVE), /-d 10\.96\.0\.9\/32 .*demo\/b:good has no endpoints/))
    assert.doesNotMatch(rulesText(SAVE), /dport 22|10\.96\.0\.[78]|dport 81/)
    for (const field of ['metadata.namespace', 'metadata.name', 'spec.ports[0].name'])
      await eventually(() => assert.ok(bench.log.includes(`field="${field}"`), field))
    // No name of an object begins a line of the log.
    assert.doesNotMatch(bench.log, /^-I/m)
  })

  it('continues when a manifest is invalid, at its start and later', async () => {
    bench = new Workbench()
    const odd = 'apiVersion: {toString: 1, valueOf: 1}\nkind: {toString: 1, valueOf: 1}\n'
    writeFileSync(join(bench.directory, 'odd.yaml'), odd)
    const daemon = bench.start()
    bench.write('web.yaml', WEB, WEB_SLICE)
    await hasWeb()
    writeFileSync(join(bench.directory, 'more.yaml'), odd)
    await eventually(() => assert.match(bench.log, /"Problem with an object" object="more\.yaml:1"/))
    assert.equal(daemon.exitCode, null)
  })

  it('needs no Node, and heeds one that appears later', async () => {
    bench = new Workbench()
    bench.remove('node.yaml')
    bench.write('web.yaml', WEB, WEB_SLICE)
    sh('ipvsadm -A -t 10.9.9.9:80 -s rr')
    bench.start()
    // What an earlier process left is removed as well, long before the wait for a Node would end.
    await hasWeb()
    await eventually(() =>
      assert.match(bench.log, /"The manifests have no Node object of this name; continuing without" node="node0"/),
    )
    assert.doesNotMatch(bench.log, /Timed out|Waiting for node/)
    await eventually(async () => assert.equal((await fetch(HEALTHZ)).status, 200))
    const taints = [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }]
    bench.write('node.yaml', node([], { spec: { taints } }))
    await eventually(async () => assert.equal((await fetch(HEALTHZ)).status, 503))
  })

  it('says at once that it waits for pod CIDRs in NodeCIDR mode', async () => {
    bench = new Workbench({}, { detectLocalMode: 'NodeCIDR' })
    bench.remove('node.yaml')
    bench.write('web.yaml', WEB, WEB_SLICE)
    bench.start()
    await eventually(() =>
      assert.match(bench.log, /Waiting for node \\"node0\\" to exist; nothing is written until then" timeout="300s"/),
    )
    assert.deepEqual(virtualServers(), [])
    const spec = { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24'] }
    bench.write('node.yaml', node(['10.0.2.15'], { spec }))
    await hasWeb()
  })

  it('keeps what is programmed when its file system is no longer mounted', async () => {
    bench = new Workbench()
    const folder = join(bench.directory, 'mount')
    mkdirSync(folder)
    sh(`mount -t tmpfs none "${folder}"`)
    writeFileSync(join(folder, 'web.yaml'), `${JSON.stringify(WEB)}\n---\n${JSON.stringify(WEB_SLICE)}`)
    // The last of two flags of the same name counts.
    const daemon = bench.start('--manifests', folder)
    try {
      await hasWeb()
      // The daemon may be reading the folder at this moment.
      await eventually(() => void sh(`umount "${folder}"`))
      await eventually(() => assert.match(bench.log, /reason="the path leads to another folder, which is empty/))
      assert.deepEqual(virtualServers(), WEB_TABLE)
      rmSync(folder, { recursive: true })
      await eventually(() => assert.match(bench.log, /reason="ENOENT/))
      assert.deepEqual([virtualServers(), boundAddresses()], [WEB_TABLE, ['10.96.0.1/32']])
      mkdirSync(`${folder}.new`)
      writeFileSync(join(`${folder}.new`, 'web.yaml'), JSON.stringify(WEB))
      renameSync(`${folder}.new`, folder)
      await eventually(() => assert.deepEqual(virtualServers(), WEB_TABLE.slice(0, 1)))
    } finally {
      await bench.stop(daemon)
    }
  })
})
