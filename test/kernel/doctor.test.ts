/**
 * `kube-ipvs doctor` on a real kernel: it finds what was broken on purpose and nothing else that it
 * did not find before, it changes nothing, and a bundle of the node gives the same diagnosis.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import type { Diagnosis } from '../../src/doctor/diagnose.ts'
import { listNftBaseChains } from '../../src/nftables/chains.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { freshNode } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { deadline, eventually } from '../support/deadline.ts'
import { isMet, needs } from './needs.ts'

let bench: Workbench
let children: ChildProcess[] = []
beforeEach(() => {
  freshNode()
  sh('sysctl -qw net.ipv4.ip_forward=1 net.ipv4.vs.conntrack=1')
  bench = new Workbench({}, { mode: 'ipvs' })
})
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  children = []
  await bench.close()
  freshNode()
})

async function doctor(...flags: string[]): Promise<{ readonly diagnosis: Diagnosis; readonly code: number | null }> {
  const { code, stdout, stderr } = await bench.run('doctor', '--output', 'json', ...flags)
  assert.notEqual(stdout, '', stderr)
  return { diagnosis: JSON.parse(stdout) as Diagnosis, code } // what our own program prints
}

/** `error both-back-ends`, sorted. */
const findings = ({ checks }: Diagnosis): string[] =>
  checks.flatMap(({ id, findings: all }) => all.map(({ severity }) => `${severity} ${id}`)).sort()

/** What one diagnosis has and another one has not. */
function more(after: Diagnosis, before: Diagnosis): string[] {
  const known = findings(before)
  return findings(after).filter((one) => {
    const at = known.indexOf(one)
    if (at >= 0) known.splice(at, 1)
    return at < 0
  })
}

/** Everything of the network namespace that doctor could change, without counters. */
function traces(): string {
  const names = ['ip_tables_names', 'ip6_tables_names'].map((file) => `/proc/net/${file}`)
  const legacy = names.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : ''))
  const nft = isMet('nft') ? sh('nft list ruleset') : ''
  const settings = sh('sysctl -a 2>/dev/null | grep -E "^net.ipv[46].(vs|ip_forward|conf.all)"')
  return [sh('ipvsadm -S -n; ipset save; ip -o link; ip -o address'), settings, nft, ...legacy].join('---\n')
}

/** Starts a process with this name, in this network namespace or in one of its own. */
function start(name: string, prefix: readonly string[] = []): number {
  const program = join(bench.directory, name)
  if (!existsSync(program)) copyFileSync('/bin/sleep', program)
  const [command = program, ...args] = [...prefix, program, '600']
  const child = spawn(command, args, { stdio: 'ignore' })
  children.push(child)
  return child.pid ?? 0
}

