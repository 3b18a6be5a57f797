/**
 * The work on a Service with many ports and endpoints, counted and not timed: endpoints count how
 * often they are read, and that is the clock. No turn reads much more than its stretch allows, and
 * all turns together read each endpoint a few times, whatever the number of ports.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Contribution, frontendsOf } from '../../src/service/contribution.ts'
import type { Frontend } from '../../src/service/frontends.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service, SliceEndpoint, SlicePort } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { Budget } from '../../src/values/budget.ts'
import { service } from '../support/objects.ts'

const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: {},
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}
const PORTS = 250
const SLICES = 20
const ENDPOINTS = 1000
/** Ports with all endpoints that the limit allows. */
const PORTS_IN_LIMIT = 50
/** How often an endpoint is read in a millisecond, on a fast machine. */
const READS_A_MS = 20_000
/** A stretch, and the longest step that cannot be divided: to select the endpoints of a port. */
const READS_A_TURN = 2 * READS_A_MS + 8 * SLICES * ENDPOINTS
/** 50 times the endpoints of each Service here. */
const LIMITS = { maxFrontends: 10_000, maxCost: () => PORTS_IN_LIMIT * SLICES * ENDPOINTS }

class Reads {
  count = 0
  #taken = 0
  readonly budget = new Budget({ now: () => this.count / READS_A_MS })

  /** The reads since the last call. */
  take(): number {
    const reads = this.count - this.#taken
    this.#taken = this.count
    return reads
  }
}

function countedEndpoint(reads: Reads, address: string, ready: boolean): SliceEndpoint {
  return {
    get address() {
      reads.count++
      return address
    },
    get ready() {
      reads.count++
      return ready
    },
    serving: ready,
    terminating: false,
    nodeName: 'node0',
  }
}

function serviceOf(change: Partial<Service> = {}): Service {
  const ports = Array.from({ length: PORTS }, (_, index) => ({
    name: `p${index}`,
    protocol: 'tcp' as const,
    port: index + 1,
    nodePort: 0,
  }))
  return service({ name: 'large', clusterIps: { IPv4: '10.96.9.9' }, ports, ...change })
}

/** @param portOf the target port of each port of the Service */
function slicesOf(reads: Reads, portOf: (index: number) => number, ready = true): readonly EndpointSlice[] {
  const ports = Array.from({ length: PORTS }, (_, index): SlicePort => {
    return { name: `p${index}`, protocol: 'tcp', port: portOf(index) }
  })
  return Array.from({ length: SLICES }, (_, number) => ({
    namespace: 'demo',
    name: `large-${number}`,
    serviceName: 'large',
    family: 'IPv4',
    triggeredAtMs: 0,
    ports,
    endpoints: Array.from({ length: ENDPOINTS }, (_, index) =>
      countedEndpoint(reads, `10.${number}.${index >> 8}.${(index * 7) & 255}`, ready),
    ),
  }))
}

interface Run {
  readonly frontends: readonly Frontend[]
  readonly contribution: Contribution
  /** Reads of endpoints between two turns, at most, and in all. */
  readonly longest: number
  readonly all: number
}

function runInTurns(service: Service, slices: readonly EndpointSlice[], reads: Reads): Run {
  const { budget } = reads
  const making = frontendsOf(service, slices, NODE, LIMITS, {
    owner: 'demo/large',
    budget,
    room: { allows: () => true },
  })
  const frontends: Frontend[] = []
  reads.take()
  budget.begin()
  let [longest, all, turn] = [0, 0, 0]
  for (;;) {
    const step = making.next()
    turn += reads.take()
    if (step.done === true || step.value === undefined) {
      longest = Math.max(longest, turn)
      all += turn
      turn = 0
      budget.begin()
    }
    if (step.done === true) return { frontends, contribution: step.value, longest, all }
    if (step.value !== undefined) frontends.push(step.value)
  }
}

