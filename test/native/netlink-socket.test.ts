/**
 * The real socket on the Linux that runs the tests, without privileges: rtnetlink answers requests
 * for a link to every user.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { openNetlinkConnection } from '../../native/open.ts'
import { ignoreFilter, NetlinkSocket } from '../../native/netlink-socket.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { NETLINK_ROUTE } from '../../src/netlink/constants.ts'
import { encodeDumpLinks, encodeGetLink } from '../../src/netlink/link-codec.ts'
import { RtnetlinkConnection } from '../../src/netlink/rtnetlink.ts'
import { hex, toHex } from '../netlink/wire.ts'

describe('ignoreFilter', () => {
  it('is a BPF program that drops each port id and passes everything else', () => {
    // ldw [12]; jeq #bswap(1), drop; jeq #bswap(0x12345678), drop; ret -1; drop: ret 0
    const expected =
      '2000 00 00 0c000000  1500 02 00 00000001  1500 01 00 12345678  0600 00 00 ffffffff  0600 00 00 00000000'
    assert.equal(toHex(ignoreFilter([1, 0x12345678])), toHex(hex(expected)))
  })

  it('refuses more port ids than a BPF jump can skip', () => {
    assert.throws(() => ignoreFilter(new Array(201).fill(1)), { code: 'netlink-unencodable' })
  })
})

describe('NetlinkSocket', () => {
  it('gives each socket another port id', () => {
    const sockets = [NetlinkSocket.open(NETLINK_ROUTE), NetlinkSocket.open(NETLINK_ROUTE)]
    try {
      assert.notEqual(sockets[0]?.portId, 0)
      assert.notEqual(sockets[0]?.portId, sockets[1]?.portId)
    } finally {
      for (const socket of sockets) socket.close()
    }
  })

  it('receive returns undefined when nothing is queued', () => {
    const socket = NetlinkSocket.open(NETLINK_ROUTE)
    try {
      assert.equal(socket.receive(), undefined)
    } finally {
      socket.close()
    }
  })

  it('has the answer when send returns', () => {
    const socket = NetlinkSocket.open(NETLINK_ROUTE)
    try {
      const batch = new MessageBatch()
      encodeDumpLinks(batch)
      socket.send(batch.seal(1, false))
      assert.ok((socket.receive()?.length ?? 0) > 16)
    } finally {
      socket.close()
    }
  })

  it('onReadable calls its listener while something is queued, and not after it was removed', async () => {
    const socket = NetlinkSocket.open(NETLINK_ROUTE)
    try {
      const batch = new MessageBatch()
      encodeGetLink(batch, 'lo')
      let calls = 0
      for (let round = 1; round <= 2; round++) {
        const called = new Promise<void>((resolve) => {
          socket.onReadable(() => {
            calls++
            while (socket.receive() !== undefined);
            resolve()
          })
        })
        socket.send(batch.seal(round, true))
        await called
        socket.onReadable(undefined)
        assert.equal(calls, round)
        socket.send(batch.seal(9, true))
        // The answer is queued when `send` returns; the event loop polls all sockets between two turns.
        await turn()
        await turn()
        assert.equal(calls, round)
        while (socket.receive() !== undefined);
      }
    } finally {
      socket.close()
    }
  })

  it('rejects an unknown family with its errno', () => {
    assert.throws(() => NetlinkSocket.open(99), { code: 'EPROTONOSUPPORT', operation: 'socket(AF_NETLINK, 99)' })
  })

  it('rejects an unknown group with its errno', () => {
    assert.throws(() => NetlinkSocket.open(NETLINK_ROUTE, { groups: [100_000] }), {
      operation: 'NETLINK_ADD_MEMBERSHIP 100000',
    })
  })

  it('every call after close throws netlink-closed', () => {
    const socket = NetlinkSocket.open(NETLINK_ROUTE)
    socket.close()
    socket.close()
    socket.onReadable(() => undefined)
    assert.throws(() => socket.receive(), { code: 'netlink-closed' })
    assert.throws(() => socket.send(new Uint8Array(16)), { code: 'netlink-closed' })
  })
})

describe('openNetlinkConnection', () => {
  it('reads the loopback interface', async () => {
    const rtnetlink = new RtnetlinkConnection(openNetlinkConnection(NETLINK_ROUTE))
    try {
      assert.equal((await rtnetlink.getLink('lo'))?.index, 1)
      assert.ok((await rtnetlink.listLinks()).some(({ name }) => name === 'lo'))
    } finally {
      rtnetlink.close()
    }
  })
})
