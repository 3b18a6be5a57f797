/**
 * The daemon with the rights that the chart gives its container, and no others: after the
 * privileged init container it writes every table and repairs it, in both modes and with both back
 * ends of iptables. With one capability less it ends with one sentence.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { parse } from 'yaml'
import { matchesOf, targetOf } from '../../src/iptables/rule-text.ts'
import { needsOf } from '../../src/node/needs.ts'
import { type Capability, type Container, CAPABILITIES, inContainer } from '../support/container-runtime.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, kubeLines, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually, until } from '../support/deadline.ts'
import { rowsOfRun } from '../support/extent.ts'
import { needs } from './needs.ts'

const VALUES = new URL('../../helm/values.yaml', import.meta.url)
/** What the chart gives the main container. */
const GIVEN = (parse(readFileSync(VALUES, 'utf8')) as { readonly capabilities: readonly Capability[] }).capabilities

const LOCK = '/run/kube-ipvs-test-xtables.lock'
const SOCKETS = '/run/kube-ipvs-test'
const mounts = [
  { source: LOCK, target: '/run/xtables.lock', readOnly: false },
  { source: SOCKETS, target: SOCKETS, readOnly: false },
]
const INIT: Container = { privileged: true, capabilities: [] }
const main = (capabilities: readonly Capability[] = GIVEN): Container => ({
  capabilities,
  hasSeccompProfile: process.arch === 'x64',
  mounts,
})

const SETTINGS = {
  ipvs: ['ipv4/vs/conntrack', 'ipv4/vs/expire_nodest_conn', 'ipv4/vs/expire_quiescent_template', 'ipv4/ip_forward'],
  iptables: ['ipv4/conf/all/route_localnet'],
} as const
const CONNTRACK = '/proc/sys/net/ipv4/vs/conntrack'
const MODES = ['ipvs', 'iptables'] as const
const BACK_ENDS = [
  ['nft', 'iptables-nft'],
  ['legacy', 'legacy-iptables'],
] as const

const WEB = {
  type: 'LoadBalancer',
  clusterIP: '10.96.0.1',
  externalIPs: ['203.0.113.1'],
  loadBalancerSourceRanges: ['10.0.0.0/8'],
  sessionAffinity: 'ClientIP',
  ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30080 }],
}
const INGRESS = { status: { loadBalancer: { ingress: [{ ip: '198.51.100.1' }] } } }
const DNS_PORT = { name: 'dns', protocol: 'UDP', port: 53 }

let bench: Workbench

beforeEach(() => {
  freshNode()
  sh('ip address add fd00:10::15/64 dev eth0 nodad')
  writeFileSync(LOCK, '')
})
afterEach(async () => bench.close())

/** A node where kubelet uses this back end. */
function node(mode: (typeof MODES)[number], backEnd: 'nft' | 'legacy'): Workbench {
  // The limits of connection tracking belong to the kernel's first network namespace.
  bench = new Workbench(
    {},
    {
      mode,
      conntrack: { maxPerCore: 0 },
      iptables: { syncPeriod: '1s', minSyncPeriod: '0s' },
      nodePortAddresses: ['10.0.2.0/24', '127.0.0.0/8'],
    },
  )
  // As the kubelet makes it for the chart.
  mkdirSync(SOCKETS, { recursive: true, mode: 0o755 })
  bench.socket = `${SOCKETS}/kube-ipvs.sock`
  for (const name of SETTINGS[mode]) writeFileSync(`/proc/sys/net/${name}`, '0')
  for (const stem of ['iptables', 'ip6tables']) sh(`${stem}-${backEnd} -t mangle -N KUBE-IPTABLES-HINT`)
  bench.write('web.yaml', service('web', WEB, INGRESS), slice('web', ['10.244.1.1', '10.0.2.15']))
  const six = { clusterIP: 'fd00:96::1', ipFamilies: ['IPv6'], ports: [DNS_PORT] }
  const endpoints = slice('dns', ['fd00:244::1', 'fd00:244::2'], { addressType: 'IPv6', ports: [DNS_PORT] })
  bench.write('dns.yaml', service('dns', six), endpoints)
  bench.write('idle.yaml', service('idle', { clusterIP: '10.96.0.9' }))
  return bench
}

