/** The sums over the counters of virtual servers, also when the kernel resets or repeats counters. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ServiceTraffic, type ServiceTrafficOptions } from '../../src/metrics/service-traffic.ts'

class Bench {
  nowMs = 0
  reads = 0
  failing = false
  /** Counters by virtual server. */
  readonly kernel = new Map<string, readonly number[]>()
  /** `namespace/name` by virtual server. */
  readonly owners = new Map<string, string>()
  readonly traffic: ServiceTraffic

  constructor(options: Partial<ServiceTrafficOptions> = {}) {
    this.traffic = new ServiceTraffic({
      limit: 2,
      read: async (visit) => {
        this.reads++
        if (this.failing) throw new Error('the kernel cannot be read')
        const buffer = new Float64Array(5)
        for (const [key, counters] of this.kernel) {
          buffer.set(counters)
          visit(key, buffer)
        }
      },
      ownerOf: (key) => {
        const [namespace, name] = this.owners.get(key)?.split('/') ?? []
        return namespace === undefined || name === undefined ? undefined : { namespace, name }
      },
      now: () => this.nowMs,
      ...options,
    })
  }

  set(key: string, owner: string, ...counters: number[]): void {
    this.owners.set(key, owner)
    this.kernel.set(key, [...counters, 0, 0, 0, 0, 0].slice(0, 5))
  }

  /** Totals after another read. */
  async read(): Promise<Record<string, number[]>> {
    this.nowMs += 3_600_000
    await this.traffic.refresh()
    return Object.fromEntries(
      Array.from(this.traffic.totals, ({ namespace, name, counters }) => [`${namespace}/${name}`, [...counters]]),
    )
  }
}

describe('ServiceTraffic', () => {
  it('sums up the virtual servers of a Service', async () => {
    const bench = new Bench()
    bench.set('10.96.0.1:80/tcp', 'demo/web', 1, 2, 3, 4, 5)
    bench.set('10.0.0.1:30080/tcp', 'demo/web', 10, 20, 30, 40, 50)
    bench.set('10.0.0.1:9999/tcp', '', 100)
    assert.deepEqual(await bench.read(), { 'demo/web': [11, 22, 33, 44, 55] })
  })

  it('never decreases when a virtual server is replaced, reset or removed', async () => {
    const bench = new Bench()
    bench.set('a', 'demo/web', 100, 100, 100, 100, 100)
    bench.set('b', 'demo/web', 7)
    await bench.read()
    bench.set('a', 'demo/web', 5, 5, 5, 5, 5)
    assert.deepEqual((await bench.read())['demo/web'], [112, 105, 105, 105, 105])
    bench.kernel.delete('b')
    bench.owners.delete('b')
    bench.set('a', 'demo/web', 6, 7, 8, 9, 10)
    assert.deepEqual((await bench.read())['demo/web'], [113, 107, 108, 109, 110])
  })

  it('accepts that a list misses a virtual server', async () => {
    const bench = new Bench()
    bench.set('a', 'demo/web', 5)
    await bench.read()
    bench.kernel.delete('a')
    assert.equal((await bench.read())['demo/web']?.[0], 5)
    bench.set('a', 'demo/web', 6)
    assert.equal((await bench.read())['demo/web']?.[0], 6)
  })

  it('lists Services up to the limit, keeps the listed ones, and counts the others', async () => {
    const bench = new Bench()
    bench.set('a', 'demo/a', 1)
    bench.set('b', 'demo/b', 1)
    bench.set('c', 'demo/c', 100)
    bench.set('d', 'demo/d', 1)
    assert.deepEqual(Object.keys(await bench.read()), ['demo/a', 'demo/b'])
    assert.equal(bench.traffic.leftOut, 2)
    bench.kernel.delete('a')
    bench.owners.delete('a')
    await bench.read()
    assert.deepEqual(Object.keys(await bench.read()), ['demo/b', 'demo/c'])
    assert.equal(bench.traffic.leftOut, 1)
  })

  it('does not read the kernel with limit 0', async () => {
    const bench = new Bench({ limit: 0 })
    bench.set('a', 'demo/a', 1)
    assert.deepEqual(await bench.read(), {})
    assert.equal(bench.reads, 0)
  })

  it('reads the kernel less often if a read takes long', async () => {
    const bench = new Bench()
    const { kernel } = bench
    bench.set('a', 'demo/a', 1)
    await bench.traffic.refresh()
    await bench.traffic.refresh()
    assert.equal(bench.reads, 1)
    bench.nowMs = 5000
    await bench.traffic.refresh()
    assert.equal(bench.reads, 2)
    const slow = new Bench({
      read: async (visit) => {
        slow.reads++
        slow.nowMs += 1000
        for (const [key] of kernel) visit(key, new Float64Array(5))
      },
    })
    await slow.traffic.refresh()
    slow.nowMs += 199_000
    await slow.traffic.refresh()
    assert.equal(slow.reads, 1)
    slow.nowMs += 1000
    await slow.traffic.refresh()
    assert.equal(slow.reads, 2)
  })

  it('keeps its values when the kernel cannot be read', async () => {
    const bench = new Bench()
    bench.set('a', 'demo/a', 3)
    await bench.read()
    bench.failing = true
    assert.deepEqual(await bench.read(), { 'demo/a': [3, 0, 0, 0, 0] })
    assert.equal(bench.traffic.failures, 1)
  })
})
