/** `kube-ipvs status` on a real kernel: what it shows of either mode, with and without a daemon. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Status } from '../../src/cli/status.ts'
import { resetNode, service, slice, virtualServers, Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'

const WEB = service('web', {
  type: 'NodePort',
  clusterIP: '10.96.0.1',
  ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30080 }],
})
let bench: Workbench
beforeEach(resetNode)
afterEach(() => bench.close())

function begin(mode: 'ipvs' | 'iptables'): void {
  bench = new Workbench({}, { mode })
  bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.244.0.2']), service('idle', { clusterIP: '10.96.0.2' }))
}

async function status(...flags: string[]): Promise<Status> {
  const { code, stdout, stderr } = await bench.command('status', '--output', 'json', ...flags)
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as Status // what our own program prints
}

const text = async (...flags: string[]): Promise<string> => (await bench.command('status', ...flags)).stdout

describe('status', () => {
  it('shows virtual servers, and names them by the manifests', async () => {
    begin('ipvs')
    const daemon = bench.start()
    await eventually(() => assert.equal(virtualServers().filter((line) => line.startsWith('-A')).length, 3))
    await eventually(async () => assert.equal((await status()).proxy.answers, true))
    const found = await status('--manifests', bench.directory)
    assert.deepEqual([found.mode, found.rules], ['ipvs', null])
    assert.deepEqual(
      found.ipvs?.virtualServers.map(({ key, service: name }) => [key, name]),
      [
        ['10.0.2.15:30080/tcp', 'demo/web:http'],
        ['10.96.0.1:80/tcp', 'demo/web:http'],
        ['10.96.0.2:80/tcp', 'demo/idle:http'],
      ],
    )
    assert.match(await text(), /^mode +ipvs, reported by the proxy at 127\.0\.0\.1:10249$/m)
    assert.doesNotMatch(await text(), /SERVICE/)
    await bench.stop(daemon)
    assert.match(await text(), /^mode +ipvs, according to the kernel; no proxy answers at 127\.0\.0\.1:10249$/m)
  })

  it('shows no names when no source knows them', async () => {
    begin('ipvs')
    const { code } = await bench.command('', '--once')
    assert.equal(code, 0)
    const answer = await bench.command('status', '--kubeconfig', bench.kubeconfig('http://127.0.0.1:1'))
    assert.equal(answer.code, 0)
    assert.match(answer.stderr, /^kube-ipvs status: no names of Services: the API server cannot be read: /)
    assert.match(answer.stdout, /^10\.96\.0\.1:80\/tcp +rr /m)
  })

  it('shows what the rules of iptables mode serve, with the names in their comments', async () => {
    begin('iptables')
    bench.start()
    await eventually(async () => assert.equal((await status()).rules?.length, 3))
    const found = await status()
    assert.deepEqual([found.mode, found.device], ['iptables', null])
    assert.deepEqual(found.rules, [
      { service: 'demo/idle:http', key: '10.96.0.2:80/tcp', kind: 'cluster IP', endpoints: [], without: 'refused' },
      {
        service: 'demo/web:http',
        key: '0.0.0.0:30080/tcp',
        kind: 'node port',
        endpoints: ['10.244.0.1:8080', '10.244.0.2:8080'],
      },
      {
        service: 'demo/web:http',
        key: '10.96.0.1:80/tcp',
        kind: 'cluster IP',
        endpoints: ['10.244.0.1:8080', '10.244.0.2:8080'],
      },
    ])
    const shown = await text()
    assert.match(shown, /^mode +iptables, reported by the proxy at /m)
    assert.match(shown, /^10\.96\.0\.1:80\/tcp +demo\/web:http +cluster IP +10\.244\.0\.1:8080$/m)
    assert.doesNotMatch(shown, /kube-ipvs0|VIRTUAL SERVER/)
  })

  it('reports an empty node', async () => {
    begin('ipvs')
    const found = await status()
    assert.deepEqual([found.mode, found.device, found.rules], [null, null, null])
    assert.match(await text(), /^mode +none; no proxy answers at /m)
  })
})
