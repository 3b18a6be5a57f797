/** Announcements that a family of generic netlink was removed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { familyEvents } from '../../src/netlink/family-events.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import { hex, message } from './wire.ts'

/** struct genlmsghdr with this command, name IPVS, number 0x17. */
const announcement = (command: string): Uint8Array =>
  message(0x10, 0, 0, hex(`${command}020000 09000200 49505653 00000000 06000100 17000000`), 0)

/** The events that these datagrams or failures cause. */
function eventsOf(...queue: readonly (Uint8Array | Error)[]): string[] {
  const left = [...queue]
  const seen: string[] = []
  let read: (() => void) | undefined
  const reader = familyEvents(
    {
      portId: 1,
      send: () => undefined,
      receive() {
        const next = left.shift()
        if (next instanceof Error) throw next
        return next
      },
      onReadable: (listener) => {
        read = listener
      },
      close: () => undefined,
    },
    (family) => seen.push(family),
    { onOverrun: () => seen.push('overrun'), onFailure: () => seen.push('failed') },
  )
  reader.start()
  read?.()
  return seen
}

describe('familyEvents', () => {
  it('names a family that was removed', () => assert.deepEqual(eventsOf(announcement('02')), ['IPVS']))
  it('is silent about new families, other commands and other messages', () =>
    assert.deepEqual(eventsOf(announcement('01'), announcement('07'), message(0x20, 0, 0, hex('02020000'), 0)), []))
  it('reports a loss once the queue is empty', () =>
    assert.deepEqual(eventsOf(new KernelError(105, 'recvfrom'), announcement('02')), ['overrun']))
  it('reports a socket that fails', () => assert.deepEqual(eventsOf(new KernelError(9, 'recvfrom')), ['failed']))
})
