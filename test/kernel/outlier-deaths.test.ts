/**
 * How long after its death an endpoint gets its last new connection, on a kernel and its estimator:
 * endpoints of several Services die at different moments of the kernel's two seconds. All endpoints
 * answer with a reset, which costs the least: a connection that is not refused at once has gone to
 * the dead one, so the clients know exactly when it got its last.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../support/deadline.ts'
import { OUTLIER_ROW_VARIABLE, type OutlierFigures, type OutlierRow } from '../../dev/evidence/outliers/row.ts'
import { rowsOfRun } from '../support/extent.ts'
import { service, slice } from '../support/manifests.ts'
import { closeSocket, connectError, openSocket } from '../support/net-namespace.ts'
import type { Workbench } from '../support/daemon.ts'
import { run } from '../support/programs.ts'
import { OutlierNode } from '../support/outlier-node.ts'
import type { OutlierService } from '../support/outlier-service.ts'
import { needs } from './needs.ts'

/** The row that `npm run evidence -- --only outliers` asks for; undefined in a run of the tests. */
const ASKED = process.env[OUTLIER_ROW_VARIABLE]
const ROWS =
  ASKED === undefined
    ? rowsOfRun<OutlierRow>(
        [
          { perSecond: 20, services: 4, rounds: 1, impairedS: 10, others: 0 },
          { perSecond: 20, services: 8, rounds: 3, impairedS: 30, others: 0 },
          { perSecond: 5, services: 8, rounds: 1, impairedS: 10, others: 0 },
        ],
        ({ services }) => services === 4,
      )
    : [JSON.parse(ASKED) as OutlierRow] // written by dev/evidence/outliers.ts
/** Copies that say how many answers are usual take ten seconds; then the deaths, at different moments. */
const [USUAL_MS, APART_MS] = [11_000, 137]
/** Many virtual servers are listed in turns of 1.5 ms for each, which finds those with connections. */
const FOUND_MS_EACH = 1.5
/** Manifests of one file. */
const OTHERS_EACH = 400
const SOON_MS = 30_000
/** A reset arrives much sooner, and a client that waits repeats its first packet. */
const [REFUSED_MS, WAITS_MS] = [200, 2500]
const [FIRST_PORT, LAST_PORT] = [12_000, 59_000]

/** Clients of one Service. */
class Clients {
  readonly service: OutlierService
  readonly #address: string
  #port = FIRST_PORT
  #isOver = false
  connections = 0
  /** When the last client began that was not refused at once. */
  #lastMs = 0

  /** @param address of the node; a port of it is not for two of them */
  constructor(service: OutlierService, address: string) {
    this.service = service
    this.#address = address
  }

  async run(perSecond: number): Promise<void> {
    const beganMs = performance.now()
    for (let count = 0; !this.#isOver; count++) {
      this.#connect()
      await sleep(Math.max(1, beganMs + ((count + 1) * 1000) / perSecond - performance.now()))
    }
  }

  stop(): void {
    this.#isOver = true
  }

