/**
 * The API server in a process of its own, with the objects of a bench: `api-server-process.ts`
 * forks it, and sends one `Question` after the other. The first answer, without a question, is its
 * URL. It listens on loopback only and has no access control.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { endpointAddress, makeNode, makeService, makeSlice } from '../api-server/generate.ts'
import { ApiServer } from '../api-server/server.ts'
import { protobufOf } from '../api-server/wire.ts'

/** What the server is made with, as one argument of JSON. */
export interface Objects {
  readonly services: number
  readonly endpoints: number
  readonly node: string
}

/**
 * `change`: replaces one endpoint of a Service. `burst`: replaces every endpoint of so many percent
 * of the Services.
 */
export type Question = { readonly change: number } | { readonly burst: number } | 'bytes'

export interface Answer {
  readonly url?: string
  /** CLOCK_MONOTONIC when a change began to be sent, in milliseconds. */
  readonly atMs?: number
  /** Of the changed Service. */
  readonly addresses?: readonly string[]
  /** Sent to clients so far. */
  readonly bytes?: number
  readonly error?: string
}

const { services, endpoints, node } = JSON.parse(process.argv[2] ?? '') as Objects // written by api-server-process.ts
const server = new ApiServer()
const { store } = server
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6
/** Addresses of each Service's endpoints as they are now. */
const addresses: string[][] = []
let generation = 0

function freshAddresses(service: number, count: number, ofGeneration = generation): string[] {
  return Array.from({ length: count }, (_, endpoint) => endpointAddress(service, endpoint, endpoints, ofGeneration))
}

function putSlice(service: number, now: string[], ofGeneration = generation): void {
  addresses[service] = now
  store.put('endpointslices', makeSlice(service, now, ofGeneration + 1))
}

/** Returns the addresses after it. */
function changeEndpoint(service: number): readonly string[] {
  generation++
  const before = addresses[service]
  if (before === undefined) throw new Error(`there is no Service ${service}`)
  const now = [...before]
  const slot = generation % now.length
  now[slot] = endpointAddress(service, slot, endpoints, generation)
  putSlice(service, now)
  return now
}

/** Services whose events are encoded before other work gets the processor: about a millisecond. */
const ENCODED_AT_ONCE = 25

/**
 * Replaces every endpoint of each Service that so many percent reach; the returned time is when
 * watches get all events at once. They are encoded before, and with pauses, because the measured
 * program may share its processor with this server, which a real API server does not. Meanwhile
 * watches get no other events either.
 */
async function replacePercent(percent: number): Promise<number> {
  const ofGeneration = ++generation
  const step = Math.max(1, Math.round(100 / percent))
  server.hold()
  try {
    for (let service = 0; service < services; service += step) {
      putSlice(service, freshAddresses(service, endpoints, ofGeneration), ofGeneration)
      if ((service / step) % ENCODED_AT_ONCE === 0) await sleep(1)
    }
    return nowMs()
  } finally {
    server.release()
  }
}

async function answerTo(question: Question): Promise<Answer> {
  if (question === 'bytes') return { bytes: server.bytesSent }
  if ('burst' in question) return { atMs: await replacePercent(question.burst) }
  const atMs = nowMs()
  return { atMs, addresses: changeEndpoint(question.change) }
}

/** Requests each list once: the first answer is slow, and the measurement is about the client. */
async function warmUp(): Promise<void> {
  for (const path of ['/api/v1/nodes', '/api/v1/services', '/apis/discovery.k8s.io/v1/endpointslices'])
    for (const accept of ['application/vnd.kubernetes.protobuf', 'application/json']) {
      const query = 'watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true'
      const response = await fetch(`${server.url}${path}?${query}&timeoutSeconds=1`, { headers: { accept } })
      for await (const chunk of response.body ?? []) if (Buffer.from(chunk).includes('initial-events-end')) break
    }
  server.requests.length = 0
}

store.put('nodes', makeNode(node))
for (let service = 0; service < services; service++) {
  store.put('services', makeService(service))
  putSlice(service, freshAddresses(service, endpoints))
}
store.compact()
// The first client is often the measured one, so all objects are encoded before.
for (const kind of ['nodes', 'services', 'endpointslices'] as const)
  for (const object of store.objects[kind].values()) protobufOf(object)
await server.listen()
await warmUp()
process.on('message', async (question: Question) =>
  process.send?.(await answerTo(question).catch((error: unknown) => ({ error: String(error) }))),
)
process.once('disconnect', () => process.exit())
process.send?.({ url: server.url } satisfies Answer)