/** Everything in the kernel that is ours, in a fixed order. */
function state(backEnd: 'nft' | 'legacy'): readonly string[] {
  const rules = ['iptables', 'ip6tables'].flatMap((stem) => kubeLines(`${stem}-${backEnd}-save`))
  const withoutCounts = rules.map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
  return [...virtualServers(), ...boundAddresses(), ...kubeLines('ipset save'), ...withoutCounts].toSorted()
}

/** Starts the daemon and waits until the kernel has what it wants. */
async function started(container: Container): Promise<ChildProcess> {
  bench.container = container
  const child = bench.start()
  await settled()
  return child
}

/** The judge is the program with all rights, which would change nothing. */
async function settled(): Promise<void> {
  const { container } = bench
  bench.container = undefined
  // The command takes long to start; the daemon says by its socket, after its first pass, when it is worth asking.
  await until('the local socket', () => existsSync(bench.socket))
  await eventually(async () => {
    const { stdout, stderr, code } = await bench.command('diff')
    assert.deepEqual([stdout, code], ['', 0], `${stderr}${bench.log}`)
  })
  bench.container = container
}

async function initialize(): Promise<string> {
  bench.container = INIT
  const { code, stderr } = await bench.command('', '--init-only', '-v', '2')
  assert.equal(code, 0, stderr)
  return stderr
}

/** Warnings and errors of a log. */
const complaints = (log: string): readonly string[] => log.split('\n').filter((line) => /^[EWF]\d{4} /.test(line))

const mask = (capabilities: readonly Capability[]): string =>
  capabilities
    .reduce((sum, name) => sum | (1n << BigInt(CAPABILITIES[name])), 0n)
    .toString(16)
    .padStart(16, '0')

/** A quick run has each mode and each back end once. */
const COMBINATIONS = rowsOfRun(
  MODES.flatMap((mode) => BACK_ENDS.map(([backEnd, need]) => ({ mode, backEnd, need }))),
  ({ mode, backEnd }) => (mode === 'ipvs') === (backEnd === 'nft'),
)
for (const { mode, backEnd, need } of COMBINATIONS)
  describe(`the daemon in ${mode} mode with iptables ${backEnd} and the rights of the chart`, needs(need), () => {
    it('writes every table, repairs it, and complains about nothing', async () => {
      node(mode, backEnd)
      const initialized = await initialize()
      assert.deepEqual(complaints(initialized), [])
      for (const name of SETTINGS[mode]) assert.equal(readFileSync(`/proc/sys/net/${name}`, 'utf8').trim(), '1', name)

      const child = await started(main())
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      for (const set of ['CapPrm', 'CapEff', 'CapBnd'])
        assert.match(status, new RegExp(`^${set}:\\t${mask(GIVEN)}$`, 'm'))
      for (const set of ['CapInh', 'CapAmb']) assert.match(status, new RegExp(`^${set}:\\t${mask([])}$`, 'm'))
      assert.match(status, /^NoNewPrivs:\t1$/m)
      if (process.arch === 'x64') assert.match(status, /^Seccomp:\t2$/m)

      await until('the local socket', () => existsSync(bench.socket))
      assert.equal(statSync(bench.socket).mode & 0o777, 0o600)
      assert.deepEqual(complaints(bench.log), [])

      const complete = state(backEnd)
      const tables = mode === 'ipvs' ? ['-A -t 10.96.0.1:80 ', '10.96.0.1/32', 'add KUBE-CLUSTER-IP '] : []
      for (const text of [...tables, '-A PREROUTING ', ':KUBE-POSTROUTING ', 'fd00:96::1'])
        assert.ok(
          complete.some((line) => line.startsWith(text) || line.includes(text)),
          `${text} in the kernel`,
        )

      if (mode === 'ipvs') {
        sh('ipvsadm -D -t 10.96.0.1:80; ipvsadm -D -t 203.0.113.1:80; ip address delete 203.0.113.1/32 dev kube-ipvs0')
        sh('ipset flush KUBE-CLUSTER-IP')
      }
      sh(`iptables-${backEnd} -t nat -F KUBE-SERVICES; iptables-${backEnd} -t nat -F PREROUTING`)
      await eventually(() => assert.deepEqual(state(backEnd), complete))

      bench.write('web.yaml', service('web', WEB, INGRESS), slice('web', ['10.244.1.7']))
      await eventually(() => assert.ok(state(backEnd).some((line) => line.includes('10.244.1.7:8080'))))
      await settled()
      assert.equal(await bench.stop(child), 143)
      for (const line of complaints(bench.log)) assert.match(line, /"Repaired a change that another program made"/)
    })

    it('ends with one sentence when a capability is missing', async () => {
      node(mode, backEnd)
      await initialize()
      for (const missing of GIVEN) {
        // Programs of legacy open raw sockets, and rules that name ipsets need one, too.
        if (missing === 'NET_RAW' && backEnd === 'nft' && mode === 'iptables') continue
        const before = state(backEnd)
        bench.container = main(GIVEN.filter((one) => one !== missing))
        bench.log = ''
        assert.equal(await bench.ended(bench.start()), 1, missing)
        const [reason, ...more] = complaints(bench.log)
        assert.match(reason ?? '', new RegExp(`takes the capability ${missing}, which this process does not have: `))
        // The same reason once more, as kube-proxy prints it.
        assert.ok(
          more.every((line) => line.includes(missing)),
          bench.log,
        )
        assert.deepEqual(state(backEnd), before, `without ${missing} nothing is written`)
      }
    })
  })