  /** Lets an endpoint die; resolves to the time of its last new connection after that, and it lives again. */
  async death(round: number): Promise<number> {
    const { service } = this
    const index = round % service.endpoints.length
    service.kill(service.endpoints[index])
    const diedMs = performance.now()
    await until('a suspect', async () => (await service.weights())[index] === 0, SOON_MS)
    await sleep(REFUSED_MS + 50)
    service.revive(service.endpoints[index])
    return Math.max(0, Math.round(this.#lastMs - diedMs))
  }

  #connect(): void {
    this.#port = this.#port === LAST_PORT ? FIRST_PORT : this.#port + 1
    const atMs = performance.now()
    this.connections++
    const fd = openSocket(
      undefined,
      { protocol: 'tcp', address: this.service.address, port: 80 },
      this.#address,
      this.#port,
    )
    if (typeof fd !== 'number') {
      assert.equal(fd, 'ECONNREFUSED')
      return
    }
    setTimeout(() => {
      if (connectError(fd) === undefined) this.#lastMs = Math.max(this.#lastMs, atMs)
      closeLater(fd, atMs + WAITS_MS)
    }, REFUSED_MS)
  }
}

/** Closes it when it is refused, at the latest then. */
function closeLater(fd: number, atMs: number): void {
  if (connectError(fd) !== undefined || performance.now() >= atMs) closeSocket(fd)
  else setTimeout(() => closeLater(fd, atMs), REFUSED_MS)
}

async function stop(clients: readonly Clients[], running: readonly Promise<void>[]): Promise<void> {
  for (const one of clients) one.stop()
  await Promise.all(running)
}

const at = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN

/** Services without endpoints that anybody has, and without clients. */
function writeOthers(bench: Workbench, count: number): void {
  for (let from = 0; from < count; from += OTHERS_EACH) {
    const numbers = Array.from({ length: Math.min(OTHERS_EACH, count - from) }, (_, index) => from + index)
    const manifests = numbers.flatMap((number) => {
      const [name, last] = [`other-${number}`, `${number >> 8}.${number & 255}`]
      const endpoints = [1, 2, 3, 4, 5].map((one) => `10.${20 + one}.${last}`)
      return [service(name, { clusterIP: `10.97.${last}` }), slice(name, endpoints)]
    })
    bench.write(`others-${from}.yaml`, ...manifests)
  }
}

for (const { perSecond, services, rounds, impairedS, others } of ROWS)
  describe(
    `deaths of ${services * rounds} endpoints with ${perSecond} connections a second`,
    needs('program:prlimit'),
    () => {
      let world: OutlierNode
      let all: readonly OutlierService[]
      before(async () => {
        // Each connection that is not refused at once is open for a while.
        run(['prlimit', '--pid', String(process.pid), '--nofile=65536:65536'])
        world = await OutlierNode.start({ kubeIPVS: { outlierDetection: true } })
        all = Array.from({ length: services }, (_, index) => world.add(`web-${index}`))
        for (const one of all) for (const endpoint of one.endpoints) one.stopListening(endpoint)
        writeOthers(world.bench, others)
        world.bench.start()
        await world.isServed(others)
      })
      after(() => world.stop())

      // How soon is told, and not asserted: on a machine with other work the counters are read later.
      it('each of them becomes a suspect, and lives again', async (t) => {
        const clients = all.map((one, index) => new Clients(one, `10.2.0.${100 + index}`))
        const running = clients.map((one) => one.run(4 * perSecond))
        const took: number[] = []
        await sleep(others * FOUND_MS_EACH)
        for (let round = 0; round < rounds; round++) {
          await sleep(USUAL_MS)
          await Promise.all(
            clients.map(async (one, index) => {
              await sleep(index * APART_MS + round * 61)
              took.push(await one.death(round))
            }),
          )
          for (const { service } of clients) await service.haveWeights([1, 1, 1, 1], 60_000)
        }
        await stop(clients, running)
        took.sort((a, b) => a - b)
        const [p50Ms, p90Ms, p99Ms, longestMs] = [0.5, 0.9, 0.99, 1].map((part) => at(took, part))
        t.diagnostic(JSON.stringify({ deaths: took.length, p50Ms, p90Ms, p99Ms, longestMs } as OutlierFigures))
        assert.ok((await world.suspicions()) >= services * rounds)
      })

      it(`no living one is a suspect in ${impairedS} s with 2 % loss and 300 ms delay in each direction`, async (t) => {
        const before = await world.suspicions()
        world.impair(300, 2)
        const clients = all.map((one, index) => new Clients(one, `10.2.0.${124 + index}`))
        const running = clients.map((one) => one.run(4 * perSecond))
        await sleep(others * FOUND_MS_EACH)
        await sleep(impairedS * 1000)
        await stop(clients, running)
        const connections = clients.reduce((sum, one) => sum + one.connections, 0)
        const suspicions = (await world.suspicions()) - before
        t.diagnostic(JSON.stringify({ connections, suspicions } satisfies OutlierFigures))
        assert.ok(connections > (services * perSecond * impairedS) / 2, String(connections))
        assert.equal(suspicions, 0)
      })
    },
  )
