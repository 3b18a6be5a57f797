/**
 * Services of one tenant that would take all memory of a node, at the memory limit of the chart
 * (512Mi). A daemon in such a container gets a heap of 256 MiB from node, which it gets here too,
 * and its resident memory counts. The kernel's memory is charged to nobody. @alone
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { askDaemon, isUnknown } from '../../src/inspect/daemon-client.ts'
import type { RoomView } from '../../src/inspect/view.ts'
import { Workbench } from '../support/daemon.ts'
import { type Manifest, service, slice } from '../support/manifests.ts'
import { freshNode, virtualServers } from '../support/kernel-state.ts'
import { deadline, eventually, until } from '../support/deadline.ts'
import { rowsOfRun } from '../support/extent.ts'

const MIB = 2 ** 20
const POD_LIMIT = 512 * MIB
const HEAP_MIB = 256
/** What other tests use of the kernel meanwhile. */
const OF_OTHERS = 64 * MIB
/** Of a real server, with its share of the virtual server and its counters for each processor. */
const KERNEL_BYTES = 900 + 64 * cpus().length

const DEFAULT_LIMIT = 300_000
/**
 * The limit and the shape of the tenant's two Services. With the default they have the size of a
 * real attack, which takes minutes.
 */
const ROWS = rowsOfRun(
  [
    { limit: 9000, ports: 150, endpoints: 150, waitMs: 30_000 },
    { limit: DEFAULT_LIMIT, ports: 1000, endpoints: 1000, waitMs: 180_000 },
  ],
  ({ limit }) => limit !== DEFAULT_LIMIT,
)

let bench: Workbench
beforeEach(() => freshNode())
afterEach(() => bench.close())

