/** `kube-ipvs explain` on a real kernel: what it says of Services in both modes, with and without a daemon. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { ExplainedFrontend, ExplainedPort, Explanation } from '../../src/cli/explain/explanation.ts'
import type { ExplainedObject } from '../../src/cli/explain/object-types.ts'
import { Workbench } from '../support/daemon.ts'
import { type Manifest, node, service, slice } from '../support/manifests.ts'
import { freshNode } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'

const created = (second: number) => ({ creationTimestamp: `2026-01-01T00:00:0${second}Z` })
const endpoint = (address: string, more: object = {}, conditions: object = { ready: true }) => ({
  addresses: [address],
  conditions,
  nodeName: 'node0',
  ...more,
})
const zones = (...names: readonly string[]) => ({ hints: { forZones: names.map((name) => ({ name })) } })
const ELSEWHERE = { nodeName: 'node1' }
const TERMINATING = { ready: false, serving: true, terminating: true }

const OBJECTS: readonly Manifest[] = [
  node(['10.0.2.15'], { metadata: { labels: { 'topology.kubernetes.io/zone': 'a' } } }),
  service(
    'web',
    {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.1',
      sessionAffinity: 'ClientIP',
      loadBalancerSourceRanges: ['198.51.100.0/24'],
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30080 }],
    },
    {
      metadata: {
        ...created(1),
        annotations: { 'kube-ipvs.io/scheduler': 'lc', 'kube-ipvs.io/max-connections': 'many' },
      },
      status: { loadBalancer: { ingress: [{ ip: '203.0.113.1' }] } },
    },
  ),
  slice('web', [], {
    endpoints: [
      endpoint('10.244.0.1'),
      endpoint('10.244.0.2', {}, { ready: false }),
      endpoint('10.244.1.3', ELSEWHERE, TERMINATING),
    ],
  }),
  service('rival', { clusterIP: '10.96.0.2', externalIPs: ['203.0.113.1'] }, { metadata: created(0) }),
  slice('rival', ['10.244.0.9']),
  service('local', {
    type: 'NodePort',
    clusterIP: '10.96.0.3',
    internalTrafficPolicy: 'Local',
    externalTrafficPolicy: 'Local',
    ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30083 }],
  }),
  slice('local', [], { endpoints: [endpoint('10.244.1.4', ELSEWHERE)] }),
  service('zoned', { clusterIP: '10.96.0.4' }),
  slice('zoned', [], {
    endpoints: [endpoint('10.244.0.5', zones('a')), endpoint('10.244.1.5', { ...ELSEWHERE, ...zones('b', 'c') })],
  }),
  service('leaving', { clusterIP: '10.96.0.5' }),
  slice('leaving', [], { endpoints: [endpoint('10.244.0.6', {}, TERMINATING)] }),
]

let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

function begin(mode: 'ipvs' | 'iptables'): void {
  bench = new Workbench({}, { mode, clusterCIDR: '10.244.0.0/16' })
  bench.remove('node.yaml')
  bench.write('all.yaml', ...OBJECTS)
}

async function explain(target: string, ...flags: string[]): Promise<Explanation> {
  const { code, stdout, stderr } = await bench.command('explain', target, '--output', 'json', ...flags)
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as Explanation // what our own program prints
}

const text = (target: string, ...flags: string[]) => bench.command('explain', target, ...flags)

function onlyPort(explanation: Explanation): ExplainedPort {
  const [port] = explanation.services.flatMap(({ ports }) => ports)
  assert.ok(port !== undefined)
  return port
}

const frontend = (port: ExplainedPort, key: string): ExplainedFrontend => {
  const found = port.frontends.find((one) => one.key === key)
  assert.ok(found !== undefined, `${key} is not among ${port.frontends.map((one) => one.key).join(', ')}`)
  return found
}

const allObjects = ({ services }: Explanation): readonly ExplainedObject[] =>
  services.flatMap(({ ports }) =>
    ports.flatMap((port) => [...port.objects, ...port.frontends.flatMap((one) => one.objects)]),
  )

const wrong = (explanation: Explanation): readonly string[] =>
  allObjects(explanation).flatMap(({ kind, place, name, state }) =>
    state === 'present' ? [] : [[kind, place, name, state].filter(Boolean).join(' ')],
  )

/**
 * Waits until the daemon itself answers for demo/web and finds everything in the kernel. Its socket
 * opens after the first pass, and until then the command explains the rules that the kernel has,
 * without a Service and so with nothing wrong.
 */
