/**
 * The commands that look, on a node with the nftables firewall: `explain` quotes what `nft list`
 * shows and finds what is wrong there, and doctor, diff, top and cleanup know the private table.
 */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Explanation } from '../../src/cli/explain/explanation.ts'
import type { ExplainedObject } from '../../src/cli/explain/object-types.ts'
import type { PacketPath, PathStep } from '../../src/explain/types.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { freshNode, rulesText } from '../support/kernel-state.ts'
import { type Manifest, service, slice } from '../support/manifests.ts'
import { run, sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const VIP = '203.0.113.1'
const OBJECTS: readonly Manifest[] = [
  service(
    'web',
    {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.1',
      loadBalancerSourceRanges: ['198.51.100.0/24', '192.0.2.1/32'],
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30080 }],
    },
    { status: { loadBalancer: { ingress: [{ ip: VIP }] } } },
  ),
  slice('web', ['10.244.0.1']),
]

let bench: Workbench
beforeEach(() => {
  freshNode()
  sh('ip route add default via 10.0.2.2 dev eth0')
  sh('ip route add 10.244.0.0/16 dev eth0')
  sh('echo 1 > /proc/sys/net/ipv4/ip_forward')
  bench = new Workbench({}, { clusterCIDR: '10.244.0.0/16', kubeIPVS: { firewall: 'nftables' } })
  bench.write('all.yaml', ...OBJECTS)
})
afterEach(() => bench.close())

async function explain(target: string, ...flags: string[]): Promise<Explanation> {
  const { code, stdout, stderr } = await bench.command('explain', target, '--output', 'json', ...flags)
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as Explanation // what our own program prints
}

const objectsOf = ({ services }: Explanation): readonly ExplainedObject[] =>
  services.flatMap(({ ports }) => ports.flatMap((port) => port.frontends.flatMap(({ objects }) => objects)))

const wrong = (explanation: Explanation): readonly string[] =>
  objectsOf(explanation).flatMap(({ kind, place, name, state }) =>
    state === 'present' ? [] : [`${kind} ${name} of ${place} ${state}`],
  )

/** Waits until the daemon itself answers, and has written everything. */
const isServed = () =>
  eventually(async () => {
    const web = await explain('demo/web')
    assert.deepEqual([web.knownFrom, web.services.length, wrong(web)], ['daemon', 1, []])
  })

async function pathTo(target: string, from: string): Promise<PacketPath> {
  const { paths } = await explain(target, '--from', from)
  const path = paths[0]?.path
  assert.ok(path !== undefined && path !== null)
  return path
}

const stepsOf = ({ steps, outcomes }: PacketPath): readonly PathStep[] => [
  ...steps,
  ...outcomes.flatMap((outcome) => outcome.steps),
]

