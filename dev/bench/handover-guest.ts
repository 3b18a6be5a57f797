/**
 * The part of `npm run bench -- --handover` that runs in the guest: established and new connections
 * through one ClusterIP while one proxy follows another, or the mode changes. Prints one line of
 * JSON (HandoverMeasured).
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiServerProcess } from './api-server-process.ts'
import { addNodeAddress, commandOf, NODE_NAME, writeConfiguration } from './guest-node.ts'
import type { HandoverEvent, HandoverMeasured } from './handover-result.ts'
import { IptablesTable } from './iptables-table.ts'
import { IpvsTable } from './ipvs-table.ts'
import { MeasuredProgram } from './measured-program.ts'
import { metricsPage, sumOf } from './metrics-page.ts'
import type { Mode } from './result.ts'
import { middleOf } from './traffic.ts'
import { holdConnections, rateOfConnections } from './traffic-client.ts'
import { TrafficNetwork } from './traffic-network.ts'
import { monotonicMs, SERVICE_PORT, TableView } from './table-view.ts'

/** The task from the host, as one argument of JSON. */
export interface HandoverTask {
  readonly event: HandoverEvent
  /** The mode before the event. */
  readonly mode: Mode
  /** Established connections. */
  readonly held: number
  /** New connections: at least so many. */
  readonly connections: number
  /** New connections a second. */
  readonly rate: number
  readonly services: number
  readonly endpoints: number
  /** The entry of the bundle. */
  readonly command: string
  /** kube-proxy's path. */
  readonly kubeProxy?: string
  /** Path of the compiled `traffic.c`. */
  readonly traffic: string
}

/** The limit until a table is complete, or until a program has written what it had to. */
const COMPLETE_MS = 600_000
const POLL_MS = 50
/** Established connections have a request each in this time. */
const PERIOD_MS = 1_000
/** Traffic before the event, and after it. */
const BEFORE_MS = 2_000
const AFTER_MS = 3_000
/** Lines of failures that are kept. */
const FAILURES = 5
/** xt_ipvs is the match of a rule of ours. */
const UNLOAD = 'modprobe -r xt_ipvs ip_vs_rr ip_vs'

type Proxy = 'kube-ipvs' | 'kube-proxy'

/** A program with ports of its own, so that two can run at the same time. */
class RunningProxy {
  readonly program: MeasuredProgram
  readonly #configure: (mode: Mode) => void
  readonly #metrics: string

  constructor(node: HandoverNode, mode: Mode, proxy: Proxy, number: number) {
    const { task, folder, url } = node
    const own = join(folder, String(number))
    execFileSync('mkdir', [own])
    const metricsBindAddress = `127.0.0.1:${11_000 + number}`
    this.#metrics = `http://${metricsBindAddress}/metrics`
    const more = {
      metricsBindAddress,
      healthzBindAddress: `127.0.0.1:${12_000 + number}`,
      ...(proxy === 'kube-ipvs' ? { kubeIPVS: { switchBack: true } } : {}),
    }
    this.#configure = (to) => writeConfiguration(own, to, url, more)
    const command = proxy === 'kube-proxy' ? (task.kubeProxy ?? '') : task.command
    this.program = new MeasuredProgram({
      command: commandOf({ program: proxy, command }, writeConfiguration(own, mode, url, more)),
      logFile: join(own, 'program.log'),
    })
  }

  /** Changes the mode in its configuration file, which the program watches. */
  configure(mode: Mode): void {
    this.#configure(mode)
  }

  /** Operations on the kernel's tables since its start, 0 of kube-proxy. Resolves when its first pass has ended. */
  async operations(): Promise<number> {
    const endMs = monotonicMs() + COMPLETE_MS
    for (;;) {
      const page = await metricsPage(this.#metrics)
      const passed = /^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{[^}]*\})? (\S+)$/m.exec(page)?.[1]
      if (Number(passed ?? 0) > 0) return sumOf(page, 'kubeipvs_operations_total')
      if (!this.program.isAlive || monotonicMs() > endMs)
        throw new Error(`the program has made no pass:\n${this.program.logTail}`)
      await sleep(POLL_MS)
    }
  }
}

/** What an event works on. */
class HandoverNode {
  readonly task: HandoverTask
  readonly folder = mkdtempSync('/run/kube-ipvs-handover-')
  readonly #api: ApiServerProcess
  #started = 0

  constructor(task: HandoverTask, api: ApiServerProcess) {
    this.task = task
    this.#api = api
  }

  get url(): string {
    return this.#api.url
  }