describe('the rights of the chart', () => {
  it('are the two capabilities that tests remove in turn', () => {
    assert.deepEqual(GIVEN, ['NET_ADMIN', 'NET_RAW'])
  })

  it('need no NET_RAW in iptables mode with iptables-nft', needs('iptables-nft'), async () => {
    node('iptables', 'nft')
    await initialize()
    const child = await started(main(['NET_ADMIN']))
    await bench.stop(child)
    assert.deepEqual(complaints(bench.log), [])
  })

  it('leave no system call that is refused but needed', needs('iptables-nft', 'x86-64'), async () => {
    node('ipvs', 'nft')
    // libuv asks for io_uring and works without it.
    const toleratedCalls = ['io_uring_setup', 'io_uring_enter', 'io_uring_register']
    await initialize()
    const child = await started({ ...main(), toleratedCalls })
    bench.write('web.yaml', service('web', WEB, INGRESS), slice('web', ['10.244.1.7']))
    await settled()
    assert.equal(await bench.stop(child), 143)
    const [program, ...args] = inContainer({ ...main(), toleratedCalls }, ['/bin/sh', '-c', 'exec unshare --net true'])
    assert.equal(spawnSync(program, args).signal, 'SIGSYS', 'the profile ends a process')
  })

  it('name the setting that is wrong and read-only when the init container did not run', async () => {
    node('ipvs', 'nft')
    // Without this one it would run in iptables mode.
    writeFileSync(CONNTRACK, '1')
    bench.configure({ conntrack: { maxPerCore: 0, udpTimeout: '77s' } })
    const child = await started(main())
    await bench.stop(child)
    const lines = complaints(bench.log).filter((line) => line.includes('mounted read-only here'))
    const fields = lines.map((line) => /field="([^"]+)"/.exec(line)?.[1])
    const timeouts = ['tcp_timeout_close_wait', 'tcp_timeout_established', 'udp_timeout']
    const expected = [
      ...SETTINGS.ipvs.filter((name) => !CONNTRACK.endsWith(name)).map((name) => `net/${name}`),
      ...timeouts.map((name) => `net/netfilter/nf_conntrack_${name}`),
    ]
    assert.deepEqual(fields.toSorted(), expected.toSorted(), bench.log)
    for (const line of lines) assert.match(line, /a privileged init container can write it with --init-only/)
  })
})

