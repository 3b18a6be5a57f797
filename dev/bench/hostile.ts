/**
 * `npm run bench -- --hostile`: how long one ordinary change takes to reach the kernel beside objects with which a tenant
 * could try to stall a node: a Service of 1,000 externalIPs x 200 ports, 10,000 claims that lose, 10,000 virtual servers
 * whose endpoint the kernel refuses. Measured while these objects rest, then while the large Service changes all the time.
 * This file starts itself again in the test kernel with the folder and the entry of the bundle; there it is the API server
 * and observes the table.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { clusterIpOf, endpointAddress, makeNode, makeService, makeSlice } from '../api-server/generate.ts'
import { ApiServer } from '../api-server/server.ts'
import type { Json } from '../api-server/store.ts'
import { bundle } from '../bundle.ts'
import { chosenKernel } from '../kernel/choice.ts'
import { runInKernel } from '../kernel/run.ts'
import { NODE_FLAGS } from '../node-flags.ts'
import { SUBSCRIBER } from './guest-node.ts'
import { IpvsTable } from './ipvs-table.ts'
import { MeasuredProgram } from './measured-program.ts'
import { percentile, rounded } from './statistics.ts'
import { monotonicMs } from './table-view.ts'

const ROOT = join(import.meta.dirname, '../..')
const NODE_NAME = 'node0'
const TIMEOUT_MS = 1_800_000
const ENDPOINTS = 5
const PRODUCT = { name: 'product', externalIps: 1000, ports: 200 }
/** Three Services with the same externalIPs, and one without a usable endpoint: 10,000 frontends each. */
const SHARED = { externalIps: 100, ports: 100 }
const REFUSED_ENDPOINT = '239.1.1.1'
const COMPLETE_MS = 600_000
const CHANGE_MS = 60_000
/** After this long without a write only retries are left. */
const REST_MS = 10_000
const BETWEEN_CHANGES_MS = 25
const FLAP_MS = 200

interface Task {
  readonly folder: string
  readonly entry: string
  readonly services: number
  readonly changes: number
  /** Folder for a CPU profile of the program; absent: none is made. */
  readonly profile?: string
}

interface Phase {
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly maxMs: number | null
  readonly eventLoopMaxMs: number | null
  readonly cpuPercent: number
}

const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

async function host(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      hostile: { type: 'boolean' },
      services: { type: 'string', default: '1000' },
      changes: { type: 'string', default: '300' },
      profile: { type: 'string' },
    },
  })
  const choice = chosenKernel(process.env)
  if (choice === undefined) throw new Error('The bench needs a kernel with IPVS: run it as npm run bench -- --hostile.')
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-hostile-'))
  // Inside the repository: the bundle finds koffi in its node_modules.
  mkdirSync(join(ROOT, '.cache'), { recursive: true })
  const bundled = mkdtempSync(join(ROOT, '.cache/hostile-'))
  try {
    const { entry } = await bundle({ directory: bundled, minify: values.profile === undefined })
    const task: Task = {
      folder,
      entry,
      services: Number(values.services),
      changes: Number(values.changes),
      ...(values.profile === undefined ? {} : { profile: values.profile }),
    }
    return await runInKernel(choice, {
      command: [process.execPath, import.meta.filename, JSON.stringify(task)],
      cwd: ROOT,
      env: process.env,
      timeoutMs: TIMEOUT_MS,
      signal: new AbortController().signal,
      stdout: (chunk) => process.stdout.write(chunk),
      stderr: (chunk) => process.stderr.write(chunk),
    })
  } finally {
    for (const path of [folder, bundled]) rmSync(path, { recursive: true, force: true })
  }
}

