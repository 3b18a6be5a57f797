/**
 * The process of one run: it fills an API server with objects, starts clients in other processes,
 * and measures one phase after the other at the server. Arguments: the plan as JSON, and a folder,
 * which gets the result as `run.json`.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { endpointAddress, formatAddress, makeNode, makeService, makeSlice } from '../../api-server/generate.ts'
import { say } from '../../progress.mjs'
import { startClients } from './clients.ts'
import { type Figures, figuresOf } from './figures.ts'
import { kubeApiserver } from './kube-apiserver.ts'
import { KINDS, type Plan, type Run, runProblems } from './plan.ts'
import { testServer } from './test-server.ts'

const [, , planText = '', folder = ''] = process.argv
const plan = JSON.parse(planText) as Plan // written by api-load.ts
const { nodes, services, endpointsEach, steps, steadySeconds, outageSeconds, compactionSeconds } = plan
const DEADLINE_MS = 1_800_000
/** What is in flight at once in a rolling update: the server keeps it until the clients have read it. */
const IN_FLIGHT_BYTES = 100_000_000
const ENDPOINT_BYTES = 160
/** Less than this for each node within two seconds are bookmarks and answers to pings. */
const QUIET_BYTES = 2000

const server = plan.server === undefined ? testServer() : await kubeApiserver(plan.server, folder)
const names = Array.from({ length: nodes }, (_, index) => `node-${index}`)
const addressesOf = (service: number, replaced: number): string[] =>
  Array.from({ length: endpointsEach }, (_, endpoint) =>
    endpointAddress(service, endpoint, endpointsEach, endpoint < replaced ? 1 : 0),
  )
await Promise.race([fill(), server.ended])
/** Changes that every node has to get. */
let changes = 2 * services + 1 + server.ownObjects

const url = await server.open()
const startedMs = performance.now()
const clients = startClients(plan, names, { folder, url, ca: server.ca })
const phases: Record<string, Figures> = {}
try {
  await Promise.race([measure(), clients.ended, server.ended])
} finally {
  clients.stop()
  server.stop()
}

async function fill(): Promise<void> {
  for (const [index, name] of names.entries())
    await server.put('nodes', makeNode(name, formatAddress(0xac120002 + index)))
  for (let service = 0; service < services; service++) {
    await server.put('services', makeService(service))
    await server.put('endpointslices', makeSlice(service, addressesOf(service, 0)))
  }
  await server.forget()
}

async function measure(): Promise<void> {
  await phase('start', startedMs, allWatch)
  const watchesPerNode = (await server.watchCount()) / nodes
  const connectionsPerNode = server.connectionCount() / nodes
  if (steadySeconds > 0) await phase('steady', performance.now(), () => sleep(steadySeconds * 1000))
  await phase('rolling', performance.now(), roll)
  server.reset()
  await phase('cut', performance.now(), allWatch)
  if (outageSeconds > 0) await outage('outage', outageSeconds * 1000)
  await outage('expired', compactionSeconds * 1000, () => server.forget())
  if (server.refuseStreaming !== undefined) {
    server.refuseStreaming()
    await outage('expiredPaged', compactionSeconds * 1000, () => server.forget())
  }
  await delivered()
  const problems = runProblems({ plan, phases })
  const run: Run = { plan, phases, watchesPerNode, connectionsPerNode, problems }
  writeFileSync(join(folder, 'run.json'), JSON.stringify(run))
}

/** What happens from `startMs` until `work` has ended. */
async function phase(name: string, startMs: number, work: () => Promise<void>): Promise<void> {
  const bytesBefore = name === 'start' ? 0 : server.bytesSent()
  await work()
  const requests = (await server.requests()).filter(({ atMs }) => atMs >= startMs)
  const bytes = server.bytesSent() - bytesBefore
  phases[name] = figuresOf({ startMs, endMs: performance.now(), nodes, requests, bytes })
  say(`${name}: ${JSON.stringify(phases[name])}`)
}

/** The server is gone, one slice changes meanwhile, and the phase begins when the server is back. */
async function outage(name: string, milliseconds: number, meanwhile?: () => Promise<void>): Promise<void> {
  await server.close()
  await sleep(milliseconds)
  // A kube-apiserver writes nothing where nothing differs.
  await put(0, Object.keys(phases).length % 2)
  await meanwhile?.()
  await server.open()
  await phase(name, performance.now(), allWatch)
}

async function put(service: number, replaced: number): Promise<void> {
  await server.put('endpointslices', makeSlice(service, addressesOf(service, replaced)))
  changes++
}

/** Replaces all endpoints, a part of each slice after the other, at the speed at which clients read. */
async function roll(): Promise<void> {
  const batch = Math.max(1, Math.floor(IN_FLIGHT_BYTES / (endpointsEach * ENDPOINT_BYTES * nodes)))
  for (let step = 1; step <= steps; step++) {
    const replaced = Math.round((endpointsEach * step) / steps)
    for (let service = 0; service < services; service++) {
      await put(service, replaced)
      if ((service + 1) % batch === 0) await delivered()
    }
  }
  await delivered()
}

async function allWatch(): Promise<void> {
  await until(async () => (await server.watchCount()) === nodes * KINDS)
  await quiet(2000)
  await until(async () => (await server.watchCount()) === nodes * KINDS)
}

/** Waits until every node has every change, or where nobody counts until the server has nothing to send. */
async function delivered(): Promise<void> {
  const deadlineMs = performance.now() + DEADLINE_MS
  for (;;) {
    const arrived = await clients.changes()
    if (arrived === undefined) return quiet(500)
    if (arrived === changes * nodes) return
    if (arrived > changes * nodes || performance.now() > deadlineMs)
      throw new Error(`${arrived} changes have arrived, not ${changes * nodes}`)
    await sleep(50)
  }
}

/** Waits until nothing is sent but bookmarks, for a time. */
async function quiet(milliseconds: number): Promise<void> {
  const most = (QUIET_BYTES * nodes * milliseconds) / 2000
  for (let before = server.bytesSent(); ; ) {
    await sleep(milliseconds)
    const now = server.bytesSent()
    if (now - before <= most) return
    before = now
  }
}

async function until(isReached: () => Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + DEADLINE_MS
  while (!(await isReached())) {
    if (performance.now() > deadlineMs)
      throw new Error(`after ${DEADLINE_MS} ms ${await server.watchCount()} watches are open`)
    await sleep(100)
  }
}

process.exit()