describe('a switch to ipvs mode with the rights of the chart', needs('iptables-nft'), () => {
  const get = async (path: string): Promise<string> => (await fetch(`http://127.0.0.1:10249${path}`)).text()
  const runs = async (mode: string, reason: string): Promise<void> => {
    const metric = `kubeipvs_mode{active="${mode}",configured="ipvs",reason="${reason}"} 1`
    assert.ok((await get('/metrics')).split('\n').includes(metric), bench.log)
  }
  const inIptablesMode = (): void => {
    node('iptables', 'nft')
    for (const name of SETTINGS.ipvs) writeFileSync(`/proc/sys/net/${name}`, '0')
  }

  it('finds the settings of IPVS, which the init container wrote in iptables mode', async () => {
    inIptablesMode()
    assert.deepEqual(complaints(await initialize()), [])
    const written = SETTINGS.ipvs.map((name) => readFileSync(`/proc/sys/net/${name}`, 'utf8').trim())
    // The last one has an effect without IPVS.
    assert.deepEqual(written, ['1', '1', '1', '0'])
    await started(main())
    bench.configure({ mode: 'ipvs' })
    await eventually(() => runs('ipvs', ''))
    await eventually(() =>
      assert.ok(
        virtualServers().some((line) => line.startsWith('-A -t 10.96.0.1:80 ')),
        bench.log,
      ),
    )
    assert.equal(readFileSync(CONNTRACK, 'utf8').trim(), '1')
  })

  it('is none where IPVS would masquerade nothing, until the setting is written', async () => {
    inIptablesMode()
    const child = await started(main())
    bench.configure({ mode: 'ipvs', kubeIPVS: { switchBack: true } })
    await eventually(() => runs('iptables', 'ipvs-conntrack-off'))
    assert.deepEqual(virtualServers(), [])
    assert.match(bench.log, /"Falling back to iptables mode" err="net\.ipv4\.vs\.conntrack is not 1 .*--init-only/)
    assert.equal(readFileSync(CONNTRACK, 'utf8').trim(), '0')
    for (const name of SETTINGS.ipvs) writeFileSync(`/proc/sys/net/${name}`, '1')
    child.kill('SIGHUP')
    await eventually(() => runs('ipvs', ''))
  })

  it('is a start that ends with one sentence where no fallback is allowed', async () => {
    node('ipvs', 'nft')
    bench.configure({ kubeIPVS: { fallback: 'none' } })
    bench.container = main()
    assert.equal(await bench.ended(bench.start()), 1)
    const [reason, ...more] = complaints(bench.log)
    assert.match(reason ?? '', /cannot set net\.ipv4\.vs\.conntrack to 1, .*EROFS.*--init-only/)
    // The same reason once more, as kube-proxy prints it.
    assert.ok(
      more.every((line) => line.includes('cannot set net.ipv4.vs.conntrack')),
      bench.log,
    )
  })
})

describe('--init-only', needs('iptables-nft'), () => {
  it('changes only what differs, and changes nothing when it runs again', async () => {
    node('ipvs', 'nft')
    const empty = state('nft')
    const changed = (log: string): number => log.match(/"Changed sysctl"/g)?.length ?? 0
    assert.equal(changed(await initialize()), SETTINGS.ipvs.length)
    assert.equal(changed(await initialize()), 0)
    assert.deepEqual(state('nft'), empty)
  })

  it('ends with one sentence without NET_ADMIN', async () => {
    node('ipvs', 'nft')
    bench.container = main([])
    const { code, stderr } = await bench.command('', '--init-only')
    assert.equal(code, 1)
    assert.match(stderr, /takes the capability NET_ADMIN, which this process does not have: run it as root; in a Pod/)
  })
})

describe('needsOf', needs('iptables-nft'), () => {
  it('lists the extensions that the rules of iptables mode use', async () => {
    node('iptables', 'nft')
    const child = await started(main())
    const rules = state('nft').filter((line) => line.startsWith('-A '))
    assert.ok(rules.length > 0)
    await bench.stop(child)
    const families = ['IPv4'] as const
    const listed = needsOf({ mode: 'iptables', families, scheduler: 'rr', iptables: 'nft' }).flat()
    const names = new Set(listed.map(({ kind, name }) => `${kind} ${name}`))
    for (const rule of rules) {
      for (const match of matchesOf(rule)) assert.ok(names.has(`match ${match}`), rule)
      const target = targetOf(rule) ?? ''
      if (!/^(KUBE-.*|ACCEPT|DROP|RETURN|)$/.test(target)) assert.ok(names.has(`target ${target}`), rule)
    }
  })
})
