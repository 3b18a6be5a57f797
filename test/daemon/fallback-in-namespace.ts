/**
 * The daemon on a kernel without ip_vs, in the network namespace that this process was started in:
 * in iptables mode, and configured for ipvs mode with both values of kubeIPVS.fallback. Prints what
 * it saw as one line of JSON (FallbackRun).
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { defaultConfiguration } from '../support/configuration.ts'
import { prepareProxy } from '../../src/daemon/proxy-assembly.ts'
import { silentLog } from '../../src/values/log.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'

export interface FallbackRun {
  /** Milliseconds from exec to all Services served, in the order of the starts. */
  readonly servedMs: { readonly ipvs: readonly number[]; readonly iptables: readonly number[] }
  /** Warnings of the first start that fell back, and its whole log. */
  readonly warnings: readonly string[]
  readonly log: string
  readonly proxyMode: string
  readonly metric: string | undefined
  readonly routeLocalnet: string
  /** Sockets of a node port, with kubeIPVS.localhostNodePorts. */
  readonly localhostNodePorts: readonly string[]
  readonly status: string
  readonly statusJson: unknown
  /** What the log has after SIGHUP. */
  readonly afterHangup: string
  /** The metric after the file has changed to `mode: iptables`, and the chains of Services before and after. */
  readonly configured: { readonly metric: string | undefined; readonly chains: readonly number[] }
  /** `--once` with `kubeIPVS.fallback: none`. */
  readonly none: { readonly code: number | null; readonly stderr: string }
  /** `--init-only`, whose container must not keep the Pod from starting. */
  readonly initOnly: { readonly code: number | null; readonly stderr: string }
  /** Events of a proxy that is prepared and then not started, and of one that is started. */
  readonly events: { readonly discarded: readonly string[]; readonly started: readonly string[] }
  /**
   * `cleanup` after it, of sets and chains that ipvs mode left before ip_vs was unloaded, and what
   * is there afterwards.
   */
  readonly cleanup: { readonly code: number | null; readonly stderr: string; readonly left: string }
}

const SERVICES = 100
const STARTS = 3
const ROUTE_LOCALNET = '/proc/sys/net/ipv4/conf/all/route_localnet'

/** Limits of connection tracking belong to the machine, and no test changes them. */
function node(mode: 'ipvs' | 'iptables', kubeIPVS: object = {}): Workbench {
  const bench = new Workbench({}, { mode, kubeIPVS, conntrack: { maxPerCore: 0 }, clusterCIDR: '10.244.0.0/16' })
  for (let index = 0; index < SERVICES; index++) {
    const name = `web-${index}`
    bench.write(`${name}.yaml`, service(name, { clusterIP: `10.96.1.${index}` }), slice(name, [`10.244.1.${index}`]))
  }
  return bench
}

const servedServices = (): number => sh('iptables-save -t nat').match(/^:KUBE-SVC-/gm)?.length ?? 0

async function served(sinceMs: number): Promise<number> {
  while (servedServices() < SERVICES) {
    if (performance.now() > sinceMs + 60_000) throw new Error('the Services are not served')
    await sleep(5)
  }
  return performance.now() - sinceMs
}

/** Starts the daemon on an empty node. */
function start(bench: Workbench, flags: readonly string[] = []) {
  sh('nft flush ruleset')
  writeFileSync(ROUTE_LOCALNET, '0')
  const sinceMs = performance.now()
  return { sinceMs, child: flags.length === 0 ? bench.startQuietly() : bench.start(...flags) }
}

/** The Events of a proxy that takes the place of another one, if it is started. */
async function eventsOf(isStarted: boolean): Promise<readonly string[]> {
  const { conntrack, ...configuration } = defaultConfiguration('ipvs')
  const reasons: string[] = []
  const prepared = await prepareProxy({
    configuration: { ...configuration, conntrack: { ...conntrack, maxPerCore: 0 } },
    nodeName: 'node0',
    log: silentLog,
    isReplacement: true,
    events: { record: ({ reason }) => reasons.push(reason), close: async () => undefined },
    openSource: () => ({ close: async () => undefined }),
  })
  if (isStarted) await prepared.start()
  await (isStarted ? prepared.proxy.close() : prepared.discard())
  return reasons
}

