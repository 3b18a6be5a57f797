/** Events that the API server of tests and bench holds back. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { after, before, it } from 'node:test'
import { makeSlice, serviceName } from '../../dev/api-server/generate.ts'
import { ApiServer } from '../../dev/api-server/server.ts'
import { until } from '../support/deadline.ts'

const SLICES = '/apis/discovery.k8s.io/v1/endpointslices'
const nameOf = (service: number): string => `${serviceName(service)}-x7k2p`

let server: ApiServer
before(async () => {
  server = new ApiServer({ bookmarkMs: 10 })
  await server.listen()
})
after(() => server.close())

it('held events come to a watch at once when they are released, in order, and no bookmark comes before them', async () => {
  const query = 'watch=true&allowWatchBookmarks=true&resourceVersion=0'
  const response = await fetch(`${server.url}${SLICES}?${query}`, { headers: { accept: 'application/json' } })
  const { body } = response
  assert.ok(body !== null)
  let text = ''
  const chunks: string[] = []
  const reading = (async () => {
    for await (const bytes of body) {
      const chunk = Buffer.from(bytes).toString()
      chunks.push(chunk)
      text += chunk
    }
  })()
  await until('a bookmark', () => text.includes('BOOKMARK'))
  server.hold()
  for (const service of [1, 2, 3]) server.store.put('endpointslices', makeSlice(service, ['10.0.0.1'], 1))
  // Answers on another connection: time in which a bookmark or an event would come.
  for (let request = 0; request < 10; request++) await (await fetch(`${server.url}${SLICES}`)).text()
  assert.doesNotMatch(text, /ADDED/)
  server.release()
  await until('the events', () => text.includes(nameOf(3)))
  assert.equal(chunks.filter((chunk) => chunk.includes('ADDED')).length, 1)
  const lines = text.split('\n').filter((line) => line.endsWith('}'))
  const first = lines.findIndex((line) => line.includes('ADDED'))
  for (const [index, service] of [1, 2, 3].entries())
    assert.match(lines[first + index] ?? '', new RegExp(nameOf(service)))
  const versions = lines.slice(0, first + 1).map((line) => Number(/"resourceVersion":"(\d+)"/.exec(line)?.[1]))
  assert.ok(
    versions.slice(0, -1).every((version) => version < (versions.at(-1) ?? 0)),
    `${versions}`,
  )
  server.endWatches()
  await reading
})

it('a watch that gets its first objects while events are held gets those events when they are released', async () => {
  // More than the sockets keep, so the first objects are under way until the client reads.
  const endpoints = Array.from({ length: 100 }, (_, index) => `10.0.0.${index}`)
  for (let service = 100; service < 2_600; service++)
    server.store.put('endpointslices', makeSlice(service, endpoints, 1))
  const request = get(`${server.url}${SLICES}?watch=true&resourceVersion=0`, {
    headers: { accept: 'application/json' },
  })
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  server.hold()
  server.store.put('endpointslices', makeSlice(4, ['10.0.0.1'], 1))
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  await until('the objects that were there', () => text.includes(nameOf(2_599)), 20_000)
  for (let again = 0; again < 10; again++) await (await fetch(`${server.url}${SLICES}?limit=1`)).text()
  assert.doesNotMatch(text, new RegExp(nameOf(4)))
  server.release()
  await until('the event', () => text.includes(nameOf(4)))
  server.endWatches()
  await once(response, 'end')
})
