/**
 * What a watch keeps while it waits: for minutes nothing may arrive, and the list before it may
 * have had megabytes.
 * @alone The memory of the process is measured.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { makeService } from '../../../dev/api-server/generate.ts'
import { ApiServer } from '../../../dev/api-server/server.ts'
import { ApiClient } from '../../../src/watch/api/api-client.ts'

const SERVICES = 3000
const QUERY = { watch: 'true', sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void // --expose-gc makes it

/** In bytes, after what nobody holds any more is gone. */
async function bufferBytes(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return process.memoryUsage().arrayBuffers
}

for (const [contentType, compresses] of [
  ['application/vnd.kubernetes.protobuf', false],
  ['application/vnd.kubernetes.protobuf', true],
  ['application/json', false],
  ['application/json', true],
] as const)
  it(`a watch that waits keeps neither bytes nor events of its list (${contentType}${compresses ? ', gzip' : ''})`, async (t) => {
    const server = new ApiServer()
    server.compresses = compresses
    const url = await server.listen()
    for (let index = 0; index < SERVICES; index++) server.store.put('services', makeService(index))
    const access = { access: async () => ({ server: url, headers: {}, tls: {} }), invalidate: () => {} }
    const client = new ApiClient({ access, userAgent: 'test', contentType, acceptContentTypes: '' })
    t.after(async () => {
      await client.close()
      await server.close()
    })
    /** Reads the list, and waits for more. Resolves to references to some of its events. */
    const waiting = async (): Promise<WeakRef<object>[]> => {
      const signal = AbortSignal.timeout(60_000)
      const events = client.watch('/api/v1/services', QUERY, { signal, inactivityMs: () => 60_000 })
      const seen: WeakRef<object>[] = []
      let count = 0
      // The bookmark is the last one.
      while (count < SERVICES + 1) {
        const { value = [] } = await events.next()
        count += value.length
        if (typeof value[0] === 'object' && value[0] !== null) seen.push(new WeakRef(value[0]))
      }
      // Rejects at the end of the test.
      events.next().catch(() => undefined)
      return seen
    }
    await waiting() // what the server and the client keep in any case
    const before = await bufferBytes()
    const seen = await waiting()
    const kept = (await bufferBytes()) - before
    assert.ok(seen.length > 3, `${seen.length} portions`)
    assert.equal(seen.filter((one) => one.deref() !== undefined).length, 0)
    assert.ok(kept < 150_000, `${kept} bytes`)
  })