describe('doctor', () => {
  it(
    'finds a wrong setting, chains of a proxy in both back ends and a missing module',
    needs('iptables-nft', 'legacy-iptables'),
    async () => {
      const before = await doctor()
      sh(`
      sysctl -qw net.ipv4.ip_forward=0
      for program in iptables-nft iptables-legacy; do $program -t nat -N KUBE-SERVICES; done`)
      const broken = traces()
      const { diagnosis, code } = await doctor('--ipvs-scheduler', 'nosuch')
      assert.deepEqual(more(diagnosis, before.diagnosis), [
        'error both-back-ends',
        'error kernel-modules',
        'warning proxy-sysctls',
      ])
      assert.equal(code, 2)
      assert.equal(traces(), broken, 'doctor changes nothing')
      const modules = diagnosis.checks.find(({ id }) => id === 'kernel-modules')
      assert.ok(modules?.findings.some(({ remedy }) => remedy.includes('modprobe ip_vs_nosuch')))
    },
  )

  it('repairs what it found when its remedies are run', needs('iptables-nft', 'legacy-iptables'), async () => {
    sh(`
      sysctl -qw net.ipv4.ip_forward=0
      for program in iptables-nft iptables-legacy; do
        $program -t nat -N KUBE-SERVICES; $program -t nat -A PREROUTING -j KUBE-SERVICES
      done`)
    const { diagnosis } = await doctor()
    const remedyOf = (id: string): readonly string[] =>
      diagnosis.checks.find((check) => check.id === id)?.findings[0]?.remedy ?? []
    sh(
      remedyOf('proxy-sysctls')
        .filter((line) => line.startsWith('sysctl '))
        .join('\n'),
    )
    sh(
      remedyOf('both-back-ends')
        .filter((line) => line.includes('-restore'))
        .join('\n'),
    )
    const { diagnosis: after } = await doctor()
    for (const id of ['proxy-sysctls', 'both-back-ends'])
      assert.ok(!findings(after).some((one) => one.endsWith(` ${id}`) && !one.startsWith('note')), id)
  })

  it('names the rule that keeps iptables from printing a table', needs('iptables-nft', 'nft'), async () => {
    const before = await doctor()
    sh(`
      nft add table ip filter; nft 'add chain ip filter INPUT { type filter hook input priority 0; }'
      nft add rule ip filter INPUT ct state established,related accept
      nft add table ip6 filter; nft 'add chain ip6 filter INPUT { type filter hook input priority 0; }'
      nft add rule ip6 filter INPUT tcp dport '{ 22, 25 }' drop`)
    const broken = traces()
    const { diagnosis, code } = await doctor()
    assert.deepEqual(more(diagnosis, before.diagnosis), ['note hidden-tables', 'warning hidden-tables'])
    assert.ok(code === 1 || code === 2)
    assert.equal(traces(), broken, 'doctor changes nothing')
    const [found, note] = diagnosis.checks.find(({ id }) => id === 'hidden-tables')?.findings ?? []
    assert.match(found?.what ?? '', /the table "filter", .*: "ct state established,related accept" in "INPUT"/)
    assert.match(note?.what ?? '', /"tcp dport \{ 22, 25 \} drop" in "INPUT"/)
    sh(found?.remedy[0] ?? '')
    assert.match(sh('iptables-nft-save -t filter'), /COMMIT/)
  })

  it(
    'names hostPorts in the other back end of iptables and in tables of nft',
    needs('iptables-nft', 'legacy-iptables'),
    async () => {
      sh('iptables-nft -t mangle -N KUBE-IPTABLES-HINT')
      const before = await doctor()
      sh(`
      iptables-legacy -t nat -N CNI-HOSTPORT-DNAT
      iptables-legacy -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
      iptables-legacy -t nat -A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.244.0.5:443
      nft add table inet cni_hostport; nft 'add chain inet cni_hostport prerouting { type nat hook prerouting priority dstnat; }'
      nft add chain inet cni_hostport hostports; nft add rule inet cni_hostport prerouting jump hostports
      nft add rule inet cni_hostport hostports tcp dport 8443 dnat ip to 10.244.0.5:443`)
      const { diagnosis } = await doctor()
      assert.deepEqual(more(diagnosis, before.diagnosis), ['warning host-ports', 'warning host-ports'])
      const texts = diagnosis.checks.find(({ id }) => id === 'host-ports')?.findings.map(({ what }) => what) ?? []
      assert.match(texts[0] ?? '', /CNI-HOSTPORT-DNAT", in the back end of iptables .* takes packets to "443\/tcp"/)
      assert.match(texts[1] ?? '', /The chain "inet cni_hostport prerouting" of nf_tables takes packets to "8443\/tcp"/)
    },
  )

  it(
    'finds a policy DROP of iptables-legacy beside rules of iptables-nft',
    needs('iptables-nft', 'legacy-iptables'),
    async () => {
      sh('iptables-nft -t mangle -N KUBE-IPTABLES-HINT')
      const before = await doctor()
      sh('iptables-legacy -P FORWARD DROP')
      const { diagnosis } = await doctor()
      assert.deepEqual(more(diagnosis, before.diagnosis), ['warning legacy-policies'])
      const [found] = diagnosis.checks.find(({ id }) => id === 'legacy-policies')?.findings ?? []
      sh(found?.remedy[0] ?? '')
      assert.deepEqual(more((await doctor()).diagnosis, before.diagnosis), [])
    },
  )

  it('finds kube-proxy in this network namespace, and none of another one', async () => {
    start('kube-proxy', ['unshare', '--net'])
    await eventually(() => assert.match(sh('cat /proc/[0-9]*/comm 2>/dev/null || true'), /^kube-proxy$/m))
    const elsewhere = (await doctor()).diagnosis
    assert.deepEqual(elsewhere.checks.find(({ id }) => id === 'kube-proxy-running')?.findings, [])
    const pid = start('kube-proxy')
    await eventually(() => assert.equal(readFileSync(`/proc/${pid}/comm`, 'utf8'), 'kube-proxy\n'))
    const { diagnosis } = await doctor()
    const [found] = diagnosis.checks.find(({ id }) => id === 'kube-proxy-running')?.findings ?? []
    assert.equal(found?.what, `kube-proxy runs on this node (process ${pid}).`)
  })

  it('takes no virtual server of another program for one of ipvs mode', async () => {
    const otherMode = async () => {
      const { diagnosis } = await doctor('--proxy-mode', 'iptables')
      return diagnosis.checks.find(({ id }) => id === 'other-mode')?.severity
    }
    sh('ipvsadm -A -t 192.0.2.9:80 -s rr')
    assert.equal(await otherMode(), 'ok')
    sh('ip link add kube-ipvs0 type dummy')
    assert.equal(await otherMode(), 'note')
  })

  it('says what a start changes, and nothing once it is done', async () => {
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
    const flags = ['--config', bench.configurationFile, '--manifests', bench.directory]
    const changes = async () => {
      const { diagnosis } = await doctor(...flags)
      const check = diagnosis.checks.find(({ id }) => id === 'start-changes')
      assert.equal(check?.unseen, null)
      return check.findings.flatMap(({ severity, remedy }) => [severity, ...remedy])
    }
    const [severity, ...commands] = await changes()
    assert.equal(severity, 'note')
    assert.ok(commands.length > 1)
    assert.equal((await bench.command('', '--once')).code, 0)
    assert.deepEqual(await changes(), [])
  })

  it('recognizes the daemon that runs, and its settings that another program changed', async () => {
    bench.start()
    const running = async (): Promise<Diagnosis> => {
      const { diagnosis } = await doctor('--config', bench.configurationFile)
      return diagnosis
    }
    await eventually(async () => {
      const answer = await fetch('http://127.0.0.1:10249/proxyMode')
      assert.equal(await answer.text(), 'ipvs')
    })
    const before = await running()
    assert.deepEqual(before.checks.find(({ id }) => id === 'kube-proxy-running')?.findings, [])
    sh('sysctl -qw net.ipv4.vs.expire_nodest_conn=0 net.ipv4.vs.conntrack=0')
    assert.deepEqual(more(await running(), before), ['error proxy-sysctls', 'warning proxy-sysctls'])
  })

  it(
    'counts the connections of IPVS against their limit, and finds SCTP there',
    needs('kernel>=7.2', 'sctp'),
    async () => {
      const before = await doctor()
      for (const id of ['ipvs-connections', 'ipvs-sctp'])
        assert.equal(before.diagnosis.checks.find((check) => check.id === id)?.severity, 'ok', id)
      sh('sysctl -qw net.ipv4.vs.conn_max=0')
      const { diagnosis } = await doctor()
      assert.deepEqual(more(diagnosis, before.diagnosis), ['error ipvs-connections'])
      const finding = diagnosis.checks.find(({ id }) => id === 'ipvs-connections')?.findings[0]
      assert.equal(finding?.what, 'IPVS has 0 of at most 0 connections (100 %).')
      sh(finding.remedy[0] ?? '')
      assert.deepEqual(findings((await doctor()).diagnosis), findings(before.diagnosis))
    },
  )

  it('gives the same diagnosis from its bundle', async () => {
    const path = join(bench.directory, 'node.json.gz')
    const { diagnosis, code } = await doctor('--bundle', path)
    const again = await doctor('--from', path)
    assert.deepEqual(again, { diagnosis, code })
    const refused = await bench.run('doctor', '--bundle', path)
    assert.deepEqual([refused.code, refused.stdout], [3, ''])
    assert.match(refused.stderr, /^kube-ipvs doctor: --bundle: EEXIST/)
  })

  it('reports a configuration that is refused, and checks the rest with defaults', async () => {
    bench.configure({ ipvs: { syncPeriod: 'never' } })
    const { diagnosis, code } = await doctor('--config', bench.configurationFile)
    assert.equal(code, 2)
    assert.equal(diagnosis.mode, 'ipvs')
    assert.equal(diagnosis.checks.find(({ id }) => id === 'configuration')?.severity, 'error')
    assert.equal((await bench.run('doctor', '--config', '/nowhere')).code, 3)
  })
})

describe('listNftBaseChains', needs('nft'), () => {
  it('agrees with nft about hooks, priorities and policies', async () => {
    sh(`
      nft add table inet wall; nft add table ip plain
      nft 'add chain inet wall through { type filter hook forward priority 0; policy drop; }'
      nft 'add chain inet wall early { type filter hook prerouting priority 0; policy drop; }'
      nft 'add chain ip plain out { type filter hook output priority -5; }'
      nft add chain ip plain called`)
    const netlink = openNetfilter()
    try {
      const chains = await listNftBaseChains(netlink, { signal: AbortSignal.timeout(deadline(30_000)) })
      assert.deepEqual(
        chains.toSorted((a, b) => (a.chain < b.chain ? -1 : 1)),
        [
          {
            family: 'inet',
            table: 'wall',
            chain: 'early',
            hook: 'prerouting',
            priority: 0,
            type: 'filter',
            policy: 'drop',
          },
          {
            family: 'ip',
            table: 'plain',
            chain: 'out',
            hook: 'output',
            priority: -5,
            type: 'filter',
            policy: 'accept',
          },
          {
            family: 'inet',
            table: 'wall',
            chain: 'through',
            hook: 'forward',
            priority: 0,
            type: 'filter',
            policy: 'drop',
          },
        ],
      )
    } finally {
      netlink.close()
    }
    const { diagnosis } = await doctor()
    const [found] = diagnosis.checks.find(({ id }) => id === 'nft-policies')?.findings ?? []
    assert.match(found?.what ?? '', /"inet wall through" of nf_tables drops at forward/)
  })
})

describe('a firewall in a table of nft', needs('nft'), () => {
  it('is found when its chain ends with a reject, as that of firewalld, and while it accepts the rest not', async () => {
    const rejecting = async (): Promise<readonly string[]> => {
      const { diagnosis } = await doctor()
      const found = diagnosis.checks.find(({ id }) => id === 'nft-policies')?.findings ?? []
      return found.map(({ what }) => what)
    }
    sh(`
      nft add table inet firewalld; nft add chain inet firewalld zones; nft add chain inet firewalld public
      nft 'add chain inet firewalld filter_INPUT { type filter hook input priority 10; policy accept; }'
      nft add rule inet firewalld filter_INPUT ct state established,related accept
      nft add rule inet firewalld filter_INPUT jump zones
      nft add rule inet firewalld zones iifname eth9 goto public; nft add rule inet firewalld zones goto public
      nft add rule inet firewalld public tcp dport 22 accept`)
    assert.deepEqual(await rejecting(), [])
    sh('nft add rule inet firewalld public counter reject with icmpx type admin-prohibited')
    const [what, ...more] = await rejecting()
    assert.match(what ?? '', /The chain "inet firewalld filter_INPUT" of nf_tables rejects at input/)
    assert.deepEqual(more, [])
  })
})