  start(mode: Mode = this.task.mode, proxy: Proxy = 'kube-ipvs'): RunningProxy {
    return new RunningProxy(this, mode, proxy, this.#started++)
  }

  /** Resolves when the kernel has every Service as this mode writes it. */
  async complete(mode: Mode, { program }: RunningProxy): Promise<void> {
    const table = new TableView(mode === 'ipvs' ? await IpvsTable.open() : new IptablesTable())
    try {
      const endMs = monotonicMs() + COMPLETE_MS
      if ((await table.whenComplete(this.#api.expected(), endMs, () => program.isAlive)) === undefined)
        throw new Error(`the table of ${mode} mode is not complete:\n${program.logTail}`)
    } finally {
      table.close()
    }
  }

  /**
   * The same for iptables mode in either back end of iptables: a kernel with IPVS as a module may
   * have no nf_tables.
   */
  async servesWithRules({ program }: RunningProxy): Promise<void> {
    const endMs = monotonicMs() + COMPLETE_MS
    const chains = (): number =>
      execFileSync('sh', ['-c', 'iptables-legacy-save -t nat; iptables-nft-save -t nat'], {
        encoding: 'latin1',
        stdio: ['ignore', 'pipe', 'ignore'],
        maxBuffer: 256 << 20,
      }).match(/^:KUBE-SVC-/gm)?.length ?? 0
    while (chains() < this.task.services) {
      if (!program.isAlive || monotonicMs() > endMs) throw new Error(`rules are not complete:\n${program.logTail}`)
      await sleep(POLL_MS * 4)
    }
  }
}

/**
 * What runs before the traffic, and what happens during it. Resolves to the program that runs at
 * the end, and to its operations.
 */
interface Steps {
  /** Default: kube-ipvs in the mode of the task. */
  prepare?(node: HandoverNode): Promise<RunningProxy>
  happen(
    node: HandoverNode,
    before: RunningProxy,
  ): Promise<{ readonly last: RunningProxy; readonly operations?: number }>
}

const other = (mode: Mode): Mode => (mode === 'ipvs' ? 'iptables' : 'ipvs')

/** Starts the next program in the same mode, and resolves when its first pass has ended. */
async function next(node: HandoverNode) {
  const last = node.start()
  return { last, operations: await last.operations() }
}

/** The program ends, and the next one starts. */
function following(end: 'stop' | 'kill'): Steps['happen'] {
  return async (node, before) => {
    await before.program[end]()
    return next(node)
  }
}

const EVENTS: Readonly<Record<HandoverEvent, Steps>> = {
  adopt: {
    async prepare(node) {
      const { mode, kubeProxy } = node.task
      const before = node.start(mode, kubeProxy === undefined ? 'kube-ipvs' : 'kube-proxy')
      await node.complete(mode, before)
      // kube-proxy writes sets and rules after its virtual servers.
      await before.operations()
      await sleep(AFTER_MS)
      return before
    },
    happen: following('stop'),
  },
  restart: { happen: following('stop') },
  kill: { happen: following('kill') },
  upgrade: {
    async happen(node, before) {
      const done = await next(node)
      await before.program.stop()
      return done
    },
  },
  switch: {
    async happen(node, before) {
      const { mode } = node.task
      for (const to of [other(mode), mode]) {
        before.configure(to)
        await node.complete(to, before)
        await sleep(AFTER_MS)
      }
      return { last: before }
    },
  },
  'switch by restart': {
    async happen(node, before) {
      const { mode } = node.task
      let last = before
      for (const to of [other(mode), mode]) {
        await last.program.stop()
        last = node.start(to)
        await node.complete(to, last)
        await sleep(AFTER_MS)
      }
      return { last }
    },
  },
  fallback: {
    async prepare(node) {
      // Starts in both modes load everything that a kernel with modules has; then IPVS is taken away.
      for (const mode of ['iptables', 'ipvs'] as const) {
        const first = node.start(mode)
        await (mode === 'ipvs' ? node.complete(mode, first) : node.servesWithRules(first))
        await first.operations()
        await first.program.stop()
        execFileSync(process.execPath, [node.task.command, 'cleanup'], { stdio: ['ignore', 'ignore', 'inherit'] })
      }
      execFileSync('sh', ['-ec', UNLOAD])
      writeFileSync('/proc/sys/kernel/modprobe', '/bin/false')
      const before = node.start('ipvs')
      await node.servesWithRules(before)
      return before
    },
    async happen(node, before) {
      execFileSync('sh', ['-ec', 'for module in ip_vs ip_vs_rr xt_ipvs; do modprobe $module; done'])
      process.kill(before.program.pid, 'SIGHUP')
      await node.complete('ipvs', before)
      return { last: before }
    },
  },
}

async function main(task: HandoverTask): Promise<void> {
  addNodeAddress()
  const api = await ApiServerProcess.start(task.services, task.endpoints, NODE_NAME)
  const node = new HandoverNode(task, api)
  const measured = middleOf(api.expected())
  const network = await TrafficNetwork.start(measured.endpoints, task.traffic)
  const steps = EVENTS[task.event]
  const before = await (steps.prepare?.(node) ?? prepared(node))
  const client = {
    program: task.traffic,
    namespace: network.client,
    places: [{ address: measured.address, port: SERVICE_PORT }],
  }
  const held = await holdConnections({ ...client, count: task.held, periodMs: PERIOD_MS })
  const made = await rateOfConnections({ ...client, perSecond: task.rate })
  await sleep(BEFORE_MS)
  const startedMs = monotonicMs()
  const { last, operations } = await steps.happen(node, before)
  const eventMs = monotonicMs() - startedMs
  await sleep(AFTER_MS)
  while ((await made.report()).made < task.connections) await sleep(POLL_MS)
  const result: HandoverMeasured = {
    eventMs,
    operations: operations ?? null,
    held: await held.report(),
    made: await made.report(),
    failures: [...held.failures.split('\n'), ...made.failures.split('\n')]
      .filter((line) => line !== '')
      .slice(0, FAILURES),
  }
  await Promise.all([held.close(), made.close()])
  await last.program.stop()
  network.remove()
  await api.stop()
  process.stdout.write(`${JSON.stringify(result)}\n`)
}

/** kube-ipvs in the mode of the task, with a complete table. */
async function prepared(node: HandoverNode): Promise<RunningProxy> {
  const proxy = node.start()
  await node.complete(node.task.mode, proxy)
  await proxy.operations()
  return proxy
}

await main(JSON.parse(process.argv[2] ?? '') as HandoverTask) // written by handover.ts
process.exit(0)