const isServed = () =>
  eventually(async () => {
    const web = await explain('demo/web')
    assert.deepEqual([web.knownFrom, web.services.length, wrong(web)], ['daemon', 1, []])
  })

const verdicts = ({ endpoints }: ExplainedPort): readonly string[] =>
  endpoints.map(({ key, internal, external }) => `${key} ${internal.verdict} ${external.verdict}`)

/** What all answers have in common, those of the daemon and those of the command. */
async function expectVerdicts(...flags: string[]): Promise<void> {
  const web = await explain('demo/web', ...flags)
  assert.deepEqual(verdicts(onlyPort(web)), [
    '10.244.0.1:8080 used used',
    '10.244.0.2:8080 not-ready not-ready',
    '10.244.1.3:8080 terminating terminating',
  ])
  assert.deepEqual(verdicts(onlyPort(await explain('demo/local', ...flags))), [
    '10.244.1.4:8080 not-local used-no-local',
  ])
  assert.deepEqual(verdicts(onlyPort(await explain('demo/zoned:http', ...flags))), [
    '10.244.0.5:8080 used-zone-hint used-zone-hint',
    '10.244.1.5:8080 other-zone-hint other-zone-hint',
  ])
  assert.deepEqual(verdicts(onlyPort(await explain('10.96.0.5:80', ...flags))), [
    '10.244.0.6:8080 used-terminating used-terminating',
  ])
  // The load-balancer address of the younger Service precedes the external IP of the older one.
  const vip = frontend(onlyPort(web), '203.0.113.1:80/tcp')
  assert.deepEqual(
    [vip.isWon, vip.owner, vip.others, vip.sourceRanges],
    [true, 'demo/web', ['demo/rival'], ['198.51.100.0/24']],
  )
  const lost = frontend(onlyPort(await explain('demo/rival', ...flags)), '203.0.113.1:80/tcp')
  assert.deepEqual([lost.isWon, lost.owner, lost.objects], [false, 'demo/web', []])
}

/** The ends of all paths, each once. */
async function ends(target: string, ...flags: string[]): Promise<readonly string[]> {
  const { paths } = await explain(target, ...flags)
  const all = paths.flatMap(({ path, because }) =>
    path === null
      ? [because]
      : path.outcomes.map(({ end }) => (end.kind === 'endpoint' ? `${end.address} sees ${end.source.kind}` : end.kind)),
  )
  return [...new Set(all)]
}

/** Sources inside and outside the ranges of the Service, from where the default route leads. */
function openRoutes(): void {
  sh('ip route add default via 10.0.2.2 dev eth0')
  sh('ip route add 10.244.0.0/16 dev eth0')
  sh('echo 1 > /proc/sys/net/ipv4/ip_forward')
}

/** The paths of packets that are the same in both modes. */
async function expectPaths(): Promise<void> {
  assert.deepEqual(await ends('203.0.113.1:80', '--from', '198.51.100.7'), ['10.244.0.1 sees node'])
  assert.deepEqual(await ends('203.0.113.1:80', '--from', '192.0.2.7'), ['dropped'])
  assert.deepEqual(await ends('10.96.0.1:80', '--from', 'node'), ['10.244.0.1 sees node'])
  assert.deepEqual(await ends('10.96.0.1:80', '--from', 'fd00::9'), [
    'the source has no IPv4 address, so it cannot connect there',
  ])
  const { code, stdout } = await text('203.0.113.1:80', '--from', '192.0.2.7')
  assert.equal(code, 0)
  assert.match(stdout, /^From 192\.0\.2\.7 to 203\.0\.113\.1:80\/tcp$/m)
  assert.match(stdout, /^ +\d+\. .*: the packet is dropped$/m)
  assert.match(stdout, /outcome +it is dropped: the client waits until it gives up$/m)
}