/** A Service of a namespace with ports 1 to `ports`, and its slice. */
function pairOf(namespace: string, name: string, clusterIP: string, ports: number, endpoints: number): Manifest[] {
  const names = Array.from({ length: ports }, (_, index) => ({ name: `p${index}`, protocol: 'TCP', port: index + 1 }))
  const addresses = Array.from({ length: endpoints }, (_, index) => `10.1.${index >> 8}.${index & 255}`)
  const metadata = { namespace }
  return [
    service(name, { clusterIP, ports: names }, { metadata }),
    slice(name, addresses, {
      metadata: { namespace, name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
      ports: names.map((port) => ({ ...port, port: 8080 })),
    }),
  ]
}

/** Virtual servers and real servers of the kernel by virtual IP. */
function served(): ReadonlyMap<string, { readonly servers: number; readonly realServers: number }> {
  const all = new Map<string, { servers: number; realServers: number }>()
  for (const line of virtualServers()) {
    const [, isService, address = ''] = /^-(A|a) -t ([\d.]+):/.exec(line) ?? []
    const there = all.get(address) ?? { servers: 0, realServers: 0 }
    if (isService === 'A') there.servers++
    else there.realServers++
    all.set(address, there)
  }
  return all
}

/** What the daemon says of the room, and which problems it has. */
async function room(): Promise<RoomView & { readonly codes: readonly string[] }> {
  const view = await askDaemon(bench.socket).daemon()
  if (isUnknown(view)) throw new Error(view.reason)
  assert.ok(view.room)
  return { ...view.room, codes: view.problems.map(({ code }) => code) }
}

/** Memory that the kernel uses for itself. */
function kernelBytes(): number {
  const text = readFileSync('/proc/meminfo', 'utf8')
  return ['Slab', 'Percpu'].reduce(
    (sum, name) => sum + 1024 * Number(new RegExp(`^${name}: *(\\d+)`, 'm').exec(text)?.[1] ?? 0),
    0,
  )
}

/** The most that a process has had in memory. */
function peakOf({ pid }: ChildProcess): number {
  return 1024 * Number(/^VmHWM:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

for (const { limit, ports, endpoints, waitMs } of ROWS)
  describe(`the room of a node for ${limit} real servers`, () => {
    beforeEach(() => {
      const kubeIPVS = limit === DEFAULT_LIMIT ? {} : { maxRealServers: limit }
      bench = new Workbench({}, { kubeIPVS })
      bench.env = { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB} --max-semi-space-size=4` }
    })

    it('cuts the namespace that wants too much, serves all others, and bounds the memory of the daemon and of the kernel', {
      timeout: deadline(5 * waitMs),
    }, async () => {
      const before = kernelBytes()
      for (let index = 0; index < 10; index++)
        bench.write(`a${index}.json`, ...pairOf(`a${index}`, 'web', `10.96.1.${index}`, 2, 5))
      const daemon = bench.start()
      await until('the first Services are served', () => served().size === 10)
      for (const index of [1, 2])
        bench.write(`b${index}.json`, ...pairOf('hostile', `b${index}`, `10.96.2.${index}`, ports, endpoints))
      const isUsed = async (): Promise<boolean> => {
        const { used, leftOut } = await room()
        return used > (limit * 15) / 16 && leftOut.services === 2
      }
      await until('the room is used', isUsed, waitMs, 500)
      const full = await room()
      assert.ok(full.used <= limit && full.leftOut.services === 2, JSON.stringify(full))
      await until(
        'the kernel has it',
        () => bench.log.includes('no-room') && realServers() >= (limit * 7) / 8,
        waitMs,
        1000,
      )

      // Others are served beside it, also those that come later.
      for (let index = 10; index < 20; index++)
        bench.write(`a${index}.json`, ...pairOf(`a${index}`, 'web', `10.96.1.${index}`, 2, 5))
      await eventually(() => {
        const all = served()
        for (let index = 0; index < 20; index++)
          assert.deepEqual(all.get(`10.96.1.${index}`), { servers: 2, realServers: 10 }, `a${index}`)
      }, 30_000)
      // The older of the two by name has the room, with whole frontends.
      await eventually(() => {
        const hostile = served().get('10.96.2.1')
        assert.equal(hostile?.realServers, (hostile?.servers ?? 0) * endpoints)
      }, waitMs)
      assert.ok(realServers() <= limit, `${realServers()}`)
      assert.ok(peakOf(daemon) < POD_LIMIT, `the daemon had ${Math.round(peakOf(daemon) / MIB)} MiB`)
      const kernel = kernelBytes() - before
      assert.ok(kernel < limit * KERNEL_BYTES + OF_OTHERS, `the kernel took ${Math.round(kernel / MIB)} MiB`)

      // A restart decides the same and keeps what is served.
      await bench.stop(daemon)
      const again = bench.start()
      await eventually(async () => {
        const { leftOut, codes } = await room()
        assert.deepEqual([leftOut.services, codes.filter((code) => code === 'no-room').length], [2, 2])
      }, waitMs)
      assert.equal(served().get('10.96.1.19')?.realServers, 10)
      assert.ok(peakOf(again) < POD_LIMIT, `the daemon had ${Math.round(peakOf(again) / MIB)} MiB`)
      assert.equal(again.exitCode, null)
    })
  })

it('a Service that was left out is served when there is room, and everything is gone when it is deleted', async () => {
  // Few: for each new real server the kernel looks at all that were removed in the last two minutes.
  bench = new Workbench({}, { kubeIPVS: { maxRealServers: 1000 } })
  for (const index of [1, 2]) bench.write(`b${index}.json`, ...pairOf('demo', `b${index}`, `10.96.2.${index}`, 20, 40))
  bench.start()
  await eventually(() => assert.deepEqual(served().get('10.96.2.1'), { servers: 20, realServers: 800 }))
  await eventually(async () => assert.equal((await room()).leftOut.services, 1))
  bench.remove('b1.json')
  await eventually(() => assert.deepEqual(served().get('10.96.2.2'), { servers: 20, realServers: 800 }))
  // What nothing wants is removed after everything that is added.
  await eventually(() => assert.equal(served().get('10.96.2.1'), undefined))
  bench.remove('b2.json')
  await eventually(() => assert.equal(served().size, 0))
  const { used, leftOut } = await room()
  assert.deepEqual([used, leftOut], [0, { services: 0, frontends: 0 }])
})

const realServers = (): number => Array.from(served().values()).reduce((sum, one) => sum + one.realServers, 0)
