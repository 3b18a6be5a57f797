import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KernelError, netlinkError } from '../../src/netlink/errors.ts'
import { type RtnetlinkEvent, rtnetlinkEvents } from '../../src/netlink/rtnetlink-events.ts'
import { FakeTransport, hex, join, message } from './wire.ts'

const ADDRESS = hex('02208000 05000000 08000100 0a600001 08000200 0a600001 08000800 80000000')
const added = (): Uint8Array => message(20, 0, 0, ADDRESS)
const deleted = (): Uint8Array => message(21, 0, 0, ADDRESS)

function listening(): {
  transport: FakeTransport
  events: string[]
  subscription: { close(): void }
  causes: unknown[]
} {
  const transport = new FakeTransport()
  const events: string[] = []
  const causes: unknown[] = []
  const describeEvent = (event: RtnetlinkEvent): string => {
    switch (event.kind) {
      case 'link':
        return `link ${event.change} ${event.link.name}`
      case 'address':
        return `address ${event.change} ${event.address.address}`
      case 'route':
        return `route ${event.change} ${event.route.destination}/${event.route.prefixLength}`
    }
  }
  const lost = (how: string) => (cause: unknown) => {
    causes.push(cause)
    events.push(how)
  }
  const subscription = rtnetlinkEvents(transport, (event) => events.push(describeEvent(event)), {
    onOverrun: lost('overrun'),
    onFailure: lost('failed'),
  })
  subscription.start()
  return { transport, events, subscription, causes }
}

describe('rtnetlinkEvents', () => {
  it('delivers every message of a datagram and skips other message types', () => {
    const { transport, events } = listening()
    transport.deliver(join(added(), message(28, 0, 0, hex('00000000')), deleted()))
    assert.deepEqual(events, ['address new 10.96.0.1', 'address deleted 10.96.0.1'])
  })

  for (const [name, loss, code] of [
    ['ENOBUFS', new KernelError(105, 'recvfrom'), 'netlink-overrun'],
    ['a truncated datagram', netlinkError('netlink-truncated', 'cut'), 'netlink-truncated'],
    ['a malformed datagram', hex('1000'), 'netlink-malformed'],
  ] as const)
    it(`reports ${name} as one overrun, after the queue is empty, and continues`, () => {
      const { transport, events, causes } = listening()
      transport.deliver(added(), loss, added(), loss, added())
      assert.deepEqual(events, ['address new 10.96.0.1', 'overrun'])
      const [cause] = causes
      assert.equal(cause instanceof Error && 'code' in cause && cause.code, code)
      transport.deliver(deleted())
      assert.equal(events.at(-1), 'address deleted 10.96.0.1')
    })

  it('reports no overrun while the queue is still being read', () => {
    const { transport, events } = listening()
    transport.deliver(new KernelError(105, 'recvfrom'), ...Array.from({ length: 100 }, added))
    assert.deepEqual(events, [])
    transport.deliver()
    assert.deepEqual(events, ['overrun'])
  })

  it('closes after a permanent error', () => {
    const { transport, events } = listening()
    transport.deliver(new KernelError(9, 'recvfrom'), added())
    assert.deepEqual(events, ['failed'])
    assert.equal(transport.closed, true)
  })

  it('delivers nothing after close, not even from the same datagram', () => {
    const transport = new FakeTransport()
    const events: RtnetlinkEvent[] = []
    const noLoss = { onOverrun: assert.fail, onFailure: (cause: unknown) => assert.fail(String(cause)) }
    const subscription = rtnetlinkEvents(
      transport,
      (event) => {
        events.push(event)
        subscription.close()
      },
      noLoss,
    )
    subscription.start()
    transport.deliver(join(added(), deleted()), added())
    assert.equal(events.length, 1)
    assert.equal(transport.closed, true)
  })
})
