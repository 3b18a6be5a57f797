/** What the program publishes on its channels of node:diagnostics_channel. */
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { it } from 'node:test'
import { virtualServerKey } from '../../src/ipvs/types.ts'
import type { BatchWritten } from '../../src/sync/channels.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { memoryVirtualServers } from '../support/memory-table.ts'
import { makeRealServer, makeVirtualServer } from '../support/virtual-servers.ts'

it('a pass publishes each batch that the kernel has answered, with the operations as commands', async () => {
  const table = memoryVirtualServers()
  const sync = new TableSync(table)
  const reconciler = new Reconciler([reconciled(sync)])
  const server = makeVirtualServer('10.96.0.1', [makeRealServer('10.244.0.5')])
  const pass = () => reconciler.pass({ signal: new AbortController().signal, now: () => 0, mayRemove: true })
  const messages: BatchWritten[] = []
  const listener = (message: unknown): void => void messages.push(message as BatchWritten) // its channel has no others
  subscribe('kube-ipvs:batch-written', listener)
  try {
    sync.want(virtualServerKey(server), server)
    await pass()
  } finally {
    unsubscribe('kube-ipvs:batch-written', listener)
  }
  sync.want(virtualServerKey(server), undefined)
  await pass()
  assert.equal(table.kernel.size, 0)
  assert.deepEqual(
    messages.map(({ table: name, operations, outcomes, text }) => [name, operations.map(text), outcomes]),
    [
      [
        'virtual-servers',
        ['ipvsadm -A -t 10.96.0.1:80 -s rr', 'ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.5:80 -m -w 1'],
        [undefined, undefined],
      ],
    ],
  )
})
