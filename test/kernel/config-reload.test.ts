/** The configuration file changes while the whole daemon runs: every live field takes effect. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { FIELD_PATHS, fieldAt } from '../../src/config/values.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, links, localRoutes, rulesText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { needs } from './needs.ts'

const NODE_PORT = service('np', {
  type: 'NodePort',
  clusterIP: '10.96.0.1',
  ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
})
const SETTING = '/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait'

let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

async function start() {
  bench = new Workbench({ syncPeriod: '1h' }, { oomScoreAdj: 0, logging: { verbosity: 0 } })
  bench.write('np.yaml', NODE_PORT, slice('np', ['10.244.0.1']))
  const daemon = bench.startQuietly()
  await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
  return daemon
}

/** The same in iptables mode with legacy rules, whose changes the kernel does not announce. */
async function startIptables() {
  sh('iptables-legacy -t mangle -N KUBE-KUBELET-CANARY')
  bench = new Workbench({}, iptablesMode({}))
  bench.write('np.yaml', NODE_PORT, slice('np', ['10.244.0.1']))
  const daemon = bench.startQuietly()
  await eventually(() => assert.match(rules(), / 10\.96\.0\.1\/32 /))
  return daemon
}
const iptablesMode = (iptables: object, more: object = {}): Readonly<Record<string, unknown>> => ({
  ...base,
  mode: 'iptables',
  nodePortAddresses: ['10.0.2.0/24'],
  iptables: { syncPeriod: '1h', ...iptables },
  ...more,
})
const rules = (): string => rulesText('iptables-legacy-save')
const taken = (field: string) =>
  eventually(() => assert.match(bench.log, new RegExp(`"Configuration file changed".*"${field}"`)))
const base = { oomScoreAdj: 0, logging: { verbosity: 0 } }
const periods = (syncPeriod: string, minSyncPeriod = '0s') => ({ ipvs: { syncPeriod, minSyncPeriod } })

