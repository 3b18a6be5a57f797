/** How announcements about the private tables are read. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KernelError } from '../../src/netlink/errors.ts'
import { decodePrivateTableChange, privateTableEvents } from '../../src/nftables/private-events.ts'
import { FakeTransport, hex, join, message, onlyMessage } from '../netlink/wire.ts'

// struct nfgenmsg of AF_INET or AF_INET6, then the table "kube-ipvs" as attribute 1
const OURS = hex('02000001 0e000100 6b7562652d6970767300 0000')
const OURS6 = hex('0a000001 0e000100 6b7562652d6970767300 0000')
const OTHER = hex('02000001 0b000100 66696c74657200 00')
const INET = hex('01000001 0e000100 6b7562652d6970767300 0000')

describe('decodePrivateTableChange', () => {
  it('reads every kind of change of a private table', () => {
    for (const type of [0x0a00, 0x0a03, 0x0a05, 0x0a06, 0x0a08, 0x0a09, 0x0a0b, 0x0a0c, 0x0a0e])
      assert.deepEqual(
        decodePrivateTableChange(onlyMessage(message(type, 0, 0, OURS, 77))),
        { family: 'IPv4', isLost: false, portId: 77 },
        type.toString(16),
      )
    assert.deepEqual(decodePrivateTableChange(onlyMessage(message(0x0a02, 0, 0, OURS6, 5))), {
      family: 'IPv6',
      isLost: true,
      portId: 5,
    })
  })

  it('leaves out other tables, families, generations and other parts of netfilter', () => {
    for (const [type, payload] of [
      [0x0a06, OTHER],
      [0x0a06, INET],
      [0x0a0f, OURS],
      [0x0606, OURS],
      [0x0a02, new Uint8Array(2)],
    ] as const)
      assert.equal(decodePrivateTableChange(onlyMessage(message(type, 0, 0, payload))), undefined)
  })
})

describe('privateTableEvents', () => {
  const listening = () => {
    const transport = new FakeTransport()
    const events: string[] = []
    const reader = privateTableEvents(
      transport,
      (portId) => portId === 4711,
      ({ family, isLost, portId }) => events.push(`${family} ${isLost} ${portId}`),
      { onOverrun: () => events.push('overrun'), onFailure: () => events.push('failed') },
    )
    reader.start()
    return { transport, events }
  }

  it('makes one event for each family and turn, and remembers that the table was lost', () => {
    const { transport, events } = listening()
    const [lost, changed] = [0x0a02, 0x0a0c].map((type) => message(type, 0, 0, OURS, 5))
    assert.ok(lost !== undefined && changed !== undefined)
    transport.deliver(join(lost, changed, message(0x0a0c, 0, 0, OURS6, 6)), changed)
    assert.deepEqual(events, ['IPv4 true 5', 'IPv6 false 6'])
  })

  it('says nothing of our own changes, and reports a loss of announcements', () => {
    const { transport, events } = listening()
    transport.deliver(message(0x0a0c, 0, 0, OURS, 4711))
    assert.deepEqual(events, [])
    transport.deliver(new KernelError(105, 'recvfrom'), message(0x0a0f, 0, 0, OURS))
    assert.deepEqual(events, ['overrun'])
  })
})
