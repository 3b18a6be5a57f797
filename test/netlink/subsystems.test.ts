import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { resolveFamily } from '../../src/netlink/subsystems.ts'
import { errorMessage, FakeTransport, hex, message, requests, toHex } from './wire.ts'

/** struct genlmsghdr (CTRL_CMD_NEWFAMILY, version 2), name IPVS, number 0x17, version, header size, attribute count. */
const IPVS =
  '01020000 09000200 49505653 00000000 06000100 17000000 08000300 01000000 08000400 00000000 08000500 06000000'

function answering(answer: (sequence: number) => Uint8Array): {
  connection: NetlinkConnection
  transport: FakeTransport
} {
  const transport = new FakeTransport((datagram) => [answer(requests(datagram)[0]?.sequence ?? 0)])
  return { connection: new NetlinkConnection(transport, { timeoutMs: 20 }), transport }
}

describe('resolveFamily', () => {
  it('sends CTRL_CMD_GETFAMILY with the name and reads the number', async () => {
    const { connection, transport } = answering((sequence) => message(0x10, 0, sequence, hex(IPVS)))
    assert.equal(await resolveFamily(connection, 'IPVS'), 0x17)
    assert.equal(
      toHex(transport.sent[0] ?? hex('')),
      toHex(hex('20000000 1000 0100 01000000 00000000 03010000 0900 0200 49505653 00 000000')),
    )
  })

  it('names the missing family in its error', async () => {
    const { connection } = answering((sequence) => errorMessage(2, sequence))
    await assert.rejects(resolveFamily(connection, 'IPVS'), { code: 'genl-family-missing', message: /"IPVS"/ })
  })

  it('rejects with any other error unchanged', async () => {
    const { connection } = answering((sequence) => errorMessage(1, sequence))
    await assert.rejects(resolveFamily(connection, 'IPVS'), { code: 'EPERM' })
  })

  const broken: readonly (readonly [string, number, string])[] = [
    ['another command', 0x10, IPVS.replace('0102', '0202')],
    ['another message type', 0x11, IPVS],
    ['another family', 0x10, IPVS.replace('49505653', '49505654')],
    ['no number', 0x10, IPVS.slice(0, 36)],
    ['no header', 0x10, ''],
  ]
  for (const [name, type, text] of broken)
    it(`refuses an answer with ${name}`, async () => {
      const { connection } = answering((sequence) => message(type, 0, sequence, hex(text)))
      await assert.rejects(resolveFamily(connection, 'IPVS'), { code: 'netlink-malformed' })
    })
})
