/**
 * The part of `npm run bench -- --hostile` that runs in the guest: the API server with the hostile
 * objects, the program, and the observer of its table. Prints one line of JSON.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { clusterIpOf, endpointAddress, makeNode, makeService, makeSlice } from '../api-server/generate.ts'
import { ApiServer } from '../api-server/server.ts'
import type { Json } from '../api-server/store.ts'
import { addNodeAddress, commandOf, NODE_NAME, writeConfiguration } from './guest-node.ts'
import type { HostileTask } from './hostile.ts'
import { IpvsTable } from './ipvs-table.ts'
import { MeasuredProgram } from './measured-program.ts'
import { percentile, rounded } from './statistics.ts'
import { monotonicMs } from './table-view.ts'

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

interface Phase {
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly maxMs: number | null
  readonly eventLoopMaxMs: number | null
  readonly cpuPercent: number
}

async function main(task: HostileTask): Promise<void> {
  addNodeAddress()
  const folder = mkdtempSync('/run/kube-ipvs-hostile-')
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
  const paths = writeConfiguration(folder, 'ipvs', server.url)
  const command = commandOf({ program: 'kube-ipvs', command: task.entry }, paths, true)
  const program = new MeasuredProgram({
    command: [...(pin ? ['taskset', '-c', '1'] : []), ...command],
    logFile: join(folder, 'program.log'),
    readings: join(folder, 'readings'),
  })
  try {
    const world = new World(server, kernel, program, task)
    await world.settled(task.services)
    const alone = await world.phase()
    for (const [kind, object] of hostileObjects()) server.store.put(kind, object)
    // Each Service is limited to 10,000 frontends, and one of those that claim the same addresses gets all of them.
    const total = await world.settled(task.services + 3 * 10_000 - 100)
    process.stderr.write(`  ${total} virtual servers, ${rounded(program.memory().rssMiB, 0)} MiB\n`)
    const beside = await world.phase()
    const flapping = await world.phase((turn) => server.store.put('services', productService(turn)))
    const logLines = readFileSync(join(folder, 'program.log'), 'utf8').split('\n').length
    const result = { services: task.services, virtualServers: total, alone, beside, flapping, logLines }
    process.stdout.write(`${JSON.stringify(result)}\n`)
  } catch (error) {
    process.stderr.write(`${program.logTail}\n`)
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
  readonly #task: HostileTask
  #generation = 0

  constructor(server: ApiServer, kernel: IpvsTable, program: MeasuredProgram, task: HostileTask) {
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
    await this.#program.watchEventLoop()
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
    const eventLoopMaxMs = await this.#program.watchEventLoop()
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

await main(JSON.parse(process.argv[2] ?? '') as HostileTask) // written by hostile.ts
process.exit(0)