/** For each live field: the change, and its visible effect. */
const LIVE: Readonly<Record<string, (processId: number) => Promise<void>>> = {
  'logging.verbosity': async () => {
    bench.configure({ ...base, ...periods('1h'), logging: { verbosity: 2 } })
    await taken('logging.verbosity')
    bench.write('v.yaml', service('v', { clusterIP: '10.96.0.7' }))
    await eventually(() => assert.match(bench.log, /"Pass done"/))
  },
  'logging.vmodule': async () => {
    bench.configure({ ...base, ...periods('1h'), logging: { vmodule: [{ filePattern: 'pass-log', verbosity: 2 }] } })
    await taken('logging.vmodule')
    bench.write('v.yaml', service('v', { clusterIP: '10.96.0.7' }))
    await eventually(() => assert.match(bench.log, /pass-log\.ts:\d+\] "Pass done"/))
  },
  'ipvs.syncPeriod': async () => {
    sh('ipvsadm -D -t 10.96.0.1:80')
    bench.configure({ ...base, ...periods('1s') })
    await taken('ipvs.syncPeriod')
    // The kernel does not announce it: only an audit finds it.
    await eventually(() => assert.ok(virtualServers().includes('-A -t 10.96.0.1:80 -s rr')), 15_000)
  },
  'ipvs.minSyncPeriod': async () => {
    bench.configure({ ...base, ...periods('1h', '30m') })
    await taken('ipvs.minSyncPeriod')
    bench.write('a.yaml', service('a', { clusterIP: '10.96.0.8' }))
    await eventually(() => assert.match(bench.log, /"Manifest read" file="a\.yaml"/))
    assert.equal(boundAddresses().length, 1)
    bench.write('b.yaml', service('b', { clusterIP: '10.96.0.9' }))
    bench.configure({ ...base, ...periods('1h') })
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32', '10.96.0.8/32', '10.96.0.9/32']))
  },
  nodePortAddresses: async () => {
    const nodePorts = (): string[] => virtualServers().filter((line) => / -t \S+:30080 -s/.test(line))
    sh('ip address add 198.18.0.1/24 dev eth0')
    await eventually(() => assert.equal(nodePorts().length, 2))
    bench.configure({ ...base, ...periods('1h'), nodePortAddresses: ['198.18.0.0/16'] })
    await taken('nodePortAddresses')
    await eventually(() => assert.deepEqual(nodePorts(), ['-A -t 198.18.0.1:30080 -s rr']))
  },
  conntrack: async () => {
    bench.configure({ ...base, ...periods('1h'), conntrack: { tcpCloseWaitTimeout: '77s' } })
    await taken('conntrack.tcpCloseWaitTimeout')
    await eventually(() => assert.equal(readFileSync(SETTING, 'utf8'), '77\n'))
  },
  oomScoreAdj: async (processId) => {
    const score = (): string => readFileSync(`/proc/${processId}/oom_score_adj`, 'utf8').trim()
    assert.equal(score(), '0')
    bench.configure({ ...base, ...periods('1h'), oomScoreAdj: 321 })
    await taken('oomScoreAdj')
    await eventually(() => assert.equal(score(), '321'))
  },
  mode: async () => {
    bench.configure({ ...base, mode: 'iptables', iptables: { minSyncPeriod: '0s' } })
    await taken('mode')
    await eventually(() => {
      assert.match(rulesText('iptables-save -t nat'), /-A KUBE-SERVICES -d 10\.96\.0\.1\/32 /)
      assert.deepEqual(virtualServers(), [])
      assert.doesNotMatch(links(), /kube-ipvs0/)
    }, 15_000)
  },
  'kubeIPVS.virtualAddresses': async () => {
    const addresses = boundAddresses()
    assert.ok(addresses.length > 0)
    bench.configure({ ...base, ...periods('1h'), kubeIPVS: { virtualAddresses: 'routes' } })
    await taken('kubeIPVS.virtualAddresses')
    await eventually(() => assert.deepEqual([boundAddresses(), localRoutes()], [[], addresses]))
    bench.configure({ ...base, ...periods('1h') })
    await eventually(() => assert.deepEqual([boundAddresses(), localRoutes()], [addresses, []]))
  },
  'kubeIPVS.firewall': async () => {
    const servers = virtualServers()
    bench.configure({ ...base, ...periods('1h'), kubeIPVS: { firewall: 'nftables' } })
    await taken('kubeIPVS.firewall')
    // A kernel without nf_tables keeps the firewall that it has (test/kernel/firewall-switch.test.ts has the switch).
    await eventually(() =>
      assert.match(bench.log, /"Replaced the proxy" mode="ipvs" previous="ipvs"|"Cannot switch the fire/),
    )
    assert.deepEqual(virtualServers(), servers)
  },
  'kubeIPVS.localhostNodePorts': async () => {
    const isOpen = (): boolean => sh('ss -ltnH').includes(' 127.0.0.1:30080 ')
    assert.equal(isOpen(), false)
    bench.configure({ ...base, ...periods('1h'), kubeIPVS: { localhostNodePorts: true } })
    await taken('kubeIPVS.localhostNodePorts')
    await eventually(() => assert.equal(isOpen(), true))
    bench.configure({ ...base, ...periods('1h') })
    await eventually(() => assert.equal(isOpen(), false))
  },
  'kubeIPVS.maxRealServers': async () => {
    const added = (): string[] => virtualServers().filter((line) => line.startsWith('-A '))
    await eventually(() => assert.equal(added().length, 2))
    // Each frontend counts as five at least.
    bench.configure({ ...base, ...periods('1h'), kubeIPVS: { maxRealServers: 9 } })
    await taken('kubeIPVS.maxRealServers')
    await eventually(() => assert.deepEqual(added(), ['-A -t 10.96.0.1:80 -s rr']))
    assert.match(bench.log, /1 of 2 frontends are left out: the node has room for 9 real servers/)
    bench.configure({ ...base, ...periods('1h') })
    await eventually(() => assert.equal(added().length, 2))
  },
  'kubeIPVS.switchBack': async () => {
    bench.configure({ ...base, ...periods('1h'), kubeIPVS: { switchBack: true } })
    await taken('kubeIPVS.switchBack')
  },
}

/** Fields that are live in iptables mode only, or have another visible effect there. */
const LIVE_IN_IPTABLES: Readonly<Record<string, () => Promise<void>>> = {
  'iptables.syncPeriod': async () => {
    sh('iptables-legacy -t nat -F KUBE-SERVICES')
    bench.configure(iptablesMode({ syncPeriod: '1s' }))
    await taken('iptables.syncPeriod')
    // Only an audit finds it.
    await eventually(() => assert.match(rules(), /-A KUBE-SERVICES -d 10\.96\.0\.1\/32 /), 15_000)
  },
  'iptables.minSyncPeriod': async () => {
    bench.configure(iptablesMode({ minSyncPeriod: '30m' }))
    await taken('iptables.minSyncPeriod')
    bench.write('a.yaml', service('a', { clusterIP: '10.96.0.8' }))
    await eventually(() => assert.match(bench.log, /"Manifest read" file="a\.yaml"/))
    assert.doesNotMatch(rules(), /10\.96\.0\.8/)
    bench.write('b.yaml', service('b', { clusterIP: '10.96.0.9' }))
    bench.configure(iptablesMode({}))
    await eventually(() => assert.match(rules(), /10\.96\.0\.8[^]*10\.96\.0\.9/))
  },
  nodePortAddresses: async () => {
    const localnet = (): string => readFileSync('/proc/sys/net/ipv4/conf/all/route_localnet', 'utf8')
    assert.equal(localnet(), '0\n')
    bench.configure(iptablesMode({}, { nodePortAddresses: ['10.0.2.0/24', '127.0.0.0/8'] }))
    await taken('nodePortAddresses')
    await eventually(() => assert.match(rules(), /-A KUBE-SERVICES -d 127\.0\.0\.1\/32 .*-j KUBE-NODEPORTS/))
    // It is opened when the rules that guard it are known to be there.
    await eventually(() => assert.equal(localnet(), '1\n'))
  },
}

