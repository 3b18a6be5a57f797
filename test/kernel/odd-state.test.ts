/** States of the kernel that Services never make, but administrators, other programs and refusals do. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import {
  boundAddresses,
  eventually,
  resetNode,
  service,
  sh,
  slice,
  virtualServers,
  Workbench,
} from '../support/daemon.ts'
import { addRawDestination, addRawService, hasRawService } from '../support/raw-ipvs.ts'

const WEB = service('web', { clusterIP: '10.96.0.1' })
const TCP = 6
const ESP = 50

let bench: Workbench
beforeEach(() => {
  resetNode()
  bench = new Workbench()
})
afterEach(() => bench.close())

/** Real servers of the Service `web` as ipvsadm names them, with their weights. */
const realServers = (): string[] =>
  virtualServers().flatMap((line) => {
    const [, address, weight] = /^-a -t 10\.96\.0\.1:80 -r (\S+):8080 -m -w (\d+)$/.exec(line) ?? []
    return address === undefined ? [] : [`${address} ${weight}`]
  })

describe('an endpoint that the kernel refuses', () => {
  it('keeps a new Service from nothing but that endpoint', async () => {
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '239.1.1.1']))
    bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1']))
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    await eventually(() => assert.match(bench.log, /failed.*239\.1\.1\.1.*EINVAL/))
  })

  it('keeps no removed endpoint in service once another one is usable, and drains end beside it', async () => {
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.244.0.2']))
    bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1', '10.244.0.2 1']))
    bench.write('web.yaml', WEB, slice('web', ['239.1.1.1']))
    await eventually(() => assert.match(bench.log, /failed.*239\.1\.1\.1.*EINVAL/))
    assert.deepEqual(realServers(), ['10.244.0.1 1', '10.244.0.2 1'], 'nothing else could serve')
    bench.write('web.yaml', WEB, slice('web', ['239.1.1.1', '10.244.0.3']))
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.3 1']))
  })
})

describe('IPVS services of other protocols', () => {
  const foreign = { address: '10.9.0.1', port: 1, protocol: ESP }

  it('are left alone by the daemon, its audits, status, diff and cleanup', async () => {
    await addRawService(foreign)
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1']))
    const preview = await bench.command('diff')
    assert.equal(preview.code, 1, preview.stderr)
    assert.ok(!preview.stdout.includes('10.9.0.1'))
    const daemon = bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1']))
    await eventually(() => assert.match(bench.log, /IPVS services of other protocols.*services=1/))
    sh('ipvsadm -d -t 10.96.0.1:80 -r 10.244.0.1:8080')
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1']), 15_000)
    assert.doesNotMatch(bench.log, /An audit failed|Cannot read a table/)
    assert.equal(bench.log.split('IPVS services of other protocols').length, 2, 'it is said once')
    const status = await bench.command('status', '--output', 'json')
    assert.deepEqual([status.code, JSON.parse(status.stdout).unknownVirtualServers], [0, 1])
    await bench.stop(daemon)
    assert.equal((await bench.command('cleanup')).code, 0)
    assert.deepEqual([await hasRawService(foreign), realServers()], [true, []])
  })

  it('do not hide a real server with a forwarding method that nobody knows', async () => {
    const web = { address: '10.96.0.1', port: 80, protocol: TCP }
    await addRawService(web)
    for (const [index, forwarding] of [5, 6, 7].entries())
      await addRawDestination(web, `10.244.0.${index + 1}`, 8080, forwarding)
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.244.0.4']))
    bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1', '10.244.0.4 1']))
    assert.equal(virtualServers().length, 3)
  })
})
