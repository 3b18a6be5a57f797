/** A whole table read over a connection, from a kernel that interrupts, loses or cuts what it sends. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { netlinkError } from '../../src/netlink/errors.ts'
import { oneByOne } from '../support/budgets.ts'
import { batchOf, overrun, readByte, row } from './one-byte-messages.ts'
import { doneMessage, errorMessage, FakeTransport, hex, join, message, type Reply, requests } from './wire.ts'

/** Long enough for a busy machine, short enough for the tests that wait for it. */
const timeoutMs = 300

describe('NetlinkConnection.dump', () => {
  /** Each sent datagram is answered with the next list of replies. */
  function dumping(...rounds: ((sequence: number) => Reply[])[]): {
    connection: NetlinkConnection
    transport: FakeTransport
  } {
    let round = 0
    const transport = new FakeTransport(
      (datagram) => rounds[Math.min(round++, rounds.length - 1)]?.(requests(datagram)[0]?.sequence ?? 0) ?? [],
    )
    return { connection: new NetlinkConnection(transport, { timeoutMs }), transport }
  }
  const good = (s: number): Reply[] => [join(row(s, 1), row(s, 2)), row(s, 3), doneMessage(0, s)]

  it('collects what decode returns, without undefined', async () => {
    const { connection } = dumping(good)
    assert.deepEqual(
      await connection.dump(batchOf(1), (each) => (readByte(each) === 2 ? undefined : readByte(each))),
      [1, 3],
    )
  })

  it('collects parts that arrive later', async () => {
    const { connection, transport } = dumping((s) => [row(s, 1), undefined])
    const pending = connection.dump(batchOf(1), readByte)
    await new Promise((resolve) => setImmediate(resolve))
    const sequence = requests(transport.sent[0] ?? hex(''))[0]?.sequence ?? 0
    transport.deliver(row(sequence, 2), doneMessage(0, sequence))
    assert.deepEqual(await pending, [1, 2])
  })

  const interruptions: readonly (readonly [string, (s: number) => Reply[]])[] = [
    ['NLM_F_DUMP_INTR on a part', (s) => [row(s, 9, 0x12), row(s, 9), doneMessage(0, s)]],
    ['NLM_F_DUMP_INTR on the end', (s) => [row(s, 9), doneMessage(0, s, 0x12)]],
    ['EINTR at the end', (s) => [row(s, 9), doneMessage(4, s)]],
    ['EINTR as an answer', (s) => [errorMessage(4, s)]],
    ['EBUSY of a dump that still runs', (s) => [errorMessage(16, s), row(s - 1, 9), doneMessage(0, s - 1)]],
    ['an overrun', (s) => [row(s, 9), overrun(), row(s, 9)]],
    ['a truncated part', (s) => [row(s, 9), netlinkError('netlink-truncated', 'cut'), row(s, 9)]],
  ]
  for (const [name, replies] of interruptions)
    it(`starts again after ${name}, without anything from the first attempt`, async () => {
      const { connection, transport } = dumping(replies, replies, good)
      let restarts = 0
      assert.deepEqual(await connection.dump(batchOf(1), readByte, { onRestart: () => restarts++ }), [1, 2, 3])
      assert.equal(restarts, 2)
      assert.equal(transport.sent.length, 3)
    })

  const endless: readonly (readonly [string, (s: number) => Reply[], string])[] = [
    ['NLM_F_DUMP_INTR', (s) => [row(s, 1, 0x12), doneMessage(0, s)], 'netlink-dump-interrupted'],
    ['EBUSY', (s) => [errorMessage(16, s)], 'EBUSY'],
    ['overruns', () => [overrun()], 'netlink-overrun'],
  ]
  for (const [name, replies, code] of endless)
    it(`rejects with ${code} after 10 attempts with ${name}`, async () => {
      const { connection, transport } = dumping(replies)
      await assert.rejects(connection.dump(batchOf(1), readByte), { code })
      assert.equal(transport.sent.length, 10)
    })

  const failures: readonly (readonly [string, (s: number) => Reply[], string])[] = [
    ['EPERM', (s) => [errorMessage(1, s)], 'EPERM'],
    ['an error at the end', (s) => [row(s, 1), doneMessage(12, s)], 'ENOMEM'],
    ['a part cut short', (s) => [row(s, 1).subarray(0, 15)], 'netlink-malformed'],
    ['no end', (s) => [row(s, 1)], 'netlink-timeout'],
    ['NLMSG_OVERRUN', (s) => [message(4, 0, s)], 'netlink-malformed'],
  ]
  for (const [name, replies, code] of failures)
    it(`rejects ${name} with ${code}, and the connection works afterwards`, async () => {
      const { connection } = dumping(replies, good)
      await assert.rejects(connection.dump(batchOf(1), readByte), { code })
      assert.deepEqual(await connection.dump(batchOf(1), readByte), [1, 2, 3])
    })

  it('rejects with the error that decode throws and drops the rest', async () => {
    const { connection, transport } = dumping(good)
    const broken = connection.dump(batchOf(1), () => {
      throw netlinkError('netlink-malformed', 'not mine')
    })
    await assert.rejects(broken, { code: 'netlink-malformed' })
    assert.equal(transport.queue.length, 0)
  })

  it('lets the event loop run, and rejects there when aborted', async () => {
    const { connection, transport } = dumping((s) => [
      ...Array.from({ length: 500 }, (_, index) => row(s, index & 0xff)),
      doneMessage(0, s),
    ])
    let turns = 0
    let counting = true
    const count = (): void => {
      turns++
      if (counting) setImmediate(count)
    }
    setImmediate(count)
    try {
      assert.equal((await connection.dump(batchOf(1), readByte, { budget: oneByOne() })).length, 500)
    } finally {
      counting = false
    }
    assert.ok(turns > 100, `${turns} turns`)

    const abort = new AbortController()
    const aborted = connection.dump(batchOf(1), readByte, { budget: oneByOne(), signal: abort.signal })
    setImmediate(() => abort.abort(new Error('enough')))
    await assert.rejects(aborted, /enough/)
    assert.equal(transport.queue.length, 0)
  })
})
