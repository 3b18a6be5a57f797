/**
 * The proxy of one node: it is started, told another configuration, followed by the next one, and
 * its kernel is read.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { writeConfiguration } from '../../bench/guest-node.ts'
import { MeasuredProgram } from '../../bench/measured-program.ts'
import { metricsPage } from '../../bench/metrics-page.ts'
import { nodeAddress, onNode } from './network.ts'
import { objectsOf, type Printed } from './objects.ts'
import { nameOf, programOf, type Proxy } from './proxies.ts'
import { nodeName } from './services.ts'

/** What starts each program, by `programOf`. */
export type Commands = Readonly<Record<string, readonly string[]>>

const METRICS_PORT = 10_249
/** The limit for the first pass of a program. */
const READY_MS = 180_000
const COMMAND_MS = 120_000
const POLL_MS = 200
const MAX_OUTPUT = 64 << 20
const run = promisify(execFile)

const PRINTERS: Readonly<Record<keyof Printed, string>> = {
  ip: 'iptables-save',
  ip6: 'ip6tables-save',
  sets: 'ipset list -n',
  servers: 'ipvsadm -S -n',
  addresses: 'ip -o address show dev kube-ipvs0',
  tables: 'nft list tables',
}

export class NodeProxy {
  readonly #node: number
  readonly #url: string
  readonly #commands: Commands
  readonly #folder = mkdtempSync('/run/kube-ipvs-upgrade-')
  #program: MeasuredProgram | undefined

  /** @param url of the API server */
  constructor(node: number, url: string, commands: Commands) {
    this.#node = node
    this.#url = url
    this.#commands = commands
  }

  /** Ends the proxy that runs, and resolves when the next one has made its first pass. */
  async start(proxy: Proxy): Promise<void> {
    await this.stop()
    const command = onNode(this.#node, [...this.#commandOf(proxy), `--config=${this.configure(proxy)}`])
    const program = new MeasuredProgram({ command, logFile: join(this.#folder, 'program.log') })
    this.#program = program
    const endMs = performance.now() + READY_MS
    while (!(await this.#hasPassed())) {
      if (!program.isAlive || performance.now() > endMs)
        throw new Error(`${nameOf(proxy)} has made no pass:\n${program.logTail}`)
      await sleep(POLL_MS)
    }
  }

  /** Writes the file of its configuration, which kube-ipvs watches. */
  configure({ mode, program, firewall }: Proxy): string {
    return writeConfiguration(this.#folder, 'ipvs', this.#url, {
      mode,
      hostnameOverride: nodeName(this.#node),
      clusterCIDR: '10.244.0.0/16',
      metricsBindAddress: `0.0.0.0:${METRICS_PORT}`,
      ...(program === 'kube-ipvs' && firewall !== undefined ? { kubeIPVS: { firewall } } : {}),
    }).config
  }

  /** `kube-ipvs cleanup` of this checkout. */
  async cleanup(): Promise<void> {
    const ours = this.#commandOf({ program: 'kube-ipvs', release: 'HEAD' })
    await this.#onNode([...ours, 'cleanup'])
  }

  /** Names of everything that proxies have in the kernel of the node. */
  async objects(): Promise<ReadonlySet<string>> {
    const script = (command: string): string[] => ['sh', '-c', `${command} 2>/dev/null || true`]
    const entries = Object.entries(PRINTERS).map(async ([name, command]) => [name, await this.#onNode(script(command))])
    return objectsOf(Object.fromEntries(await Promise.all(entries)) as Printed) // the names are the keys
  }

  get logTail(): string {
    return this.#program?.logTail ?? ''
  }

  async stop(): Promise<void> {
    await this.#program?.stop()
    this.#program = undefined
  }

  #commandOf(proxy: Pick<Proxy, 'program' | 'release'>): readonly string[] {
    const command = this.#commands[programOf(proxy)]
    if (command === undefined) throw new Error(`no command for ${programOf(proxy)}`)
    return command
  }

  async #onNode(command: readonly string[]): Promise<string> {
    const [file = '', ...args] = onNode(this.#node, command)
    return (await run(file, args, { timeout: COMMAND_MS, maxBuffer: MAX_OUTPUT })).stdout
  }

  async #hasPassed(): Promise<boolean> {
    const page = await metricsPage(`http://${nodeAddress(this.#node)}:${METRICS_PORT}/metrics`)
    return /^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{[^}]*\})? [1-9]/m.test(page)
  }
}