describe('a changed configuration file', () => {
  it('is tested here for every field that is live in one of the modes', () => {
    bench = new Workbench()
    // One function applies all settings of conntrack; most of them cannot be written in a network namespace.
    const groups = (fields: readonly string[]): string[] => [
      ...new Set(fields.map((field) => (field.startsWith('conntrack.') ? 'conntrack' : field))),
    ]
    const livePaths = (mode: 'ipvs' | 'iptables'): readonly string[] =>
      FIELD_PATHS.filter((path) => fieldAt(path).reload[mode] === 'live')
    assert.deepEqual(Object.keys(LIVE).sort(), groups(livePaths('ipvs')).sort())
    const checked = [...Object.keys(LIVE), ...Object.keys(LIVE_IN_IPTABLES)]
    for (const field of groups(livePaths('iptables'))) assert.ok(checked.includes(field), field)
  })

  for (const [field, check] of Object.entries(LIVE_IN_IPTABLES))
    it(`is applied in iptables mode: ${field}`, needs('legacy-iptables'), async () => {
      const daemon = await startIptables()
      await check()
      assert.equal(daemon.exitCode, null)
    })

  it(
    'that changes fields of ipvs mode does not disturb a proxy in iptables mode',
    needs('legacy-iptables'),
    async () => {
      const daemon = await startIptables()
      bench.configure(iptablesMode({}, { ipvs: { scheduler: 'lc', strictARP: true }, oomScoreAdj: 5 }))
      await taken('oomScoreAdj')
      assert.equal(daemon.exitCode, null)
      assert.doesNotMatch(bench.log, /"Configuration file changed".* fields=.*ipvs/)
    },
  )

  for (const [field, check] of Object.entries(LIVE))
    it(`is applied: ${field}`, async () => {
      const daemon = await start()
      await check(daemon.pid ?? 0)
      assert.equal(daemon.exitCode, null)
    })

  it('ends the process with 1 and names the field when the field needs a new process', async () => {
    const daemon = await start()
    bench.configure({ ...base, ipvs: { syncPeriod: '1h', scheduler: 'lc' } })
    assert.equal(await bench.ended(daemon), 1)
    await eventually(() =>
      assert.match(
        bench.log,
        /^E.*"Error running ProxyServer" err="content of the proxy server's configuration file was updated: .* ipvs\.scheduler"$/m,
      ),
    )
    assert.ok(virtualServers().includes('-A -t 10.96.0.1:80 -s rr'))
  })

  it('also ends the process before the first pass, which may wait for this very change', async () => {
    bench = new Workbench()
    const clientConnection = { kubeconfig: bench.kubeconfig('http://127.0.0.1:1') }
    const daemon = bench.startOnApi(clientConnection.kubeconfig)
    await eventually(() => assert.match(bench.log, /"Failed to watch"/))
    bench.configure({ clientConnection, clusterCIDR: '10.0.0.0/8' })
    assert.equal(await bench.ended(daemon), 1)
    await eventually(() => assert.match(bench.log, /was updated: .* clusterCIDR"/))
  })

  it('is reported once when it is broken, and the previous configuration stays in force', async () => {
    const daemon = await start()
    writeFileSync(bench.configurationFile, 'mode: [')
    const reports = (): number => bench.log.split('"The configuration file is invalid').length - 1
    await eventually(() => assert.equal(reports(), 1))
    bench.write('more.yaml', service('more', { clusterIP: '10.96.0.9' }))
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32', '10.96.0.9/32']))
    bench.configure({ ...base, ...periods('1h'), oomScoreAdj: 5 })
    await taken('oomScoreAdj')
    assert.deepEqual([reports(), daemon.exitCode], [1, null])
  })
})
