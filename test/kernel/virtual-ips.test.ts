/** kubeIPVS.allowedVirtualIPs on a real kernel: what is refused is in no table, and comes when it is allowed. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { boundAddresses, resetNode, service, sh, slice, virtualServers, Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'

const REFUSED = ['8.8.8.8', '10.96.0.10', '203.0.114.1']
const DNS = service(
  'kube-dns',
  { clusterIP: '10.96.0.10', ports: [{ name: 'dns', protocol: 'UDP', port: 53 }] },
  { metadata: { name: 'kube-dns', namespace: 'kube-system' } },
)
const WEB = service(
  'web',
  {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.1',
    externalIPs: ['203.0.113.5', '8.8.8.8', '10.96.0.10'],
    loadBalancerSourceRanges: ['10.0.0.0/8'],
  },
  { status: { loadBalancer: { ingress: [{ ip: '203.0.113.6' }, { ip: '203.0.114.1' }] } } },
)
const SERVERS = ['10.96.0.10:53', '10.96.0.1:80', '203.0.113.5:80', '203.0.113.6:80']

/** Addresses and ports that are served, without real servers. */
const served = (): string[] =>
  virtualServers().flatMap((line) => (line.startsWith('-A') ? (/-[tu] (\S+)/.exec(line)?.[1] ?? []) : []))

/** Everything that the kernel has of us, as text. */
const everything = (): string => [sh('ipset save'), ...virtualServers(), ...boundAddresses()].join('\n')

let bench: Workbench
beforeEach(resetNode)
afterEach(() => bench.close())

describe('allowedVirtualIPs', () => {
  it('keeps what it refuses out of every table and names the field', async () => {
    bench = new Workbench({}, { kubeIPVS: { allowedVirtualIPs: ['203.0.113.0/24', '10.96.0.0/16'] } })
    bench.write('web.yaml', DNS, WEB, slice('web', ['10.244.0.1']))
    const daemon = bench.start()
    await eventually(() => assert.deepEqual(served().toSorted(), SERVERS.toSorted()))
    await eventually(() => assert.equal(boundAddresses().length, 4))
    const state = everything()
    for (const address of ['8.8.8.8', '203.0.114.1']) assert.ok(!state.includes(address), state)
    assert.ok(!state.includes('10.96.0.10,tcp:80') && !served().includes('10.96.0.10:80'), state)
    for (const address of REFUSED) assert.ok(bench.log.includes(`${address} is refused`), bench.log)
    assert.match(
      bench.log,
      /field="spec\.externalIPs"[^\n]*8\.8\.8\.8 is refused: kubeIPVS\.allowedVirtualIPs does not/,
    )
    assert.match(bench.log, /field="status\.loadBalancer\.ingress"[^\n]*203\.0\.114\.1 is refused/)
    await bench.stop(daemon)
  })

  it('counts as a flag beside the file too, and takes away what it no longer allows', async () => {
    bench = new Workbench()
    bench.write('web.yaml', DNS, WEB, slice('web', ['10.244.0.1']))
    const free = bench.start()
    await eventually(() => assert.equal(served().length, 7))
    await bench.stop(free)
    const bound = bench.start('--allowed-virtual-ips=203.0.113.0/24', '--allowed-virtual-ips=203.0.114.0/24')
    await eventually(() => assert.deepEqual(served().toSorted(), [...SERVERS, '203.0.114.1:80'].toSorted()))
    await eventually(() => assert.ok(!boundAddresses().includes('8.8.8.8/32')))
    await bench.stop(bound)
  })
})
