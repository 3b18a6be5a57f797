/** The messages that list and delete tables of nf_tables, and the answers of kernels. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  decodeTable,
  deleteNftTable,
  encodeDeleteTable,
  encodeListTables,
  listNftTables,
} from '../../src/nftables/tables.ts'
import { requestOf } from '../../src/netlink/batch.ts'
import { listNftChainNames } from '../../src/nftables/rules.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import {
  doneMessage,
  errorMessage,
  FakeTransport,
  hex,
  message,
  onlyMessage,
  requests,
  toHex,
} from '../netlink/wire.ts'

const [EPERM, ENOENT, EINVAL] = [1, 2, 22]
const TABLE = { family: 'IPv6', name: 'kube-proxy' } as const
/** NFTA_TABLE_NAME "kube-proxy". */
const NAME = '0f00 0100 6b7562652d70726f787900 00'

/** A kernel from before 6.10: it answers the messages of a transaction with these errnos, and never its end. */
function kernel(...errnos: readonly (number | undefined)[]): NetlinkConnection {
  const transport = new FakeTransport((datagram) =>
    requests(datagram).flatMap(({ type, flags, sequence }, index) => {
      if (type === 0x11) return []
      const errno = errnos[index] ?? 0
      return errno !== 0 || (flags & 4) !== 0 ? [errorMessage(errno, sequence)] : []
    }),
  )
  return new NetlinkConnection(transport, { timeoutMs: 200 })
}

describe('deleteNftTable', () => {
  it('sends one transaction, with its end, and asks for the ACK of the deletion', () => {
    const batch = requestOf((one) => encodeDeleteTable(one, TABLE))
    const expected =
      '14000000 1000 0100 01000000 00000000 0000000a' +
      `24000000 020a 0500 02000000 00000000 0a000000 ${NAME}` +
      '14000000 1100 0100 03000000 00000000 0000000a'
    assert.equal(toHex(batch.seal(1, true)), toHex(hex(expected)))
  })

  it('resolves when the table is deleted, and when it is gone already', async () => {
    await deleteNftTable(kernel(), TABLE)
    await deleteNftTable(kernel(0, ENOENT), TABLE)
  })

  it('rejects when the kernel refuses the deletion or the whole transaction', async () => {
    for (const errnos of [
      [0, EPERM],
      [EPERM, undefined],
    ])
      await assert.rejects(deleteNftTable(kernel(...errnos), TABLE), { code: 'EPERM' })
    const refuseAll = new FakeTransport((datagram) => [errorMessage(EPERM, requests(datagram)[0]?.sequence ?? 0)])
    await assert.rejects(deleteNftTable(new NetlinkConnection(refuseAll, { timeoutMs: 200 }), TABLE), {
      code: 'EPERM',
    })
  })
})

describe('listNftTables', () => {
  const row = (sequence: number, family: string): Uint8Array =>
    message(0x0a00, 2, sequence, hex(`${family} 00 0000 ${NAME}`))

  it('asks for the tables of every family', () => {
    const batch = requestOf(encodeListTables)
    assert.equal(toHex(batch.bytes), toHex(hex('14000000 010a 0103 00000000 00000000 00000000')))
  })

  it('returns tables of the families ip and ip6 only', async () => {
    const transport = new FakeTransport((datagram) => {
      const sequence = requests(datagram)[0]?.sequence ?? 0
      return [...['02', '01', '0a', '03'].map((family) => row(sequence, family)), doneMessage(0, sequence)]
    })
    assert.deepEqual(await listNftTables(new NetlinkConnection(transport)), [
      { family: 'IPv4', name: 'kube-proxy' },
      { family: 'IPv6', name: 'kube-proxy' },
    ])
  })

  it('finds none where the kernel has no nf_tables, and rejects for other refusals', async () => {
    const refusing = (errno: number): NetlinkConnection =>
      new NetlinkConnection(
        new FakeTransport((datagram) => [errorMessage(errno, requests(datagram)[0]?.sequence ?? 0)]),
      )
    assert.deepEqual(await listNftTables(refusing(EINVAL)), [])
    assert.deepEqual(await listNftChainNames(refusing(EINVAL), 'IPv4'), new Map())
    for (const list of [listNftTables(refusing(EPERM)), listNftChainNames(refusing(EPERM), 'IPv4')])
      await assert.rejects(list, { code: 'EPERM' })
  })

  it('refuses another message than NFT_MSG_NEWTABLE', () => {
    assert.throws(() => decodeTable(onlyMessage(message(0x0a03, 0, 1, hex('02000000')))), {
      code: 'netlink-malformed',
    })
  })
})
