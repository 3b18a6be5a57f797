/**
 * The node on which a fault happens: 100 Services and one with traffic at its ClusterIP, its
 * load-balancer address with source ranges, and its node port; the program; the API server.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { clusterIpOf, makeNode, makeService, makeSlice } from '../../api-server/generate.ts'
import { asObject, type Json } from '../../api-server/store.ts'
import { addNodeAddress, commandOf, NODE_NAME, writeConfiguration } from '../../bench/guest-node.ts'
import { MeasuredProgram } from '../../bench/measured-program.ts'
import type { Mode } from '../../bench/result.ts'
import type { TrafficPlace } from '../../bench/traffic-client.ts'
import { ApiProcess } from './api-process.ts'
import { hasServiceRule, isVirtualServer } from './tables.ts'

const SERVICES = 100
const WEB = 0
const ENDPOINTS = ['10.128.0.1', '10.128.0.2', '10.128.0.3']
const OTHERS = ['10.129.0.1', '10.129.0.2']
const NODE_ADDRESS = '172.18.0.2'
const NODE_PORT = 30_080
const LOAD_BALANCER = '203.0.113.10'
/** In which a Service is added that was not there before. */
const FIRST_CHANGE = 500
const START_MS = 120_000
const POLL_MS = 20

export interface NodeOptions {
  /** The entry of the bundle. */
  readonly entry: string
  readonly mode: Mode
  readonly configuration: object
}

export class ChaosNode {
  readonly folder = mkdtempSync('/run/kube-ipvs-chaos-')
  readonly api = new ApiProcess()
  readonly notes: string[] = []
  readonly #options: NodeOptions
  /** Commands in front of the program's. */
  wrapper: readonly string[] = []
  program: MeasuredProgram | undefined
  readonly #further: MeasuredProgram[] = []
  #changes = 0

  constructor(options: NodeOptions) {
    this.#options = options
  }

  /** Endpoints for which something has to answer. */
  static readonly endpoints: readonly string[] = ENDPOINTS.map((address) => `${address}:8080`)

  places(withNodePort: boolean): TrafficPlace[] {
    const places = [
      { address: clusterIpOf(WEB), port: 80 },
      { address: LOAD_BALANCER, port: 80 },
    ]
    return withNodePort ? [...places, { address: NODE_ADDRESS, port: NODE_PORT }] : places
  }

  async openApi(): Promise<void> {
    addNodeAddress()
    this.api.put('nodes', makeNode(NODE_NAME, NODE_ADDRESS))
    for (let index = 0; index < SERVICES; index++) {
      this.api.put('services', index === WEB ? webService() : makeService(index))
      this.api.put('endpointslices', makeSlice(index, index === WEB ? ENDPOINTS : OTHERS))
    }
    await this.api.start()
  }

  /** The command line of `kube-ipvs status`. */
  get status(): string[] {
    return [process.execPath, this.#options.entry, 'status', '--output', 'json', '--socket', this.#socket]
  }

  get #socket(): string {
    return join(this.folder, 'state/kube-ipvs.sock')
  }

  /** All logs of the program, those of its earlier processes first. */
  readonly log = (): string =>
    readdirSync(join(this.folder, 'state'))
      .filter((name) => /^program-\d+\.log$/.test(name))
      .sort()
      .map((name) => readFileSync(join(this.folder, 'state', name), 'utf8'))
      .join('')

  /** Starts the program, again if there was one. */
  start(): void {
    mkdirSync(join(this.folder, 'state'), { recursive: true })
    this.program = this.#run(this.folder, `state/program-${Date.now()}.log`, {
      kubeIPVS: { socket: this.#socket, ...asObject(asObject(this.#options.configuration)['kubeIPVS']) },
    })
  }

  /** A further program with other fields of the configuration, and ports of its own. */
  startFurther(fields: object): void {
    const folder = join(this.folder, `further-${this.#further.length}`)
    mkdirSync(folder)
    const ports = { metricsBindAddress: '127.0.0.1:11249', healthzBindAddress: '127.0.0.1:11256' }
    this.#further.push(this.#run(folder, 'program.log', { ...ports, kubeIPVS: { socket: '' }, ...fields }))
  }

  async stopFurther(): Promise<void> {
    for (const program of this.#further.splice(0)) await program.stop()
  }

  #run(folder: string, logFile: string, fields: object): MeasuredProgram {
    const { entry, mode, configuration } = this.#options
    const paths = writeConfiguration(folder, mode, this.api.url, {
      nodePortAddresses: ['primary'],
      ...configuration,
      ...fields,
    })
    const command = commandOf({ program: 'kube-ipvs', command: entry }, paths)
    return new MeasuredProgram({ command: [...this.wrapper, ...command], logFile: join(folder, logFile) })
  }

  get pid(): number {
    return this.program?.pid ?? 0
  }

  /** Writes a Service that was not there before; `isServed` tells whether the kernel has it. */
  add(): { readonly isServed: () => Promise<boolean>; readonly remove: () => void } {
    const index = FIRST_CHANGE + this.#changes++
    const objects = [
      ['services', makeService(index)],
      ['endpointslices', makeSlice(index, OTHERS)],
    ] as const
    for (const [kind, object] of objects) this.api.put(kind, object)
    const address = clusterIpOf(index)
    return {
      isServed: async () => (this.#options.mode === 'ipvs' ? isVirtualServer(address) : hasServiceRule(address)),
      remove: () => objects.forEach(([kind, object]) => this.api.delete(kind, object)),
    }
  }

  /** Resolves when a Service that is written now is served: the program works. */
  async works(): Promise<void> {
    const added = this.add()
    if ((await when(added.isServed, START_MS)) === null)
      throw new Error(`the program serves nothing:\n${this.program?.logTail}`)
    added.remove()
    if ((await when(async () => !(await added.isServed()), START_MS)) === null)
      throw new Error(`the program removes nothing:\n${this.program?.logTail}`)
  }

  /** Runs a script of the shell; a command that fails ends it, unless it says otherwise. */
  sh(script: string): string {
    return execFileSync('sh', ['-ec', script], { encoding: 'latin1', stdio: ['ignore', 'pipe', 'inherit'] })
  }

  write(path: string, text: string): void {
    writeFileSync(path, text)
  }

  async close(): Promise<void> {
    await this.stopFurther()
    await this.program?.stop()
    await this.api.kill()
  }
}

/** The time until this is so; null when it is not in time. */
export async function when(isSo: () => Promise<boolean>, withinMs: number): Promise<number | null> {
  const startMs = performance.now()
  for (;;) {
    if (await isSo()) return performance.now() - startMs
    if (performance.now() - startMs > withinMs) return null
    await sleep(POLL_MS)
  }
}

function webService(): Json {
  const service = makeService(WEB)
  return {
    ...service,
    spec: {
      ...asObject(service['spec']),
      type: 'LoadBalancer',
      loadBalancerSourceRanges: ['192.168.100.0/24'],
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: NODE_PORT }],
      externalTrafficPolicy: 'Cluster',
      allocateLoadBalancerNodePorts: true,
    },
    status: { loadBalancer: { ingress: [{ ip: LOAD_BALANCER, ipMode: 'VIP' }] } },
  }
}
