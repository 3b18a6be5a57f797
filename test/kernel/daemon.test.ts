/** The whole daemon on a real kernel: from manifests to a correct table, even if other programs change the table. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, ipvsadm, kubeLines, setsText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { isMet } from './needs.ts'
import { AUDITED_MS, eventually } from '../support/deadline.ts'

const WEB = service('web', { clusterIP: '10.96.0.1' })
const WEB_SLICE = slice('web', ['10.244.0.1', '10.244.0.2'])
const WEB_TABLE = [
  '-A -t 10.96.0.1:80 -s rr',
  '-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1',
  '-a -t 10.96.0.1:80 -r 10.244.0.2:8080 -m -w 1',
]

/** Plain iptables is nft; on a kernel without nf_tables the daemon uses legacy. */
const suffix = isMet('iptables-nft') ? '' : '-legacy'
const SAVES = [`iptables${suffix}-save`, `ip6tables${suffix}-save`, 'ipset save']

let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

/** A running daemon with one Service, its table complete. */
async function withWeb(ipvs: Readonly<Record<string, unknown>> = {}) {
  bench = new Workbench(ipvs)
  bench.write('web.yaml', WEB, WEB_SLICE)
  const daemon = bench.start()
  await eventually(() => assert.equal(virtualServers().length, 3))
  await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
  // Rules are written beside the passes, each family by itself and its table filter last.
  await eventually(() => {
    for (const save of SAVES.slice(0, 2))
      assert.ok(
        kubeLines(save).some((line) => line.startsWith('-A INPUT ')),
        save,
      )
  })
  return daemon
}

