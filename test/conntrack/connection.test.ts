/** ConntrackConnection with a simulated kernel, for what a real one cannot be made to do. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ConntrackConnection } from '../../src/conntrack/connection.ts'
import type { Flow } from '../../src/conntrack/types.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { doneMessage, errorMessage, FakeTransport, hex, message, type Reply, requests } from '../netlink/wire.ts'
import { flowOf } from './flows.ts'
import { dumpedFlow } from './dumped-flow.ts'

const LIST = 0x101
const DELETE = 0x102
const STATISTICS = 0x105
const NLM_F_DUMP_INTR = 0x10
const signal = new AbortController().signal

const TO = '10.96.0.10:53'
const flow = (id: number, to = TO): Flow => flowOf(to, '10.244.0.53:53', { id })

/**
 * `dumps`: the flows of each dump in turn. `refuse`: errno for the deletion of that number in its
 * datagram; 0 is none.
 */
function kernel(dumps: readonly (readonly Uint8Array[])[], refuse: (index: number) => number = () => 0): FakeTransport {
  let dump = 0
  return new FakeTransport((datagram): Reply[] =>
    requests(datagram).flatMap(({ type, flags, sequence }, index): Reply[] => {
      if (type === STATISTICS) return [message(STATISTICS, 0, sequence, hex('00000000 08000100 00000009'))]
      if (type === LIST) {
        const messages = (dumps[dump++] ?? []).map((bytes) => {
          const copy = bytes.slice()
          new DataView(copy.buffer).setUint32(8, sequence, true)
          return copy
        })
        return [...messages, doneMessage(0, sequence)]
      }
      assert.equal(type, DELETE)
      const errno = refuse(index)
      if (errno !== 0) return [errorMessage(errno, sequence)]
      return (flags & 4) === 0 ? [] : [errorMessage(0, sequence)]
    }),
  )
}

const open = (transport: FakeTransport): Promise<ConntrackConnection> =>
  ConntrackConnection.open(new NetlinkConnection(transport, { timeoutMs: 200 }))

const refusing = (errno: number): FakeTransport =>
  new FakeTransport((datagram) => requests(datagram).map(({ sequence }) => errorMessage(errno, sequence)))

describe('ConntrackConnection', () => {
  it('open rejects with the name of the module on a kernel without ctnetlink, and closes the connection', async () => {
    const transport = refusing(22)
    await assert.rejects(open(transport), { code: 'conntrack-missing', message: /modprobe nf_conntrack_netlink/ })
    assert.equal(transport.closed, true)
  })

  it('open rejects with any other refusal unchanged', async () => {
    const transport = refusing(1)
    await assert.rejects(open(transport), { code: 'EPERM' })
    assert.equal(transport.closed, true)
  })

  it('tableSize accepts a kernel that does not send the limit', async () => {
    assert.deepEqual(await (await open(kernel([]))).tableSize(), { flows: 9, limit: undefined })
  })

  it('findFlows filters the flows itself if the kernel has no filters', async () => {
    const others = [{ ...flow(2), protocol: 'tcp' as const }, flow(3, '10.96.0.10:54'), flow(4, '10.96.0.11:53')]
    const conntrack = await open(kernel([[...others, flow(1), flow(5)].map((one) => dumpedFlow(one))]))
    const filter = { family: 'IPv4', protocol: 'udp', destination: '10.96.0.10', destinationPort: 53 } as const
    assert.deepEqual(await conntrack.findFlows(filter, ({ id }) => id !== 5, { limit: 10 }), [flow(1)])
  })

  it('findFlows returns no more flows than its limit, even if the dump starts again', async () => {
    const first = [dumpedFlow(flow(1)), dumpedFlow(flow(2), 1, NLM_F_DUMP_INTR)]
    const conntrack = await open(kernel([first, [3, 4, 5].map((id) => dumpedFlow(flow(id)))]))
    const found = await conntrack.findFlows({ family: 'IPv4', protocol: 'udp' }, () => true, { limit: 2 })
    assert.deepEqual(found, [flow(3), flow(4)])
  })

  it('findFlows rejects a malformed reply', async () => {
    const conntrack = await open(kernel([[dumpedFlow(flow(1)).slice(0, 100)]]))
    await assert.rejects(
      conntrack.findFlows({ family: 'IPv4', protocol: 'udp' }, () => true, { limit: 2 }),
      {
        code: 'netlink-malformed',
      },
    )
  })

  it('deleteFlows treats a flow that no longer exists as success, and counts failures', async () => {
    const conntrack = await open(kernel([], (index) => [0, 2, 1, 0, 16][index] ?? 0))
    const { deleted, vanished, failed, error } = await conntrack.deleteFlows(
      [1, 2, 3, 4, 5].map((id) => flow(id)),
      signal,
    )
    assert.deepEqual([deleted, vanished, failed], [2, 1, 2])
    assert.match(error?.message ?? '', /^IPCTNL_MSG_CT_DELETE: EPERM/)
  })

  it('deleteFlows sends many deletions in a datagram, and nothing for no flows', async () => {
    const transport = kernel([])
    const conntrack = await open(transport)
    const flows = Array.from({ length: 450 }, (_, index) => flow(index + 1))
    assert.equal((await conntrack.deleteFlows(flows, signal)).deleted, 450)
    assert.ok(transport.sent.length < 20, `${transport.sent.length} datagrams`)
    const before = transport.sent.length
    await conntrack.deleteFlows([], signal)
    assert.equal(transport.sent.length, before)
  })

  it('deleteFlows rejects only when aborted', async () => {
    const conntrack = await open(kernel([]))
    await assert.rejects(conntrack.deleteFlows([flow(1)], AbortSignal.abort(new Error('stop'))), /stop/)
    conntrack.close()
    const { failed, error } = await conntrack.deleteFlows([flow(1)], signal)
    assert.deepEqual(
      [failed, error instanceof Error && 'code' in error ? error.code : undefined],
      [1, 'netlink-closed'],
    )
  })
})
