/**
 * The daemon and its sets and rules under failures: iptables programs that hang, are missing,
 * locked or refuse a rule; kernels that lack a match; sets that are full, of another type or in
 * use; chains that foreign rules lead to.
 */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { freshNode, kubeLines, setsText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { holdLock, IptablesLibraries, IptablesPrograms } from '../support/iptables-programs.ts'
import { isMet, needs } from './needs.ts'

const WEB = service('web', { clusterIP: '10.96.0.1' })
const WEB_SLICE = slice('web', ['10.244.0.1'])
const WEB6 = service('web6', { clusterIP: 'fd00:10:96::1', ipFamilies: ['IPv6'] })
const EXTERNAL = service('ext', { clusterIP: '10.96.0.2', externalIPs: ['198.51.100.7'] })
const guarded = (name: string, vip: string, ranges: readonly string[]) =>
  service(
    name,
    { type: 'LoadBalancer', clusterIP: `10.96.1.${vip.split('.').at(-1)}`, loadBalancerSourceRanges: ranges },
    { status: { loadBalancer: { ingress: [{ ip: vip }] } } },
  )

let bench: Workbench
let programs: IptablesPrograms
const libraries: IptablesLibraries[] = []
beforeEach(() => {
  freshNode()
  bench = new Workbench()
  programs = new IptablesPrograms()
  bench.env = { PATH: programs.path }
})
afterEach(async () => {
  await bench.close()
  programs.remove()
  for (const one of libraries.splice(0)) one.remove()
})

const has = (text: string): boolean => virtualServers().some((line) => line.startsWith(`-A -t ${text} `))
/** The back end that the daemon chooses here. */
const iptables = isMet('iptables-nft') ? 'iptables-nft' : 'iptables-legacy'
const rules = (): string[] => kubeLines(`${iptables}-save`)

async function withWeb(): Promise<void> {
  bench.write('web.yaml', WEB, WEB_SLICE)
  bench.start()
  await eventually(() => assert.ok(has('10.96.0.1:80')))
}
/** The daemon's iptables does without these libraries; returns them. */
function without(...names: readonly string[]): IptablesLibraries {
  const folder = new IptablesLibraries(names)
  libraries.push(folder)
  bench.env = { ...bench.env, XTABLES_LIBDIR: folder.folder }
  return folder
}

describe('processes of iptables', () => {
  const isAnnounced = iptables === 'iptables-nft'
  /** Without announcements an audit reads the rules every second (in these tests), which does not count. */
  const work = () => programs.starts.filter((start) => isAnnounced || start.endsWith('restore')).toSorted()

  it('run twice for each family at a cold start, once for a new kind of Service, never for another change', async () => {
    await withWeb()
    await eventually(() => assert.equal(rules().filter((line) => line.startsWith('-A KUBE-SERVICES')).length, 4))
    // The virtual server needs no rules of the other family, whose last table is filter.
    await eventually(() =>
      assert.ok(kubeLines(`${iptables.replace('ip', 'ip6')}-save`).some((line) => line.startsWith('-A INPUT '))),
    )
    const reads = isAnnounced ? ['ip6tables save', 'iptables save'] : []
    assert.deepEqual(work(), [...reads, 'ip6tables restore', 'iptables restore'].toSorted())
    programs.forget()
    bench.write('more.yaml', service('more', { clusterIP: '10.96.0.9' }), slice('more', ['10.244.0.5']))
    await eventually(() => assert.ok(has('10.96.0.9:80')))
    bench.write('more.yaml', service('more', { clusterIP: '10.96.0.9' }), slice('more', ['10.244.0.6']))
    await eventually(() => assert.ok(virtualServers().some((line) => line.includes('10.244.0.6'))))
    bench.remove('more.yaml')
    await eventually(() => assert.ok(!has('10.96.0.9:80')))
    assert.deepEqual(work(), [])
    // One that was started late for a change above would be found here.
    bench.write('ext.yaml', EXTERNAL, slice('ext', ['10.244.0.5']))
    await eventually(() => assert.ok(has('198.51.100.7:80')))
    assert.deepEqual(
      programs.starts.filter((start) => start.endsWith('restore')),
      ['iptables restore'],
    )
  })
})

describe('iptables that hangs', () => {
  it('delays neither the other family nor existing frontends, is killed and retried', async () => {
    await withWeb()
    programs.hang('iptables', true)
    bench.write('ext.yaml', EXTERNAL, slice('ext', ['10.244.0.5']))
    await eventually(() => assert.ok(has('10.96.0.2:80')))
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.3']))
    bench.write('web6.yaml', WEB6)
    await eventually(() => assert.ok(virtualServers().some((line) => line.includes('10.244.0.3'))), 2000)
    await eventually(() => assert.ok(has('[fd00:10:96::1]:80')), 3000)
    assert.ok(!has('198.51.100.7:80'))
    await eventually(
      () => assert.match(bench.log, /iptables-\w+-restore did not end within 10 s and was killed/),
      15_000,
    )
    programs.hang('iptables', false)
    await eventually(() => assert.ok(has('198.51.100.7:80')), 8000)
  })

  it('postpones all of its family at a cold start, and nothing of the other', async () => {
    programs.hang('iptables', true)
    bench.write('web.yaml', WEB, WEB_SLICE)
    bench.write('web6.yaml', WEB6)
    bench.start()
    await eventually(() => assert.ok(has('[fd00:10:96::1]:80')))
    assert.ok(!has('10.96.0.1:80'))
    assert.equal(sh('ip -4 -o address show dev kube-ipvs0 2>/dev/null || true'), '')
    programs.hang('iptables', false)
    await eventually(() => assert.ok(has('10.96.0.1:80')), 20_000)
  })
})

describe('iptables that is missing', () => {
  const PROGRAMS = ['/usr/sbin/xtables-nft-multi', '/usr/sbin/xtables-legacy-multi']
  // This mount namespace is the test's own.
  const hide = () => sh(PROGRAMS.map((program) => `mount --bind /dev/null ${program}`).join(' && '))
  const show = () => sh([...PROGRAMS.map((program) => `umount --lazy ${program} 2>/dev/null`), 'true'].join('; '))
  beforeEach(() => {
    bench.env = {}
  })
  afterEach(() => void show())

  it('ends a daemon that is told to use it with the package to install; status names it too', async () => {
    hide()
    const { code, stderr } = await bench.command('', '--once', '--firewall', 'iptables')
    assert.equal(code, 1)
    assert.match(stderr, /no iptables-save .*install the package iptables/)
    const status = await bench.command('status')
    assert.equal(status.code, 0)
    assert.match(status.stdout, /^iptables +none: no iptables-save/m)
  })

  it('is reported and retried when it disappears while the daemon runs', async () => {
    await withWeb()
    hide()
    bench.write('ext.yaml', EXTERNAL, slice('ext', ['10.244.0.5']))
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.3']))
    await eventually(() => assert.ok(virtualServers().some((line) => line.includes('10.244.0.3'))))
    await eventually(() => assert.match(bench.log, /iptables-\w+-(save|restore) cannot be started/))
    assert.ok(!has('198.51.100.7:80'))
    show()
    await eventually(() => assert.ok(has('198.51.100.7:80')))
  })
})

describe('iptables that is locked', needs('legacy-iptables', 'program:flock'), () => {
  it('is reported, and written when the lock is free', async () => {
    // What kubelet leaves in the back end that it uses.
    sh('iptables-legacy -t mangle -N KUBE-KUBELET-CANARY')
    const lock = `${bench.directory}.lock`
    bench.env = { ...bench.env, XTABLES_LOCKFILE: lock }
    try {
      await withWeb()
      await eventually(() => assert.match(bench.log, /"Using iptables" backEnd="legacy"/))
      const holder = await holdLock(lock)
      try {
        bench.write('ext.yaml', EXTERNAL, slice('ext', ['10.244.0.5']))
        bench.write('web.yaml', WEB, slice('web', ['10.244.0.3']))
        await eventually(() => assert.ok(virtualServers().some((line) => line.includes('10.244.0.3'))))
        await eventually(() => assert.match(bench.log, /the lock or another resource of iptables/))
        assert.ok(!has('198.51.100.7:80'))
      } finally {
        await holder.release()
      }
      await eventually(() => assert.ok(has('198.51.100.7:80')), 20_000)
      // Rules that come late are no longer awaited.
      await eventually(() =>
        assert.ok(kubeLines('iptables-legacy-save').some((line) => line.includes('KUBE-EXTERNAL-IP '))),
      )
    } finally {
      sh('iptables-legacy -t mangle -X KUBE-KUBELET-CANARY')
    }
  })
})

describe('a rule that is refused', () => {
  it('loses only its chain, is named, and is written when it works', async () => {
    const folder = without('ipt_REJECT', 'xt_REJECT', 'ip6t_REJECT')
    await withWeb()
    await eventually(() =>
      assert.match(bench.log, /"Failed to execute iptables-restore" err=".*-j REJECT.*item="filter KUBE-IPVS-FILTER"/),
    )
    assert.ok(!rules().some((line) => line.startsWith('-A KUBE-IPVS-FILTER')))
    assert.ok(rules().some((line) => line.startsWith('-A KUBE-SERVICES')))
    for (const name of ['ipt_REJECT', 'ip6t_REJECT']) folder.bring(name)
    await eventually(() => assert.ok(rules().some((line) => /^-A KUBE-IPVS-FILTER .* REJECT/.test(line))), 40_000)
  })

  it('is omitted and named when the node lacks its match: ipvs, physdev', async () => {
    without('xt_ipvs', 'xt_physdev')
    bench.write('lb.yaml', guarded('lb', '203.0.113.10', ['192.0.2.0/24']), slice('lb', ['10.244.0.1']))
    bench.write('ext.yaml', EXTERNAL, slice('ext', ['10.244.0.5']))
    bench.start()
    await eventually(() => assert.ok(has('203.0.113.10:80') && has('198.51.100.7:80')), 15_000)
    for (const match of ['ipvs', 'physdev'])
      await eventually(() =>
        assert.match(bench.log, new RegExp(`object="module xt_${match}".*left out: .*-m ${match} `)),
      )
    assert.ok(!rules().some((line) => line.startsWith('-A KUBE-IPVS-OUT-FILTER')))
    assert.ok(rules().some((line) => /^-A KUBE-PROXY-FIREWALL .*KUBE-LOAD-BALANCER-FW/.test(line)))
    assert.ok(rules().some((line) => /^-A KUBE-SERVICES .*KUBE-EXTERNAL-IP .*MASQ/.test(line)))
  })

  it('postpones virtual servers that would not be masqueraded: no match set', async () => {
    const folder = without('xt_set')
    bench.write('web.yaml', WEB, WEB_SLICE)
    bench.start()
    await eventually(() => assert.match(bench.log, /KUBE-SERVICES.*[Mm]atch.*set/), 20_000)
    assert.deepEqual(virtualServers(), [])
    folder.bring('xt_set')
    await eventually(() => assert.ok(has('10.96.0.1:80')), 40_000)
  })
})

describe('sets that are in the way', () => {
  it('grow when they are full, and status reports it', async () => {
    // The kernel counts by regions of the table: it takes more than it must before all of them are full.
    const fill = (octet: number) => `ipset add KUBE-CLUSTER-IP 10.${octet}.0.0/16,tcp:1`
    sh(`ipset create KUBE-CLUSTER-IP hash:ip,port; ${fill(7)}; ${fill(8)} 2>/dev/null || true`)
    const web = (index: number) => service(`web-${index}`, { clusterIP: `10.96.0.${index}` })
    bench.write('web.yaml', ...Array.from({ length: 40 }, (_, index) => web(index + 1)))
    // The first audit of the sets makes it smaller again, because the foreign entries are gone then.
    bench.configure({ ipvs: { syncPeriod: '1h', minSyncPeriod: '0s' } })
    bench.start()
    await eventually(() => assert.match(bench.log, /"A set was full and has been made larger" set="KUBE-CLUSTER-IP"/))
    const { stdout } = await bench.command('status')
    assert.match(stdout, /^sets +34 with \d+ entries, KUBE-CLUSTER-IP grown to 131072 \(kube-proxy refuses it\)$/m)
    // Without the entries themselves, of which there are many at first.
    await eventually(
      () => assert.match(setsText('list', '-terse', 'KUBE-CLUSTER-IP'), /^Number of entries: 40$/m),
      30_000,
    )
    await eventually(() => assert.equal(virtualServers().length, 40))
  })

  it('are replaced when they have our names and another type', async () => {
    sh(
      'ipset create KUBE-CLUSTER-IP hash:net; ipset create KUBE-LOOP-BACK list:set; ipset create KUBE-NODE-PORT-TCP bitmap:port range 0-1023',
    )
    await withWeb()
    const made = kubeLines('ipset save').filter((line) => line.startsWith('create '))
    assert.equal(made.length, 34)
    assert.ok(made.includes('create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536'))
    assert.ok(made.includes('create KUBE-LOOP-BACK hash:ip,port,ip family inet hashsize 1024 maxelem 65536'))
    assert.ok(made.includes('create KUBE-NODE-PORT-TCP bitmap:port range 0-65535'))
    assert.ok(kubeLines('ipset save').includes('add KUBE-CLUSTER-IP 10.96.0.1,tcp:80'))
  })

  it('are named when a foreign rule uses them with another type, lose only their own rules, and are replaced later', async () => {
    sh(`ipset create KUBE-EXTERNAL-IP hash:net; ${iptables} -A INPUT -m set --match-set KUBE-EXTERNAL-IP src -j ACCEPT`)
    bench.write('ext.yaml', EXTERNAL, slice('ext', ['10.244.0.5']))
    await withWeb()
    await eventually(() => assert.match(bench.log, /the set KUBE-EXTERNAL-IP has another type and is in use by a rule/))
    await eventually(() => assert.ok(rules().some((line) => /^-A KUBE-SERVICES .*KUBE-CLUSTER-IP /.test(line))))
    assert.ok(!rules().some((line) => /^-A KUBE-.*KUBE-EXTERNAL-IP /.test(line)))
    sh(
      `${iptables} -D INPUT 1 2>/dev/null; ${iptables} -D INPUT -m set --match-set KUBE-EXTERNAL-IP src -j ACCEPT 2>/dev/null || true`,
    )
    await eventually(
      () => assert.ok(kubeLines('ipset save').includes('add KUBE-EXTERNAL-IP 198.51.100.7,tcp:80')),
      40_000,
    )
    await eventually(() => assert.ok(rules().some((line) => /^-A KUBE-SERVICES .*KUBE-EXTERNAL-IP /.test(line))))
  })

  it('are repaired when they were changed by hand', async () => {
    await withWeb()
    sh('ipset add KUBE-CLUSTER-IP 192.0.2.1,tcp:1; ipset del KUBE-IPVS-IPS 10.96.0.1')
    await eventually(() => {
      const entries = kubeLines('ipset save').filter((line) => line.startsWith('add '))
      assert.ok(!entries.some((line) => line.includes('192.0.2.1')))
      assert.ok(entries.includes('add KUBE-IPVS-IPS 10.96.0.1'))
    }, 20_000)
    const repaired = /Repaired a change that another program made.*ipset add KUBE-IPVS-IPS 10\.96\.0\.1/
    await eventually(() => assert.match(bench.log, repaired))
  })
})

describe('rules', () => {
  it(
    'are repaired within a second after a change by hand that the kernel announces',
    needs('iptables-nft'),
    async () => {
      await withWeb()
      const right = rules()
      for (const command of [
        'iptables -t nat -F KUBE-SERVICES',
        'iptables -t nat -D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        'iptables -t filter -I KUBE-FORWARD -j DROP',
      ]) {
        sh(command)
        // The daemon reads the rules at most once a second, so this is a second after the previous repair.
        await eventually(() => assert.deepEqual(rules().toSorted(), right.toSorted(), command), 3000)
      }
      sh('nft flush ruleset')
      await eventually(() => assert.deepEqual(rules(), right), 5000)
    },
  )

  it('are emptied and named in cleanup, with exit code 1, when foreign rules lead to their chains', async () => {
    bench.write('web.yaml', WEB, WEB_SLICE)
    assert.equal((await bench.command('', '--once')).code, 0)
    sh(
      `${iptables} -A INPUT -s 192.0.2.1 -j KUBE-FORWARD; ${iptables} -A INPUT -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT`,
    )
    const { code, stderr } = await bench.command('cleanup')
    assert.equal(code, 1)
    assert.match(stderr, /the chain KUBE-FORWARD of filter was emptied but could not be deleted.*192\.0\.2\.1/)
    assert.match(stderr, /ipset destroy KUBE-CLUSTER-IP: .*in use/)
    assert.deepEqual(rules(), [
      ':KUBE-FORWARD - [0:0]',
      '-A INPUT -s 192.0.2.1/32 -j KUBE-FORWARD',
      '-A INPUT -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT',
    ])
    assert.deepEqual(virtualServers(), [])
    sh(`${iptables} -F INPUT`)
    assert.equal((await bench.command('cleanup')).code, 0)
    assert.deepEqual([...rules(), ...kubeLines('ipset save')], [])
  })

  it('and sets have nothing of a Service that lost its address and port', async () => {
    const metadata = (name: string, creationTimestamp: string) => ({ name, namespace: 'demo', creationTimestamp })
    const spec = { type: 'LoadBalancer', clusterIP: '10.96.1.1' }
    const status = { loadBalancer: { ingress: [{ ip: '203.0.113.10' }] } }
    bench.write(
      'a.yaml',
      service(
        'loser',
        { ...spec, loadBalancerSourceRanges: ['192.0.2.0/24'] },
        { metadata: metadata('loser', '2026-01-02T00:00:00Z'), status },
      ),
      slice('loser', ['10.244.0.1']),
    )
    const winner = { metadata: metadata('winner', '2026-01-01T00:00:00Z'), status }
    bench.write(
      'b.yaml',
      service('winner', { ...spec, clusterIP: '10.96.1.2' }, winner),
      slice('winner', ['10.244.0.2']),
    )
    bench.start()
    await eventually(() => assert.ok(has('203.0.113.10:80')))
    const entries = kubeLines('ipset save').filter((line) => line.includes('203.0.113.10'))
    assert.deepEqual(entries.toSorted(), [
      'add KUBE-IPVS-IPS 203.0.113.10',
      'add KUBE-LOAD-BALANCER 203.0.113.10,tcp:80',
    ])
    assert.ok(!rules().some((line) => line.startsWith('-A KUBE-PROXY-FIREWALL')))
    bench.remove('b.yaml')
    await eventually(() => assert.ok(rules().some((line) => line.startsWith('-A KUBE-PROXY-FIREWALL'))))
    // Rules need the sets and not their entries: both are written at the same time.
    await eventually(() => assert.ok(kubeLines('ipset save').includes('add KUBE-LOAD-BALANCER-FW 203.0.113.10,tcp:80')))
  })
})