describe('explain --from with the nftables firewall', needs('nft'), () => {
  it('quotes rules and elements that nft lists, and leaves nothing out', async () => {
    bench.start()
    await isServed()
    const rows = [
      [`${VIP}:80`, '198.51.100.7', 'endpoint'],
      [`${VIP}:80`, '192.0.2.7', 'dropped'],
      [`${VIP}:80`, 'node', 'dropped'],
      ['10.96.0.1:80', 'node', 'endpoint'],
      ['10.96.0.1:80', '192.0.2.7', 'endpoint'],
      ['10.96.0.1:80', '10.244.0.1', 'endpoint'],
      [':30080', '192.0.2.7', 'endpoint'],
    ] as const
    const table = rulesText('nft list table ip kube-ipvs')
    for (const [target, from, end] of rows) {
      const path = await pathTo(target, from)
      assert.deepEqual(
        path.outcomes.map((outcome) => outcome.end.kind),
        [end],
        `${from} to ${target}`,
      )
      assert.deepEqual(path.limits, [])
      const own = stepsOf(path).filter((step) => step.table === 'ip kube-ipvs')
      assert.ok(own.length > 0)
      for (const { chain, rule, sets } of own) {
        const listed = run(['nft', 'list', 'chain', 'ip', 'kube-ipvs', chain])
        assert.ok(listed.includes(`\t\t${rule}\n`), `${rule} in\n${listed}`)
        for (const { entry } of sets) assert.ok(entry === undefined || table.includes(entry), entry)
      }
    }
    const { stdout } = await bench.command('explain', `${VIP}:80`, '--from', '192.0.2.7')
    const text = stdout.replace(/\s+/g, ' ')
    assert.match(
      text,
      /INPUT, ip kube-ipvs ranges-demo\/web: ip saddr \{ 192\.0\.2\.1, 198\.51\.100\.0\/24 \} does not have it: the packet is dropped drop outcome it is dropped/,
    )
    assert.match(text, /set element ok: 203\.0\.113\.1 \. tcp \. 80 in table ip kube-ipvs, set external-ips /)
  })

  it('finds missing and further elements, and the commands that repair them', async () => {
    const daemon = bench.start()
    await isServed()
    await bench.stop(daemon)
    const manifests = ['--manifests', bench.directory]
    assert.deepEqual(wrong(await explain('demo/web', ...manifests)), [])
    sh(`nft 'delete element ip kube-ipvs external-ips { ${VIP} . tcp . 80 }'`)
    sh(`nft 'add element ip kube-ipvs external-ips-local { ${VIP} . tcp . 80 }'`)
    sh(`nft 'add element ip kube-ipvs health-check-ports { * }'`)
    const broken = await explain('demo/web', ...manifests)
    assert.deepEqual(wrong(broken), [
      'nft-element * of table ip kube-ipvs, set health-check-ports extra',
      `nft-element ${VIP} . tcp . 80 of table ip kube-ipvs, set external-ips missing`,
      `nft-element ${VIP} . tcp . 80 of table ip kube-ipvs, set external-ips-local extra`,
    ])
    assert.deepEqual(
      objectsOf(broken)
        .flatMap(({ state, means }) => (state === 'extra' ? [means] : []))
        .sort(),
      [
        'clients from outside keep their address, and answers of endpoints on other nodes do not come back',
        'this node accepts health checks that no Service has',
      ],
    )
    const { outcomes } = await pathTo(`${VIP}:80`, '198.51.100.7')
    assert.deepEqual(
      outcomes.map(({ end }) => end.kind === 'endpoint' && end.source.kind),
      ['own'],
    )
    for (const { commands } of objectsOf(broken)) for (const command of commands) sh(command)
    assert.deepEqual(wrong(await explain('demo/web', ...manifests)), [])
  })
})

describe('other commands with the nftables firewall', needs('nft'), () => {
  it('doctor takes no rule of the private table for one of another program', async () => {
    bench.start()
    await isServed()
    sh(`nft add table inet cni_hostport
      nft 'add chain inet cni_hostport prerouting { type nat hook prerouting priority dstnat; }'
      nft add rule inet cni_hostport prerouting tcp dport 80 dnat ip to 10.244.0.9:80`)
    const { stdout } = await bench.command('doctor', '--socket', bench.socket)
    assert.doesNotMatch(stdout, /docs\/doctor\.md#(?:service-paths|host-ports|nft-policies)/)
    const status = await bench.command('status')
    assert.match(status.stdout, /^other nat +inet cni_hostport prerouting \(priority -100\)$/m)
    assert.doesNotMatch(status.stdout, /may take packets/)
    assert.match(stdout, /no rule drops packets to Services/)
    assert.match(stdout, /no rule takes packets of Services before those of the proxy/)
  })

  it('diff names what the private table lacks, and the command that adds it', async () => {
    const daemon = bench.start()
    await isServed()
    await bench.stop(daemon)
    assert.deepEqual((await bench.command('diff')).stdout, '')
    sh(`nft 'delete element ip kube-ipvs virtual-ips { ${VIP} }'`)
    const { stdout } = await bench.command('diff')
    assert.match(stdout, /^nft add element ip kube-ipvs virtual-ips '\{ 203\.0\.113\.1 \}'$/m)
    for (const command of stdout.trimEnd().split('\n')) sh(command)
    assert.deepEqual((await bench.command('diff')).stdout, '')
  })

  it('cleanup --dry-run prints commands that leave nothing to clean', async () => {
    const daemon = bench.start()
    await isServed()
    await bench.stop(daemon)
    const { stdout } = await bench.command('cleanup', '--dry-run')
    assert.match(stdout, /^nft delete table ip kube-ipvs$/m)
    for (const command of stdout.trimEnd().split('\n')) sh(command)
    assert.deepEqual((await bench.command('cleanup', '--dry-run')).stdout, '')
    assert.equal(rulesText('nft list tables'), '')
  })

  it('top shows the Services', async () => {
    bench.start()
    await isServed()
    assert.match((await bench.command('top', '--once')).stdout, /^demo\/web +0 /m)
  })
})
