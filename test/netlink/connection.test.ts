import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { KernelError, netlinkError } from '../../src/netlink/errors.ts'
import { CodedError } from '../../src/values/errors.ts'
import { batchOf, overrun, readByte, row } from './one-byte-messages.ts'
import { doneMessage, errorMessage, FakeTransport, hex, join, type Reply, requests } from './wire.ts'

/** Answers as the kernel does: an error for each given index, an ACK for the last message. */
function kernel(errors: Readonly<Record<number, number>> = {}): (datagram: Uint8Array) => Uint8Array[] {
  return (datagram) =>
    requests(datagram).flatMap(({ sequence, flags }, index) => {
      const errno = errors[index] ?? 0
      return errno !== 0 || (flags & 4) !== 0 ? [errorMessage(errno, sequence)] : []
    })
}

describe('NetlinkConnection.transact', () => {
  it('resolves to one outcome for each message, in order', async () => {
    const connection = new NetlinkConnection(new FakeTransport(kernel({ 1: 3, 3: 17 })))
    const outcomes = await connection.transact(batchOf(5))
    assert.deepEqual(
      outcomes.map((outcome) => outcome && [outcome.code, outcome.operation]),
      [undefined, ['ESRCH', 'REQUEST_1'], undefined, ['EEXIST', 'REQUEST_3'], undefined],
    )
  })

  it('takes an error of the last message for its ACK', async () => {
    const connection = new NetlinkConnection(new FakeTransport(kernel({ 1: 1 })))
    assert.deepEqual(
      (await connection.transact(batchOf(2))).map((outcome) => outcome?.code),
      [undefined, 'EPERM'],
    )
  })

  it('sends one datagram that asks for one ACK, inside the call', () => {
    const transport = new FakeTransport(kernel())
    const connection = new NetlinkConnection(transport)
    void connection.transact(batchOf(200))
    assert.equal(transport.sent.length, 1)
    assert.equal(transport.queue.length, 0)
    assert.equal(requests(transport.sent[0] ?? hex('')).filter(({ flags }) => (flags & 4) !== 0).length, 1)
    assert.deepEqual(connection.counters, { messagesSent: 200, datagramsSent: 1, datagramsReceived: 1 })
  })

  it('refuses more than 200 messages, but of one transaction', async () => {
    const transport = new FakeTransport(kernel())
    await assert.rejects(new NetlinkConnection(transport).transact(batchOf(201)), { code: 'netlink-unencodable' })
    assert.equal(transport.sent.length, 0)
    // A transaction is done as a whole or not at all.
    const outcomes = await new NetlinkConnection(transport).transact(batchOf(201), { isTransaction: true })
    assert.deepEqual([outcomes.length, transport.sent.length], [201, 1])
  })

  it('sends nothing for an empty batch', async () => {
    const transport = new FakeTransport()
    assert.deepEqual(await new NetlinkConnection(transport).transact(batchOf(0)), [])
    assert.equal(transport.sent.length, 0)
  })

  it('skips stale replies, announcements and replies of other types', async () => {
    const transport = new FakeTransport((datagram) => {
      const sequence = requests(datagram)[0]?.sequence ?? 0
      return [
        errorMessage(1, sequence - 1),
        join(errorMessage(1, sequence + 2), errorMessage(1, 0)),
        row(sequence, 1),
        errorMessage(3, sequence),
        errorMessage(0, sequence + 1),
      ]
    })
    const outcomes = await new NetlinkConnection(transport).transact(batchOf(2))
    assert.deepEqual(
      outcomes.map((outcome) => outcome?.code),
      ['ESRCH', undefined],
    )
  })

  it('waits for a later answer', async () => {
    const transport = new FakeTransport()
    const pending = new NetlinkConnection(transport).transact(batchOf(1))
    await new Promise((resolve) => setImmediate(resolve))
    assert.ok(transport.listener)
    transport.deliver(errorMessage(0, requests(transport.sent[0] ?? hex(''))[0]?.sequence ?? 0))
    assert.deepEqual(await pending, [undefined])
    assert.equal(transport.listener, undefined)
  })

  it('rejects at its deadline with netlink-timeout and works afterwards', async () => {
    let answers = false
    const transport = new FakeTransport((datagram) => (answers ? kernel()(datagram) : []))
    const connection = new NetlinkConnection(transport, { timeoutMs: 300 })
    await assert.rejects(connection.transact(batchOf(1)), { code: 'netlink-timeout' })
    answers = true
    transport.queue.push(errorMessage(1, requests(transport.sent[0] ?? hex(''))[0]?.sequence ?? 0))
    assert.deepEqual(await connection.transact(batchOf(1)), [undefined])
  })

  it('rejects at its deadline even while stale replies arrive', async () => {
    const transport = new FakeTransport()
    transport.receive = () => errorMessage(0, 0xfffffff0)
    await assert.rejects(new NetlinkConnection(transport, { timeoutMs: 300 }).transact(batchOf(1)), {
      code: 'netlink-timeout',
    })
  })

  it('reports an overrun as netlink-overrun, empties the queue and works afterwards', async () => {
    let lost = true
    const transport = new FakeTransport((datagram) => {
      const answers: Reply[] = kernel()(datagram)
      return lost ? [overrun(), errorMessage(3, 9), ...answers] : answers
    })
    const connection = new NetlinkConnection(transport)
    await assert.rejects(connection.transact(batchOf(3)), { code: 'netlink-overrun' })
    assert.equal(transport.queue.length, 0)
    lost = false
    assert.deepEqual(await connection.transact(batchOf(1)), [undefined])
  })

  for (const [name, error, code] of [
    ['EPERM of sendto', new KernelError(1, 'sendto'), 'EPERM'],
    ['EMSGSIZE of sendto', new KernelError(90, 'sendto'), 'EMSGSIZE'],
  ] as const)
    it(`rejects with ${name}`, async () => {
      const transport = new FakeTransport()
      transport.send = () => {
        throw error
      }
      const connection = new NetlinkConnection(transport)
      await assert.rejects(connection.transact(batchOf(1)), { code })
      await assert.rejects(connection.transact(batchOf(1)), { code })
    })

  it('rejects with netlink-truncated', async () => {
    const connection = new NetlinkConnection(new FakeTransport(() => [netlinkError('netlink-truncated', 'cut')]))
    await assert.rejects(connection.transact(batchOf(1)), { code: 'netlink-truncated' })
  })

  it('never reports a wrong outcome for an answer cut at any byte', async () => {
    for (let length = 0; length < 72; length++) {
      const transport = new FakeTransport((datagram) => [join(...kernel({ 0: 3 })(datagram)).subarray(0, length)])
      const error = await new NetlinkConnection(transport, { timeoutMs: 1 }).transact(batchOf(2)).then(
        () => undefined,
        (reason: unknown) => reason,
      )
      assert.ok(error instanceof CodedError, `cut to ${length}`)
      assert.equal(error.code, length === 0 || length === 36 ? 'netlink-timeout' : 'netlink-malformed')
    }
  })

  it('treats an answer of random bytes as an error or skips it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 80 }), { maxLength: 4 }), async (garbage) => {
        const transport = new FakeTransport((datagram) => [...garbage, ...kernel()(datagram)])
        try {
          assert.deepEqual(await new NetlinkConnection(transport).transact(batchOf(1)), [undefined])
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
        }
      }),
    )
  })
})