describe('explain', () => {
  it('explains Services in ipvs mode, asking the daemon', async () => {
    begin('ipvs')
    bench.start()
    await isServed()
    await expectVerdicts()
    const web = await explain('demo/web')
    assert.deepEqual([web.knownFrom, web.mode, web.node.name, web.node.zone], ['daemon', 'ipvs', 'node0', 'a'])
    const port = onlyPort(web)
    assert.deepEqual(
      port.frontends.map(({ key, roles }) => `${key} ${roles.join()}`),
      ['10.96.0.1:80/tcp ClusterIP', '10.0.2.15:30080/tcp NodePort', '203.0.113.1:80/tcp LoadBalancerVip'],
    )
    const vip = frontend(port, '203.0.113.1:80/tcp')
    assert.deepEqual(
      vip.objects.map(({ kind, place, name }) => [kind, place, name].filter(Boolean).join(' ')),
      [
        'virtual-server 203.0.113.1:80/tcp',
        'address kube-ipvs0 203.0.113.1',
        'set-entry KUBE-LOOP-BACK 10.244.0.1,tcp:8080,10.244.0.1',
        'set-entry KUBE-LOOP-BACK 10.244.0.2,tcp:8080,10.244.0.2',
        'set-entry KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.1,tcp:80,198.51.100.0/24',
        'set-entry KUBE-LOAD-BALANCER-FW 203.0.113.1,tcp:80',
        'set-entry KUBE-LOAD-BALANCER 203.0.113.1,tcp:80',
        'set-entry KUBE-IPVS-IPS 203.0.113.1',
      ],
    )
    assert.equal(vip.objects[0]?.virtualServer?.scheduler, 'lc')
    assert.equal(vip.objects[0]?.virtualServer?.persistenceTimeoutSeconds, 10800)
    assert.deepEqual(
      web.services[0]?.annotations.map(({ name, isInForce }) => [name, isInForce]),
      [
        ['kube-ipvs.io/scheduler', true],
        ['kube-ipvs.io/max-connections', false],
      ],
    )
    // By address and by node port only the frontends that are named.
    const byAddress = await explain('203.0.113.1:80')
    assert.deepEqual(
      onlyPort(byAddress).frontends.map(({ key }) => key),
      ['203.0.113.1:80/tcp'],
    )
    assert.deepEqual(
      onlyPort(await explain(':30083')).frontends.map(({ key }) => key),
      ['10.0.2.15:30083/tcp'],
    )
    const { code, stdout } = await text('demo/web')
    assert.equal(code, 0)
    assert.match(stdout, /^demo\/web on node node0$/m)
    assert.match(stdout, /^ {4}not used: it is not ready \[condition ready\]$/m)
    assert.match(stdout, /also claimed by +demo\/rival: they get no traffic here/)
    assert.match(stdout, /source ranges +198\.51\.100\.0\/24; other clients are dropped/)
    for (const line of stdout.split('\n')) assert.ok(line.length <= 80 || !line.includes(' ', 20), line)
    assert.match((await text('demo/rival')).stdout, /owner +demo\/web has won this address and port/)
    openRoutes()
    await expectPaths()
  })

  it('says what is no frontend, and what is near', async () => {
    begin('ipvs')
    bench.start()
    await isServed()
    const rows = [
      ['demo/wbe', /"demo\/wbe" is no frontend of a Service on this node\. Did you mean demo\/web\?/],
      ['10.96.0.1:81', /Did you mean 10\.96\.0\.1:80\/tcp\?/],
      [':30081', /Did you mean .*30080/],
    ] as const
    for (const [target, answer] of rows) {
      const { code, stdout } = await text(target)
      assert.equal(code, 2, target)
      assert.match(stdout.replaceAll('\n', ' '), answer)
    }
    const { code, stderr } = await text('web')
    assert.deepEqual([code, /is not a target: it must be NAMESPACE\/NAME/.test(stderr)], [1, true])
    // Another program's virtual server.
    sh('ipvsadm -A -u 10.99.0.1:53 -s rr')
    const foreign = await text('10.99.0.1:53/udp')
    assert.equal(foreign.code, 2)
  })

  it('without a daemon computes the same from manifests, and finds what is missing and too much', async () => {
    begin('ipvs')
    const daemon = bench.start()
    await isServed()
    await bench.stop(daemon)
    const manifests = ['--manifests', bench.directory]
    await expectVerdicts(...manifests)
    const before = await explain('demo/web', ...manifests)
    assert.deepEqual([before.knownFrom, wrong(before)], ['manifests', []])
    sh('ip address delete 203.0.113.1/32 dev kube-ipvs0')
    sh('ipset del KUBE-LOAD-BALANCER 203.0.113.1,tcp:80')
    sh('ipset add KUBE-LOAD-BALANCER-LOCAL 203.0.113.1,tcp:80')
    sh('ipvsadm -D -t 10.96.0.1:80')
    sh('ipvsadm -a -t 203.0.113.1:80 -r 10.244.0.77:8080 -m -w 1')
    const after = await explain('demo/web', ...manifests)
    assert.deepEqual(wrong(after), [
      'virtual-server 10.96.0.1:80/tcp missing',
      'virtual-server 203.0.113.1:80/tcp differs',
      'address kube-ipvs0 203.0.113.1 missing',
      'set-entry KUBE-LOAD-BALANCER 203.0.113.1,tcp:80 missing',
      'set-entry KUBE-LOAD-BALANCER-LOCAL 203.0.113.1,tcp:80 extra',
    ])
    const { stdout, stderr } = await text('demo/web', ...manifests)
    assert.match(stderr, /^kube-ipvs explain: no daemon answers at /)
    assert.match(stdout, /address +missing: 203\.0\.113\.1 on kube-ipvs0$/m)
    assert.match(stdout, /^ +ip address add 203\.0\.113\.1\/32 dev kube-ipvs0$/m)
    // The commands repair it: nothing else differs afterwards.
    for (const { commands } of allObjects(after)) for (const command of commands) sh(command)
    assert.deepEqual(
      wrong(await explain('demo/web', ...manifests)).filter((line) => !line.includes('203.0.113.1:80/tcp')),
      [],
    )
  })

  it('shows what the kernel alone has, and says what it cannot know', async () => {
    begin('ipvs')
    assert.equal((await bench.command('', '--once')).code, 0)
    const found = await explain('203.0.113.1:80')
    assert.deepEqual([found.knownFrom, found.services, found.mode], ['kernel', [], 'ipvs'])
    assert.deepEqual(
      found.kernel.map(({ key }) => key),
      ['203.0.113.1:80/tcp'],
    )
    assert.ok(found.kernel[0]?.objects.some(({ place }) => place === 'KUBE-LOAD-BALANCER-FW'))
    assert.match(found.unknown[0] ?? '', /^No daemon answers, so Services are unknown/)
    const { code, stderr } = await text('demo/web')
    assert.equal(code, 1)
    assert.match(stderr, /the kernel has no names of Services/)
  })

  it('explains Services in iptables mode, with and without a daemon', async () => {
    begin('iptables')
    const daemon = bench.start()
    await isServed()
    await expectVerdicts()
    const web = await explain('demo/web')
    assert.equal(web.mode, 'iptables')
    const port = onlyPort(web)
    assert.deepEqual(
      port.frontends.map(({ key, objects }) => [key, objects.length]),
      [
        ['10.96.0.1:80/tcp', 0],
        ['*:30080/tcp', 0],
        ['203.0.113.1:80/tcp', 0],
      ],
    )
    const chains = port.objects
      .filter(({ kind }) => kind === 'chain')
      .map(({ name }) => name.replace(/-[A-Z2-7]{16}$/, ''))
    assert.deepEqual(chains.toSorted(), ['KUBE-EXT', 'KUBE-FW', 'KUBE-SEP', 'KUBE-SVC'])
    assert.deepEqual(
      onlyPort(await explain(':30080')).frontends.map(({ key }) => key),
      ['*:30080/tcp'],
    )
    assert.equal(
      web.services[0]?.annotations.some(({ isInForce }) => isInForce),
      false,
    )
    openRoutes()
    await expectPaths()
    assert.deepEqual(await ends(':30083', '--from', '198.51.100.7'), ['dropped'])
    await bench.stop(daemon)
    const kernel = await explain('demo/web')
    assert.deepEqual(
      kernel.kernel.map(({ key, servicePort, endpoints }) => [key, servicePort, endpoints.join()]).toSorted(),
      [
        ['*:30080/tcp', 'demo/web:http', '10.244.0.1:8080'],
        ['10.96.0.1:80/tcp', 'demo/web:http', '10.244.0.1:8080'],
        ['203.0.113.1:80/tcp', 'demo/web:http', '10.244.0.1:8080'],
      ],
    )
    const ofNumber = await explain('demo/web:80')
    assert.deepEqual(ofNumber.kernel.map(({ key }) => key).toSorted(), ['10.96.0.1:80/tcp', '203.0.113.1:80/tcp'])
    const chain = port.objects.find(({ name }) => name.startsWith('KUBE-SVC-'))?.name ?? ''
    sh(`iptables -t nat -A ${chain} -j RETURN`)
    sh('iptables -t nat -F KUBE-NODEPORTS')
    const mode = ['--manifests', bench.directory]
    const broken = wrong(await explain('demo/web', ...mode))
    // The kernel of a test may have a counter for loopback addresses, which is another rule.
    const kinds = broken.map((line) => line.replace(/^(\w+ nat KUBE-[A-Z]+).* (\w+)$/, '$1 $2'))
    assert.deepEqual([...new Set(kinds)].toSorted(), ['chain nat KUBE-SVC differs', 'rule nat KUBE-NODEPORTS missing'])
  })
})