async function guest(task: Task): Promise<void> {
  execFileSync('sh', ['-ec', 'ip link add eth0 type dummy; ip link set eth0 up; ip address add 172.18.0.2/24 dev eth0'])
  // User-mode Linux runs one thread of a process at a time: one processor is reserved for the program.
  const pin = availableParallelism() > 1 && readFileSync('/proc/cpuinfo', 'utf8').includes('User Mode Linux')
  if (pin) execFileSync('taskset', ['-a', '-c', '-p', '0', String(process.pid)], { stdio: 'ignore' })
  const server = new ApiServer()
  server.store.put('nodes', makeNode(NODE_NAME))
  for (let index = 0; index < task.services; index++) {
    server.store.put('services', makeService(index))
    server.store.put('endpointslices', makeSlice(index, addressesOf(index, 0)))
  }
  await server.listen()
  const kernel = await IpvsTable.open()
  const profiling =
    task.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${task.profile}`, '--cpu-prof-interval=500']
  const program = new MeasuredProgram({
    command: [
      ...(pin ? ['taskset', '-c', '1'] : []),
      process.execPath,
      ...NODE_FLAGS,
      '--require',
      SUBSCRIBER,
      ...profiling,
      task.entry,
      '--config',
      configure(task, server.url),
    ],
    logFile: join(task.folder, 'program.log'),
    readings: join(task.folder, 'readings'),
  })
  try {
    const world = new World(server, kernel, program, task)
    await world.settled(task.services)
    const alone = await world.phase()
    for (const [kind, object] of hostileObjects()) server.store.put(kind, object)
    // Each Service is limited to 10,000 frontends, and one of those that claim the same addresses gets all of them.
    const total = await world.settled(task.services + 3 * 10_000 - 100)
    say(`  ${total} virtual servers, ${rounded(program.memory().rssMiB, 0)} MiB`)
    const beside = await world.phase()
    const flapping = await world.phase((turn) => server.store.put('services', productService(turn)))
    const lines = readFileSync(join(task.folder, 'program.log'), 'utf8').split('\n').length
    const result = { services: task.services, virtualServers: total, alone, beside, flapping, logLines: lines }
    process.stdout.write(`${JSON.stringify(result)}\n`)
  } catch (error) {
    say(program.logTail)
    throw error
  } finally {
    await program.stop()
    kernel.close()
    await server.close()
  }
}

/** The API server, the program and the table, and the timed changes. */
class World {
  readonly #server: ApiServer
  readonly #kernel: IpvsTable
  readonly #program: MeasuredProgram
  readonly #task: Task
  #generation = 0

  constructor(server: ApiServer, kernel: IpvsTable, program: MeasuredProgram, task: Task) {
    this.#server = server
    this.#kernel = kernel
    this.#program = program
    this.#task = task
  }

  /** Waits until there are at least this many virtual servers and their number has not changed for a while. */
  async settled(atLeast: number): Promise<number> {
    const endMs = monotonicMs() + COMPLETE_MS
    for (let [before, sinceMs] = [0, monotonicMs()]; monotonicMs() < endMs; await sleep(1000)) {
      if (!this.#program.isAlive) throw new Error('the program ended')
      const now = countVirtualServers()
      if (now !== before) [before, sinceMs] = [now, monotonicMs()]
      else if (now >= atLeast && monotonicMs() - sinceMs > REST_MS) return now
    }
    throw new Error(`no ${atLeast} virtual servers in time, but ${countVirtualServers()}`)
  }

  /** Times ordinary changes one after the other. Calls `flap` every FLAP_MS meanwhile, with a growing number. */
  async phase(flap?: (turn: number) => void): Promise<Phase> {
    const timesMs: number[] = []
    await this.#program.watch()
    let turn = 0
    const flapping = flap === undefined ? undefined : setInterval(() => flap(++turn), FLAP_MS)
    const cpuMs = this.#program.cost().cpuMs
    const startedMs = monotonicMs()
    for (let index = 0; index < this.#task.changes; index++) {
      timesMs.push(await this.#change((index * 7919) % this.#task.services))
      await sleep(BETWEEN_CHANGES_MS)
    }
    const cpuPercent = ((this.#program.cost().cpuMs - cpuMs) / (monotonicMs() - startedMs)) * 100
    clearInterval(flapping)
    const eventLoopMaxMs = (await this.#program.watch())?.eventLoopMaxMs ?? null
    return {
      p50Ms: rounded(percentile(timesMs, 0.5), 2),
      p99Ms: rounded(percentile(timesMs, 0.99), 2),
      maxMs: rounded(percentile(timesMs, 1), 2),
      eventLoopMaxMs: rounded(eventLoopMaxMs, 1),
      cpuPercent: rounded(cpuPercent, 1) ?? 0,
    }
  }

  /** Gives a Service other endpoints; resolves to the time from the write to the first of them in the kernel. */
  async #change(service: number): Promise<number> {
    const addresses = addressesOf(service, ++this.#generation)
    const [first = ''] = addresses
    const startedMs = monotonicMs()
    this.#server.store.put('endpointslices', makeSlice(service, addresses, this.#generation + 1))
    for (;;) {
      await nextTurn()
      const expected = { port: '', address: clusterIpOf(service), endpoints: new Set<string>() }
      if (await this.#kernel.hasEndpoint(expected, `${first}:8080`)) return monotonicMs() - startedMs
      if (monotonicMs() - startedMs > CHANGE_MS)
        throw new Error(`a change of Service ${service} did not reach the kernel`)
    }
  }
}

function addressesOf(service: number, generation: number): string[] {
  return Array.from({ length: ENDPOINTS }, (_, endpoint) => endpointAddress(service, endpoint, ENDPOINTS, generation))
}

/** Always IPv4 and TCP. */
function countVirtualServers(): number {
  return readFileSync('/proc/net/ip_vs', 'latin1').split('\nTCP').length - 1
}

function configure({ folder }: Task, url: string): string {
  const kubeconfig = join(folder, 'kubeconfig')
  const context = { cluster: 'bench', user: 'bench' }
  const clusters = [{ name: 'bench', cluster: { server: url } }]
  const access = { apiVersion: 'v1', kind: 'Config', clusters, 'current-context': 'bench' }
  // JSON is YAML.
  writeFileSync(
    kubeconfig,
    JSON.stringify({ ...access, users: [{ name: 'bench', user: {} }], contexts: [{ name: 'bench', context }] }),
  )
  const path = join(folder, 'config.yaml')
  writeFileSync(
    path,
    JSON.stringify({
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: 'ipvs',
      hostnameOverride: NODE_NAME,
      clientConnection: { kubeconfig },
    }),
  )
  return path
}

/** @param turn each number changes the ports of a part of the Service */
function productService(turn: number): Json {
  return hostileService(PRODUCT.name, 1, '198.18', PRODUCT.externalIps, PRODUCT.ports, turn)
}

function hostileObjects(): readonly (readonly ['services' | 'endpointslices', Json])[] {
  const { externalIps, ports } = SHARED
  return [
    ['services', productService(0)],
    ['services', hostileService('winner', 2, '198.19', externalIps, ports)],
    ['services', hostileService('loser-a', 3, '198.19', externalIps, ports)],
    ['services', hostileService('loser-b', 5, '198.19', externalIps, ports)],
    ['services', hostileService('refused', 4, '198.17', externalIps, ports)],
    ['endpointslices', hostileSlice('refused', ports)],
  ]
}

function hostileService(
  name: string,
  number: number,
  prefix: string,
  externalIps: number,
  portCount: number,
  turn = 0,
): Json {
  const clusterIP = `10.111.0.${number}`
  const ports = Array.from({ length: portCount }, (_, index) => ({
    name: `p${index}`,
    protocol: 'TCP',
    port: 1000 + index + (index % 2) * (turn % 2) * 1000,
    targetPort: 8080,
  }))
  return {
    metadata: { name, namespace: 'hostile', uid: name, creationTimestamp: '2026-11-20T16:19:17Z' },
    spec: {
      type: 'ClusterIP',
      clusterIP,
      clusterIPs: [clusterIP],
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
      sessionAffinity: 'None',
      externalIPs: Array.from({ length: externalIps }, (_, index) => `${prefix}.${index >> 8}.${index & 255}`),
      ports,
    },
    status: { loadBalancer: {} },
  }
}

function hostileSlice(service: string, ports: number): Json {
  return {
    metadata: {
      name: service,
      namespace: 'hostile',
      uid: `${service}-1`,
      labels: { 'kubernetes.io/service-name': service },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: [REFUSED_ENDPOINT], conditions: { ready: true } }],
    ports: Array.from({ length: ports }, (_, index) => ({ name: `p${index}`, protocol: 'TCP', port: 8080 })),
  }
}

const [first = '', ...rest] = process.argv.slice(2)
if (first.startsWith('{'))
  await guest(JSON.parse(first) as Task) // written above
else process.exitCode = await host([first, ...rest].filter((argument) => argument !== ''))
if (first.startsWith('{')) process.exit(0)
