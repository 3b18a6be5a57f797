/**
 * The API server as a separate process with the objects of a bench:
 *   node dev/bench/api-server-main.ts --services N --endpoints M [--node NAME]
 * Prints one JSON line with its URLs when it is ready. The control port takes
 *   GET  /counts                 bytes that were sent to clients
 *   POST /endpoints?service=I    replaces one endpoint of Service I, and answers with its addresses
 *   POST /replace?percent=K      replaces every endpoint of K percent of the Services
 * and answers with `atNs`, CLOCK_MONOTONIC when the change began to be sent. Watches get the events of `/replace` together.
 * Both ports listen on loopback only and have no access control.
 */
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { endpointAddress, makeNode, makeService, makeSlice } from '../api-server/generate.ts'
import { ApiServer } from '../api-server/server.ts'
import { protobufOf } from '../api-server/wire.ts'

const { values } = parseArgs({
  options: {
    services: { type: 'string', default: '100' },
    endpoints: { type: 'string', default: '5' },
    node: { type: 'string', default: 'node0' },
  },
})
const services = Number(values.services)
const endpoints = Number(values.endpoints)

const server = new ApiServer()
const { store } = server
const nowNs = (): string => String(process.hrtime.bigint())
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
 * Replaces every endpoint of each Service that so many percent reach; the returned time is when watches get all events at once. They are
 * encoded before, and with pauses, because the measured program may share its processor with this server, which a real API server does not.
 * Meanwhile watches get no other events either.
 */
async function replacePercent(percent: number): Promise<string> {
  const ofGeneration = ++generation
  const step = Math.max(1, Math.round(100 / percent))
  server.hold()
  try {
    for (let service = 0; service < services; service += step) {
      putSlice(service, freshAddresses(service, endpoints, ofGeneration), ofGeneration)
      if ((service / step) % ENCODED_AT_ONCE === 0) await sleep(1)
    }
    return nowNs()
  } finally {
    server.release()
  }
}

store.put('nodes', makeNode(values.node))
for (let service = 0; service < services; service++) {
  store.put('services', makeService(service))
  putSlice(service, freshAddresses(service, endpoints))
}
store.compact()
// The first client is often the measured one, so all objects are encoded before.
for (const kind of ['nodes', 'services', 'endpointslices'] as const)
  for (const object of store.objects[kind].values()) protobufOf(object)
await server.listen()

// The bench's connection stays open between its requests, however long a phase takes.
const control = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
  const url = new URL(request.url ?? '/', 'http://control')
  const query = url.searchParams
  const atNs = nowNs()
  const reply = (status: number, body: object): void => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(`${JSON.stringify(body)}\n`)
  }
  try {
    switch (`${request.method} ${url.pathname}`) {
      case 'GET /counts':
        return reply(200, { bytesSent: server.bytesSent })
      case 'POST /endpoints':
        return reply(200, { atNs, addresses: changeEndpoint(Number(query.get('service'))) })
      case 'POST /replace':
        return reply(200, { atNs: await replacePercent(Number(query.get('percent'))) })
      default:
        return reply(404, { error: 'GET /counts, POST /endpoints, POST /replace' })
    }
  } catch (error) {
    return reply(400, { error: String(error) })
  }
})
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

await warmUp()
control.listen(0, '127.0.0.1', () => {
  const address = control.address()
  const controlPort = typeof address === 'object' && address !== null ? address.port : 0
  console.log(JSON.stringify({ url: server.url, control: `http://127.0.0.1:${controlPort}` }))
})