sh('ip link set lo up; ip address add 10.0.2.15/32 dev lo')
const benches = { ipvs: node('ipvs'), iptables: node('iptables') }
const none = node('ipvs', { fallback: 'none' })
try {
  const servedMs = { ipvs: [] as number[], iptables: [] as number[] }
  for (let round = 0; round < STARTS; round++)
    for (const mode of ['iptables', 'ipvs'] as const) {
      const { sinceMs, child } = start(benches[mode])
      servedMs[mode].push(await served(sinceMs))
      await benches[mode].stop(child)
    }

  benches.ipvs.log = ''
  const { sinceMs, child } = start(benches.ipvs, ['-v', '2'])
  await served(sinceMs)
  const answers = async (path: string): Promise<string> => (await fetch(`http://127.0.0.1:10249${path}`)).text()
  await eventually(async () => void (await answers('/proxyMode')))
  const warnings = benches.ipvs.log.split('\n').filter((line) => line.startsWith('W'))
  const [proxyMode, page] = [await answers('/proxyMode'), await answers('/metrics')]
  const status = await benches.ipvs.run('status')
  const statusJson = await benches.ipvs.run('status', '--output', 'json')
  const routeLocalnet = readFileSync(ROUTE_LOCALNET, 'utf8').trim()
  const [log, before] = [benches.ipvs.log, servedServices()]
  const LACKS = 'The kernel lacks a part of what ipvs mode needs; iptables mode stays'
  child.kill('SIGHUP')
  await eventually(() => assert.ok(benches.ipvs.log.includes(LACKS)))
  const afterHangup = benches.ipvs.log.slice(log.length)
  const NODE_PORT = { name: 'http', protocol: 'TCP', port: 80, nodePort: 30_080 }
  benches.ipvs.write(
    'localhost.yaml',
    service('localhost', { type: 'NodePort', clusterIP: '10.96.2.1', ports: [NODE_PORT] }),
    slice('localhost', ['10.244.2.1']),
  )
  benches.ipvs.configure({ kubeIPVS: { localhostNodePorts: true } })
  const localhost = (): string[] =>
    Array.from(sh('ss -ltnH').matchAll(/ (\S+:30080) /g), ([, socket = '']) => socket).sort()
  await eventually(() => assert.equal(localhost().length, 1))
  const localhostNodePorts = localhost()
  benches.ipvs.remove('localhost.yaml')
  await eventually(() => assert.deepEqual([localhost(), servedServices()], [[], SERVICES]))
  const modeMetric = (text: string): string | undefined => /^kubeipvs_mode.*$/m.exec(text)?.[0]
  benches.ipvs.configure({ mode: 'iptables' })
  await eventually(async () => assert.match(modeMetric(await answers('/metrics')) ?? '', /configured="iptables"/))
  const configured = { metric: modeMetric(await answers('/metrics')), chains: [before, servedServices()] }
  await benches.ipvs.stop(child)
  benches.ipvs.configure({ mode: 'ipvs' })
  const initOnly = await benches.ipvs.command('', '--init-only')
  sh(`ipset create KUBE-CLUSTER-IP hash:ip,port; ipset add KUBE-CLUSTER-IP 10.96.1.1,tcp:80; ipset create MINE hash:ip
    iptables-nft -t nat -N KUBE-LOAD-BALANCER; iptables-nft -t nat -A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ`)
  const events = { discarded: await eventsOf(false), started: await eventsOf(true) }
  const { code, stderr } = await benches.ipvs.command('cleanup')
  const left = sh('ipset list -n; iptables-nft-save; ip6tables-nft-save | grep KUBE || true')
  const run: FallbackRun = {
    servedMs,
    warnings,
    log,
    proxyMode,
    metric: modeMetric(page),
    afterHangup,
    configured,
    routeLocalnet,
    localhostNodePorts,
    status: status.stdout,
    statusJson: JSON.parse(statusJson.stdout),
    none: await none.command('', '--once'),
    initOnly,
    events,
    cleanup: { code, stderr, left },
  }
  process.stdout.write(`${JSON.stringify(run)}\n`)
} finally {
  for (const bench of [benches.ipvs, benches.iptables, none]) await bench.close()
}