describe('daemon', () => {
  const anyExternalIp = { kubeIPVS: { allowProtectedExternalIPs: true } }

  it('writes every kind of frontend, in both families', async () => {
    bench = new Workbench({}, anyExternalIp)
    bench.write(
      'all.yaml',
      service(
        'all',
        {
          type: 'LoadBalancer',
          clusterIPs: ['10.96.0.1', 'fd00:10:96::1'],
          ipFamilies: ['IPv4', 'IPv6'],
          externalIPs: ['192.0.2.10', '10.0.2.15'],
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 300 } },
          ports: [
            { name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 },
            { name: 'dns', protocol: 'UDP', port: 53 },
            { name: 'sctp', protocol: 'SCTP', port: 99 },
          ],
        },
        {
          status: {
            loadBalancer: {
              ingress: [{ ip: '203.0.113.1' }, { ip: '203.0.113.2', ipMode: 'Proxy' }, { hostname: 'x.example' }],
            },
          },
        },
      ),
      slice('all', ['10.244.0.1'], {
        ports: [
          { name: 'http', protocol: 'TCP', port: 8080 },
          { name: 'dns', protocol: 'UDP', port: 53 },
          { name: 'sctp', protocol: 'SCTP', port: 99 },
        ],
      }),
      slice('all', ['fd00:10:244::1'], { addressType: 'IPv6', ports: [{ name: 'http', protocol: 'TCP', port: 8080 }] }),
    )
    bench.start()
    const ipv4 = ['10.96.0.1', '192.0.2.10', '10.0.2.15', '203.0.113.1']
    const expected = [
      ...ipv4.flatMap((vip) => [
        `-A -t ${vip}:80 -s rr -p 300`,
        `-a -t ${vip}:80 -r 10.244.0.1:8080 -m -w 1`,
        `-A -u ${vip}:53 -s rr -p 300`,
        `-a -u ${vip}:53 -r 10.244.0.1:53 -m -w 1`,
        `-A --sctp-service ${vip}:99 -s rr -p 300`,
        `-a --sctp-service ${vip}:99 -r 10.244.0.1:99 -m -w 1`,
      ]),
      '-A -t 10.0.2.15:30080 -s rr -p 300',
      '-a -t 10.0.2.15:30080 -r 10.244.0.1:8080 -m -w 1',
      '-A -t [fd00:10:96::1]:80 -s rr -p 300',
      '-a -t [fd00:10:96::1]:80 -r [fd00:10:244::1]:8080 -m -w 1',
      '-A -u [fd00:10:96::1]:53 -s rr -p 300',
      '-A --sctp-service [fd00:10:96::1]:99 -s rr -p 300',
    ]
    await eventually(() => assert.deepEqual(virtualServers(), expected.toSorted()))
    await eventually(() =>
      assert.deepEqual(boundAddresses(), ['10.96.0.1/32', '192.0.2.10/32', '203.0.113.1/32', 'fd00:10:96::1/128']),
    )
  })

  it('follows an edited manifest within a second', async () => {
    await withWeb()
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.244.0.3']))
    await eventually(() => assert.ok(virtualServers().includes('-a -t 10.96.0.1:80 -r 10.244.0.3:8080 -m -w 1')), 1500)
    bench.remove('web.yaml')
    await eventually(() => assert.deepEqual([virtualServers(), boundAddresses()], [[], []]), 1500)
    await eventually(() =>
      assert.match(
        bench.log,
        /"Removing addresses" ipFamily="IPv4" interface="kube-ipvs0" addresses={"10\.96\.0\.1":{}}/,
      ),
    )
  })

  it('keeps the last good version of a broken manifest and logs where it is broken', async () => {
    await withWeb()
    bench.write('other.yaml', service('other', { clusterIP: '10.96.0.2' }))
    await eventually(() => assert.equal(virtualServers().length, 4))
    sh(`printf 'kind: Service\\nmetadata: {name: web\\n' > ${bench.directory}/web.yaml`)
    await eventually(() => assert.match(bench.log, /web\.yaml:\d+/))
    assert.equal(virtualServers().length, 4)
  })

  // Each on a separate Service, because repeated repairs of one key are slowed down.
  const drifts: readonly [what: string, command: (vip: string) => string, deadlineMs: number][] = [
    ['a deleted virtual server', (vip) => `ipvsadm -D -t ${vip}:80`, AUDITED_MS],
    ['another scheduler', (vip) => `ipvsadm -E -t ${vip}:80 -s lc`, AUDITED_MS],
    ['persistence', (vip) => `ipvsadm -E -t ${vip}:80 -s rr -p 100`, AUDITED_MS],
    ['a deleted real server', (vip) => `ipvsadm -d -t ${vip}:80 -r 10.244.0.1:8080`, AUDITED_MS],
    ['another weight', (vip) => `ipvsadm -e -t ${vip}:80 -r 10.244.0.1:8080 -m -w 5`, AUDITED_MS],
    ['weight 0', (vip) => `ipvsadm -e -t ${vip}:80 -r 10.244.0.1:8080 -m -w 0`, AUDITED_MS],
    ['a connection limit', (vip) => `ipvsadm -e -t ${vip}:80 -r 10.244.0.1:8080 -m -w 1 -x 10`, AUDITED_MS],
    ['a foreign virtual server', () => 'ipvsadm -A -t 10.9.9.9:80 -s rr', AUDITED_MS],
    ['a foreign real server', (vip) => `ipvsadm -a -t ${vip}:80 -r 10.9.9.9:80 -m`, AUDITED_MS],
    ['a flush', () => 'ipvsadm -C', AUDITED_MS],
    ['a deleted address', (vip) => `ip address delete ${vip}/32 dev kube-ipvs0`, 2000],
    ['a foreign address', () => 'ip address add 10.9.9.9/32 dev kube-ipvs0', 2000],
    ['a deleted device', () => 'ip link delete kube-ipvs0', 2000],
  ]
  it('repairs drift of every kind, and of addresses and links at once', async () => {
    bench = new Workbench()
    const vipOf = (index: number): string => `10.96.0.${index + 1}`
    drifts.forEach((_, index) => {
      bench.write(
        `s${index}.yaml`,
        service(`s${index}`, { clusterIP: vipOf(index) }),
        slice(`s${index}`, ['10.244.0.1']),
      )
    })
    bench.start()
    await eventually(() =>
      assert.deepEqual([virtualServers().length, boundAddresses().length], [2 * drifts.length, drifts.length]),
    )
    const limits = () => ipvsadm('-L', '-n', '--thresholds').split('\n').toSorted()
    const state = () => [virtualServers(), limits(), boundAddresses()]
    const right = state()
    for (const [index, [what, command, deadlineMs]] of drifts.entries()) {
      // A command that changes nothing fails, so the right state afterwards is a repaired one.
      sh(command(vipOf(index)))
      await eventually(() => assert.deepEqual(state(), right, what), deadlineMs)
    }
    await eventually(() =>
      assert.match(bench.log, /Repaired a change that another program made.*ipvsadm -A -t 10\.96\.0\.1:80 -s rr/),
    )
  })

  it('does not change what belongs to others', async () => {
    sh(
      'ipvsadm -A -f 7 -s wlc; ipvsadm -A -t 192.168.9.1:80 -s sh; ipvsadm -a -t 192.168.9.1:80 -r 10.1.1.1:80 -m; ipvsadm -A -t 192.0.2.9:80 -s sh',
    )
    await withWebBeside(['-A -f 7 -s wlc', '-A -t 192.168.9.1:80 -s sh', '-a -t 192.168.9.1:80 -r 10.1.1.1:80 -m -w 1'])
  })

  async function withWebBeside(foreign: readonly string[]): Promise<void> {
    bench = new Workbench({ excludeCIDRs: ['192.168.0.0/16'] })
    bench.write('web.yaml', WEB, WEB_SLICE)
    bench.start()
    await eventually(() => assert.deepEqual(virtualServers(), [...WEB_TABLE, ...foreign].sort()))
  }

  it('edits a foreign virtual server that has a wanted key in place', async () => {
    sh('ipvsadm -A -t 10.96.0.1:80 -s lc -p 60; ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 9')
    bench = new Workbench()
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1']))
    const preview = await bench.command('diff')
    assert.deepEqual(
      preview.stdout.split('\n').filter((line) => line.startsWith('ipvsadm')),
      ['ipvsadm -E -t 10.96.0.1:80 -s rr', 'ipvsadm -e -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1'],
    )
    bench.start()
    await eventually(() => assert.deepEqual(virtualServers(), WEB_TABLE.slice(0, 2)))
  })

  it('adopts its own table after a restart without writing', async () => {
    const daemon = await withWeb()
    assert.equal(await bench.stop(daemon), 143)
    assert.deepEqual(virtualServers(), WEB_TABLE)
    const once = await bench.command('', '--once', '--output', 'json')
    assert.equal(once.code, 0)
    assert.deepEqual(JSON.parse(once.stdout), { operations: 0, failures: 0 })
  })

  it('removes in one pass when there is no Node to wait for', async () => {
    bench = new Workbench()
    bench.remove('node.yaml')
    sh('ipvsadm -A -t 10.9.9.9:80 -s rr')
    bench.write('web.yaml', WEB, WEB_SLICE)
    assert.equal((await bench.command('', '--once')).code, 0)
    assert.deepEqual(virtualServers(), WEB_TABLE)
  })

  it('completes the table after a SIGKILL in the middle of a pass', async () => {
    const daemon = await withWeb()
    bench.write(
      'more.yaml',
      ...Array.from({ length: 200 }, (_, index) => service(`s${index}`, { clusterIP: `10.97.0.${index}` })),
    )
    await eventually(() => assert.ok(virtualServers().length > 3))
    await bench.stop(daemon, 'SIGKILL')
    bench.start()
    await eventually(() => assert.equal(virtualServers().length, 203))
    await eventually(() => assert.equal(boundAddresses().length, 201))
  })

  it('gives an address and port to the older of two Services and reports the other', async () => {
    bench = new Workbench()
    const at = (name: string, clusterIP: string, creationTimestamp: string) =>
      service(name, { clusterIP, externalIPs: ['192.0.2.1'] }, { metadata: { creationTimestamp } })
    bench.write('a.yaml', at('a', '10.96.0.1', '2026-01-02T00:00:00Z'), slice('a', ['10.244.0.1']))
    bench.write('b.yaml', at('b', '10.96.0.2', '2026-01-01T00:00:00Z'), slice('b', ['10.244.0.2']))
    bench.start()
    await eventually(() =>
      assert.deepEqual(
        virtualServers().filter((line) => line.includes('192.0.2.1')),
        ['-A -t 192.0.2.1:80 -s rr', '-a -t 192.0.2.1:80 -r 10.244.0.2:8080 -m -w 1'],
      ),
    )
    await eventually(() => assert.match(bench.log, /Two Services claim one address and port.*loser="demo\/a"/))
    bench.remove('b.yaml')
    await eventually(() => assert.ok(virtualServers().includes('-a -t 192.0.2.1:80 -r 10.244.0.1:8080 -m -w 1')))
  })

  it('follows addresses of the node: node ports and own external IPs', async () => {
    bench = new Workbench({}, anyExternalIp)
    bench.write(
      'np.yaml',
      service('np', {
        type: 'NodePort',
        clusterIP: '10.96.0.1',
        externalIPs: ['198.18.0.1'],
        ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
      }),
    )
    bench.start()
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32', '198.18.0.1/32']))
    sh('ip address add 198.18.0.1/24 dev eth0')
    await eventually(() => assert.ok(virtualServers().includes('-A -t 198.18.0.1:30080 -s rr')))
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
  })

  it('limits node ports to nodePortAddresses', async () => {
    sh('ip address add 198.18.0.1/24 dev eth0')
    for (const [nodePortAddresses, expected] of [
      [['primary'], ['10.0.2.15']],
      [['198.18.0.0/16'], ['198.18.0.1']],
      [[], ['10.0.2.15', '198.18.0.1']],
    ] as const) {
      bench = new Workbench({}, { nodePortAddresses })
      bench.write(
        'np.yaml',
        service('np', {
          type: 'NodePort',
          clusterIP: '10.96.0.1',
          ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
        }),
      )
      const { code, stdout } = await bench.command('diff')
      assert.equal(code, 1)
      assert.deepEqual(
        stdout.split('\n').filter((line) => line.includes(':30080')),
        expected.map((address) => `ipvsadm -A -t ${address}:30080 -s rr`),
      )
      await bench.close()
    }
  })

  it('writes the scheduler flags with which a draining server refuses no client', async () => {
    for (const [scheduler, flags] of [
      ['sh', 'sh-fallback'],
      ['mh', 'mh-fallback,mh-port'],
    ]) {
      freshNode()
      bench = new Workbench({ scheduler })
      bench.write('web.yaml', WEB)
      assert.equal((await bench.command('', '--once')).code, 0)
      assert.deepEqual(virtualServers(), [`-A -t 10.96.0.1:80 -s ${scheduler} -b ${flags}`])
      assert.equal((await bench.command('diff')).code, 0)
      await bench.close()
    }
  })

  it('ends with a message that names the module when the scheduler is unknown', async () => {
    bench = new Workbench({ scheduler: 'bogus' })
    const { code, stderr } = await bench.command('', '--once')
    assert.equal(code, 1)
    assert.match(stderr, /ip_vs_bogus/)
    assert.deepEqual(virtualServers(), [])
  })

  it('uses a link of another kind that has the name of the device, and reports it', async () => {
    sh('ip link add kube-ipvs0 type bridge')
    const daemon = await withWeb()
    await eventually(() => assert.match(bench.log, /of kind .*bridge.* instead of .*dummy/))
    await bench.stop(daemon)
    assert.equal((await bench.command('cleanup')).code, 0)
    assert.match(sh('ip -d link show kube-ipvs0'), /bridge/)
  })

  it('removes everything in cleanup, and lists it before with --dry-run', async () => {
    const daemon = await withWeb()
    await bench.stop(daemon)
    // Neither is ours: no set names it.
    sh('ipvsadm -A -f 7 -s wlc; ipvsadm -A -t 192.0.2.1:80 -s rr; ipset create MY-SET hash:ip')
    const dryRun = await bench.command('cleanup', '--dry-run')
    assert.equal(dryRun.code, 0)
    const commands = dryRun.stdout.split('\n').filter(Boolean)
    assert.equal(commands.at(-1), 'ip link delete kube-ipvs0')
    assert.deepEqual(commands.slice(0, 3), [
      'ip address delete 10.96.0.1/32 dev kube-ipvs0',
      'ipvsadm -D -t 10.96.0.1:80',
      `ip6tables${suffix} -t filter -D OUTPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-OUT-FILTER`,
    ])
    const deletions = commands.filter((command) => command.startsWith('ipset del '))
    assert.deepEqual(deletions.slice(0, 2), [
      'ipset del KUBE-IPVS-IPS 10.96.0.1',
      'ipset del KUBE-CLUSTER-IP 10.96.0.1,tcp:80',
    ])
    // A hash has no order.
    assert.deepEqual(deletions.slice(2).sort(), [
      'ipset del KUBE-LOOP-BACK 10.244.0.1,tcp:8080,10.244.0.1',
      'ipset del KUBE-LOOP-BACK 10.244.0.2,tcp:8080,10.244.0.2',
    ])
    assert.equal(commands.filter((command) => command.startsWith('ipset destroy ')).length, 34)
    assert.equal(virtualServers().length, 5)
    // They are the commands that an operator would type.
    sh(['set -e', ...commands].join('\n'))
    assert.equal((await bench.command('cleanup', '--dry-run')).stdout, '')
    assert.equal((await bench.command('', '--once')).code, 0)
    sh('ipvsadm -A -t 192.0.2.1:80 -s rr')
    assert.equal((await bench.command('cleanup')).code, 0)
    assert.deepEqual(virtualServers(), ['-A -f 7 -s wlc', '-A -t 192.0.2.1:80 -s rr'])
    assert.throws(() => sh('ip link show kube-ipvs0 2>&1'))
    assert.deepEqual(SAVES.flatMap(kubeLines), [])
    assert.match(setsText('list', '-n'), /^MY-SET$/m)
    assert.equal((await bench.command('cleanup')).code, 0)
  })

  it('diff exits with 1 for differences, 0 for none, 2 for an error', async () => {
    bench = new Workbench()
    bench.write('web.yaml', WEB, WEB_SLICE)
    const before = await bench.command('diff', '--output', 'json')
    assert.equal(before.code, 1)
    const { operations } = JSON.parse(before.stdout) as { readonly operations: readonly string[] }
    assert.deepEqual(operations.slice(-5), [
      ...WEB_TABLE.map((line) => `ipvsadm ${line}`),
      'ip link add kube-ipvs0 type dummy',
      'ip address add 10.96.0.1/32 dev kube-ipvs0',
    ])
    const programs = operations.map((command) =>
      command
        .split(' ')
        .slice(0, command.startsWith('ipset') ? 2 : 1)
        .join(' '),
    )
    assert.deepEqual(
      [...new Set(programs)],
      ['ipset create', 'ipset add', `iptables${suffix}`, `ip6tables${suffix}`, 'ipvsadm', 'ip'],
    )
    assert.deepEqual(virtualServers(), [])
    const rules = () => SAVES.map((command) => kubeLines(command).sort())
    assert.equal((await bench.command('', '--once')).code, 0)
    const made = rules()
    const after = await bench.command('diff')
    assert.deepEqual([after.code, after.stdout], [0, ''])
    freshNode()
    // They are the commands that an operator would type.
    sh(['set -e', ...operations].join('\n'))
    const typed = await bench.command('diff')
    assert.deepEqual([typed.code, typed.stdout], [0, ''])
    assert.deepEqual(rules(), made)
    const wrong = await bench.command('diff', '--manifests', '/nonexistent')
    assert.equal(wrong.code, 2)
    assert.match(wrong.stderr, /\/nonexistent/)
  })
})