describe('frontendsOf', () => {
  const rows: readonly (readonly [
    title: string,
    service: Partial<Service>,
    portOf: (index: number) => number,
    ready: boolean,
  ])[] = [
    ['one target port', {}, () => 8080, true],
    ['a target port each', {}, (index) => 8000 + index, true],
    ['endpoints of which none is ready', {}, (index) => 8000 + index, false],
    ['a health check port', { healthCheckNodePort: 32_000 }, () => 8080, true],
  ]
  for (const [title, change, portOf, ready] of rows)
    it(`gives way to others within a Service with ${PORTS} ports, ${SLICES * ENDPOINTS} endpoints and ${title}`, () => {
      const reads = new Reads()
      const slices = slicesOf(reads, portOf, ready)
      const { longest, all, contribution } = runInTurns(serviceOf(change), slices, reads)
      assert.ok(longest <= READS_A_TURN, `${longest} reads in one turn`)
      // The limit of real servers is 50 times the endpoints; each of these lists is made once.
      const lists = new Set(Array.from(contribution.frontends.values(), ({ servicePort }) => servicePort.candidates))
      const each = all / (SLICES * ENDPOINTS)
      assert.ok(each < 30 + 4 * lists.size, `each endpoint was read ${each} times for ${lists.size} lists`)
    })

  it('shares endpoints and selections between ports with the same slices and target port', () => {
    const reads = new Reads()
    const slices = slicesOf(reads, (index) => (index === 1 ? 9090 : 8080))
    const [first, second, third] = runInTurns(serviceOf(), slices, reads).frontends
    assert.equal(third?.servicePort.candidates, first?.servicePort.candidates)
    assert.equal(third?.selection, first?.selection)
    assert.notEqual(second?.servicePort.candidates, first?.servicePort.candidates)
    assert.deepEqual(
      second?.servicePort.candidates.map(({ address, port }) => [address, port - 1010]),
      first?.servicePort.candidates.map(({ address, port }) => [address, port]),
    )
  })

  it('counts entries that no frontend uses in the limit of a Service', () => {
    const reads = new Reads()
    const slices = slicesOf(reads, (index) => 8000 + index, false)
    const { frontends, contribution } = runInTurns(serviceOf(), slices, reads)
    assert.equal(frontends.length, 50)
    assert.match(contribution.problems[0]?.message ?? '', /^200 of 250 frontends are left out/)
  })
})

/** DesiredFrontends with the keys of each stretch. */
class Turns {
  readonly keys: string[] = []
  readonly desired: DesiredFrontends
  readonly #budget: Budget
  readonly #listener = { frontend: (key: string) => void this.keys.push(key), problems: () => undefined }

  constructor(budget: Budget) {
    this.#budget = budget
    this.desired = new DesiredFrontends(NODE, LIMITS, budget)
  }

  put(service: Service): void {
    this.desired.apply({ kind: 'services', key: `${service.namespace}/${service.name}`, value: service })
  }

  putSlices(slices: readonly EndpointSlice[]): void {
    for (const slice of slices) this.desired.apply({ kind: 'endpointslices', key: `demo/${slice.name}`, value: slice })
  }

  flush(): void {
    this.#budget.begin()
    this.desired.flush(this.#listener)
  }

  /** Works until nothing is left. Returns the keys of each turn. */
  finish(ended: () => void = () => undefined): readonly (readonly string[])[] {
    const turns: (readonly string[])[] = []
    const end = (): void => {
      turns.push(this.keys.splice(0))
      ended()
    }
    for (; this.desired.isDirty; end()) {
      this.flush()
      end()
      this.#budget.begin()
      this.desired.resume(this.#listener)
    }
    return turns
  }
}

describe('DesiredFrontends', () => {
  it('leaves a Service with many ports and endpoints after a bounded number of reads', () => {
    const reads = new Reads()
    const world = new Turns(reads.budget)
    world.put(serviceOf({ healthCheckNodePort: 32_000 }))
    world.putSlices(slicesOf(reads, () => 8080))
    reads.take()
    world.flush()
    let longest = reads.take()
    world.put(service({}))
    world.flush()
    assert.deepEqual(world.keys.splice(0), ['10.96.0.1:80/tcp'], 'another Service does not wait')
    const turns = world.finish(() => void (longest = Math.max(longest, reads.take())))
    assert.ok(longest <= READS_A_TURN, `${longest} reads in one turn`)
    assert.ok(turns.length > 50, `${turns.length} turns`)
    // Some room stays free for others.
    assert.equal(new Set(turns.flat()).size, 48, `${turns.flat().length}`)
  })

  it('counts what a frontend had, when it loses its endpoints and when its Service is deleted', () => {
    const reads = new Reads()
    const world = new Turns(reads.budget)
    world.put(serviceOf())
    world.putSlices(slicesOf(reads, () => 8080))
    const served = new Set(world.finish().flat())
    const most = (turns: readonly (readonly string[])[]): number => Math.max(...turns.map(({ length }) => length))
    world.putSlices(slicesOf(reads, () => 8080, false))
    const emptied = world.finish()
    // Those that had no frontend before have one without endpoints now.
    const servedBefore = emptied.map((keys) => keys.filter((key) => served.has(key)))
    assert.ok(most(servedBefore) <= 2, `${most(servedBefore)} frontends in one turn`)
    world.putSlices(slicesOf(reads, () => 8080))
    world.finish()
    world.desired.apply({ kind: 'services', key: 'demo/large', value: undefined })
    const removed = world.finish()
    assert.equal(removed.flat().length, 48)
    assert.ok(most(removed) <= 2, `${most(removed)} frontends in one turn`)
  })
})
