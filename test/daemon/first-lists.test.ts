import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FirstLists, listOnce } from '../../src/daemon/first-lists.ts'

test('listOnce resolves with the last list and reports no wait that is too short to notice', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const lists = new FirstLists()
  const waits: unknown[] = []
  const listed = listOnce(lists, 30_000, (awaited) => waits.push(awaited))
  for (const kind of ['nodes', 'endpointslices', 'services'] as const) lists.listed(kind)
  await listed
  t.mock.timers.tick(30_000)
  assert.deepEqual(waits, [])
})

test('listOnce reports what is missing after half a second, and rejects at the deadline', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const lists = new FirstLists()
  const waits: unknown[] = []
  const listed = listOnce(lists, 30_000, (awaited) => waits.push(awaited))
  lists.listed('endpointslices')
  t.mock.timers.tick(500)
  assert.deepEqual(waits, [['services', 'nodes']])
  lists.listed('nodes')
  t.mock.timers.tick(29_500)
  await assert.rejects(listed, { code: 'source-timeout', message: 'no complete list of services within 30 s' })
  assert.equal(waits.length, 1)
})
