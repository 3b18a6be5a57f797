/** How many messages the table of virtual servers puts into one datagram, with a clock and a kernel in memory. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { IpvsBatch } from '../../src/ipvs/connection.ts'
import { VirtualServerTable } from '../../src/ipvs/table.ts'
import type { VirtualServerFields, VirtualServerOperation } from '../../src/ipvs/types.ts'

const signal = new AbortController().signal
const server = {
  family: 'IPv4',
  address: '10.96.0.1',
  port: 80,
  protocol: 'tcp',
  scheduler: 'rr',
} as VirtualServerFields
const realServer = (index: number) => ({ address: `10.244.0.${index}`, port: 8080, weight: 1 })
const operations = (kind: 'add-real-server' | 'delete-real-server', count: number): VirtualServerOperation[] =>
  Array.from(
    { length: count },
    (_, index) => ({ kind, server, realServer: realServer(index) }) as VirtualServerOperation,
  )

it('datagrams of additions stay short while additions are slow, whatever removals take', async (t) => {
  let nowMs = 0
  t.mock.method(performance, 'now', () => nowMs)
  const sent: { readonly adds: number; readonly deletes: number }[] = []
  let adds = 0
  let deletes = 0
  const batch: Pick<IpvsBatch, 'addDestination' | 'deleteDestination' | 'commit'> = {
    addDestination: () => void adds++,
    deleteDestination: () => void deletes++,
    commit: async () => {
      // As with 10,000 real servers that were deleted shortly before.
      nowMs += adds * 0.2 + deletes * 0.01
      sent.push({ adds, deletes })
      const outcomes = new Array(adds + deletes).fill(undefined)
      adds = deletes = 0
      return outcomes
    },
  }
  const table = new VirtualServerTable(
    { batch: () => batch as IpvsBatch } as unknown as ConstructorParameters<typeof VirtualServerTable>[0],
    [],
  )
  for (let pass = 0; pass < 4; pass++) {
    await table.apply(operations('add-real-server', 100), signal)
    await table.apply(operations('delete-real-server', 100), signal)
  }
  const [, ...later] = sent.filter((one) => one.adds > 0).map((one) => one.adds)
  assert.ok(Math.max(...later) <= 20, `${later}`)
  assert.equal(Math.max(...sent.map((one) => one.deletes)), 100)
})