describe('NetlinkConnection order and end', () => {
  it('runs one call at a time, in call order', async () => {
    const transport = new FakeTransport()
    const connection = new NetlinkConnection(transport)
    const order: number[] = []
    const calls = [1, 2, 3].map(async (each) => {
      await connection.transact(batchOf(each))
      order.push(each)
    })
    for (const count of [1, 2, 3]) {
      await new Promise((resolve) => setImmediate(resolve))
      const last = transport.sent.at(-1) ?? hex('')
      assert.equal(transport.sent.length, count)
      assert.equal(requests(last).length, count)
      transport.deliver(...kernel()(last))
    }
    await Promise.all(calls)
    assert.deepEqual(order, [1, 2, 3])
  })

  it('removes an aborted call from the queue without sending it', async () => {
    const transport = new FakeTransport()
    const connection = new NetlinkConnection(transport)
    const first = connection.transact(batchOf(1))
    const abort = new AbortController()
    const second = connection.transact(batchOf(2), { signal: abort.signal })
    const third = connection.transact(batchOf(3))
    abort.abort(new Error('no longer wanted'))
    await assert.rejects(second, /no longer wanted/)
    transport.deliver(...kernel()(transport.sent[0] ?? hex('')))
    await first
    await new Promise((resolve) => setImmediate(resolve))
    transport.deliver(...kernel()(transport.sent[1] ?? hex('')))
    assert.equal((await third).length, 3)
    assert.equal(transport.sent.length, 2)
  })

  it('ends an aborted wait at once and skips its late answer', async () => {
    const transport = new FakeTransport()
    const connection = new NetlinkConnection(transport)
    const abort = new AbortController()
    const first = connection.transact(batchOf(1), { signal: abort.signal })
    setImmediate(() => abort.abort(new Error('stop')))
    await assert.rejects(first, /stop/)
    transport.queue.push(errorMessage(1, requests(transport.sent[0] ?? hex(''))[0]?.sequence ?? 0))
    const second = connection.transact(batchOf(1))
    await new Promise((resolve) => setImmediate(resolve))
    transport.deliver(...kernel()(transport.sent[1] ?? hex('')))
    assert.deepEqual(await second, [undefined])
  })

  it('sends nothing when the signal is already aborted', async () => {
    const transport = new FakeTransport(kernel())
    const connection = new NetlinkConnection(transport)
    const signal = AbortSignal.abort(new Error('before'))
    await assert.rejects(connection.transact(batchOf(1), { signal }), /before/)
    await assert.rejects(connection.request(batchOf(1), readByte, { signal }), /before/)
    await assert.rejects(connection.dump(batchOf(1), readByte, { signal }), /before/)
    assert.equal(transport.sent.length, 0)
  })

  it('close rejects the running call, waiting calls and later calls', async () => {
    const transport = new FakeTransport()
    const connection = new NetlinkConnection(transport)
    const calls = [
      connection.transact(batchOf(1)),
      connection.request(batchOf(1), readByte),
      connection.dump(batchOf(1), readByte),
    ]
    await new Promise((resolve) => setImmediate(resolve))
    connection.close()
    connection.close()
    for (const call of [...calls, connection.transact(batchOf(1))])
      await assert.rejects(call, { code: 'netlink-closed' })
    assert.equal(transport.closed, true)
  })
})

describe('NetlinkConnection.request', () => {
  const answering = (...replies: ((sequence: number) => Reply)[]): NetlinkConnection =>
    new NetlinkConnection(
      new FakeTransport((datagram) => {
        const sequence = requests(datagram)[0]?.sequence ?? 0
        return replies.map((reply) => reply(sequence))
      }),
      { timeoutMs: 300 },
    )

  it('resolves to the decoded reply and asks for no ACK', async () => {
    const transport = new FakeTransport((datagram) => [row(requests(datagram)[0]?.sequence ?? 0, 7, 0)])
    assert.equal(await new NetlinkConnection(transport).request(batchOf(1), readByte), 7)
    assert.equal(requests(transport.sent[0] ?? hex(''))[0]?.flags, 1)
  })

  it('rejects with the error of the kernel', async () => {
    await assert.rejects(
      answering((sequence) => errorMessage(3, sequence)).request(batchOf(1), readByte),
      (error) => error instanceof KernelError && error.code === 'ESRCH' && error.operation === 'REQUEST_0',
    )
  })

  const rows: readonly (readonly [string, ((sequence: number) => Reply)[], string])[] = [
    ['an ACK without a reply', [(s) => errorMessage(0, s)], 'netlink-malformed'],
    ['the end of a dump', [(s) => doneMessage(0, s)], 'netlink-malformed'],
    ['an overrun', [overrun, (s) => row(s, 1)], 'netlink-overrun'],
    ['only stale replies', [(s) => row(s - 1, 1)], 'netlink-timeout'],
    ['nothing', [], 'netlink-timeout'],
    ['half a header', [() => hex('1000')], 'netlink-malformed'],
  ]
  for (const [name, replies, code] of rows)
    it(`rejects ${name} with ${code}`, async () => {
      await assert.rejects(answering(...replies).request(batchOf(1), readByte), { code })
    })

  it('refuses a batch that is not one message', async () => {
    for (const count of [0, 2])
      await assert.rejects(answering().request(batchOf(count), readByte), { code: 'netlink-unencodable' })
  })
})
