/**
 * IpvsConnection with a simulated kernel, for what a real one cannot be made to do: a family that
 * changes its number or disappears.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { askScheduler } from '../../src/ipvs/scheduler.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { doneMessage, errorMessage, FakeTransport, hex, message, type Reply, requests } from '../netlink/wire.ts'

const ID = { family: 'IPv4', address: '10.96.0.1', port: 443, protocol: 'tcp' } as const
const TIMEOUTS = { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 }
const SERVER = {
  address: '10.244.0.5',
  port: 8443,
  weight: 1,
  forwarding: 'masquerade',
  upperThreshold: 0,
  lowerThreshold: 0,
} as const

/**
 * A kernel whose IPVS family has the number in `family.id`; 0: there is no family. Requests to
 * another number are ENOENT.
 */
function kernel(answer: (sequence: number, index: number) => number = () => 0): {
  family: { id: number }
  transport: FakeTransport
  netlink: NetlinkConnection
} {
  const family = { id: 0x17 }
  const transport = new FakeTransport((datagram): Reply[] =>
    requests(datagram).flatMap(({ type, flags, sequence }, index) => {
      if (type === 0x10) {
        if (family.id === 0) return [errorMessage(2, sequence)]
        return [
          message(
            0x10,
            0,
            sequence,
            hex(`01020000 09000200 49505653 00000000 06000100 ${family.id.toString(16)}000000`),
          ),
        ]
      }
      const errno = type === family.id ? answer(sequence, index) : 2
      if (errno !== 0) return [errorMessage(errno, sequence)]
      if ((flags & 0x300) !== 0) return [doneMessage(0, sequence)]
      return (flags & 4) !== 0 ? [errorMessage(0, sequence)] : []
    }),
  )
  return { family, transport, netlink: new NetlinkConnection(transport, { timeoutMs: 300 }) }
}

describe('IpvsConnection', () => {
  it('open rejects with the name of the missing family and closes the connection', async () => {
    const { family, transport, netlink } = kernel()
    family.id = 0
    await assert.rejects(IpvsConnection.open(netlink), { code: 'genl-family-missing', message: /"IPVS"/ })
    assert.equal(transport.closed, true)
  })

  it('commit finds the family under its new number', async () => {
    const { family, transport, netlink } = kernel()
    const ipvs = await IpvsConnection.open(netlink)
    const batch = ipvs.batch()
    family.id = 0x19
    batch.addDestination(ID, SERVER)
    batch.deleteService(ID)
    assert.deepEqual(await batch.commit(), [undefined, undefined])
    assert.deepEqual(
      transport.sent.map((datagram) => requests(datagram).map(({ type }) => type)),
      [[0x10], [0x17, 0x17], [0x10], [0x19, 0x19]],
    )
  })

  it('reads find the family under its new number', async () => {
    const { family, netlink } = kernel()
    const ipvs = await IpvsConnection.open(netlink)
    let moves = 0
    ipvs.onMoved = () => void moves++
    family.id = 0x19
    assert.deepEqual(await ipvs.listServices(), [])
    family.id = 0x1a
    await ipvs.setTimeouts(TIMEOUTS)
    family.id = 0x1b
    assert.deepEqual(await ipvs.listDestinations(ID), [])
    assert.deepEqual(await ipvs.listServices(), [])
    assert.equal(moves, 3)
  })

  it('listServices counts the services that it leaves out', async () => {
    const listed = (protocol: string, sequence: number) =>
      message(
        0x17,
        2,
        sequence,
        hex(`01010000 54000180 06000100 02000000 0600 0200 ${protocol} 14000300 0a600001 00000000 00000000 00000000
             06000400 01bb0000 07000600 72720000 0c000700 00000000 ffffffff 08000800 00000000 08000900 ffffffff`),
      )
    let protocols = ['06000000', '32000000', '33000000']
    const { transport, netlink } = kernel()
    const ipvs = await IpvsConnection.open(netlink)
    transport.answer = (datagram) =>
      requests(datagram).flatMap(({ sequence }) => [
        ...protocols.map((protocol) => listed(protocol, sequence)),
        doneMessage(0, sequence),
      ])
    assert.equal((await ipvs.listServices()).length, 1)
    assert.equal(ipvs.unknownServices, 2)
    protocols = ['06000000']
    assert.equal((await ipvs.listServices()).length, 1)
    assert.equal(ipvs.unknownServices, 0)
  })

  it('every call rejects with genl-family-missing while there is no family, and works again afterwards', async () => {
    const { family, netlink } = kernel()
    const ipvs = await IpvsConnection.open(netlink)
    const batch = ipvs.batch()
    family.id = 0
    batch.deleteService(ID)
    for (const call of [batch.commit(), ipvs.listServices(), ipvs.getService(ID), ipvs.setTimeouts(TIMEOUTS)])
      await assert.rejects(call, { code: 'genl-family-missing' })
    family.id = 0x20
    assert.deepEqual(await ipvs.listServices(), [])
    assert.deepEqual(await batch.commit(), [])
  })

  it('ENOENT of a destination is its outcome, and nothing is sent twice', async () => {
    const { transport, netlink } = kernel(() => 2)
    const ipvs = await IpvsConnection.open(netlink)
    const batch = ipvs.batch()
    batch.deleteDestination(ID, SERVER)
    assert.deepEqual(
      (await batch.commit()).map((outcome) => outcome?.code),
      ['ENOENT'],
    )
    assert.equal(transport.sent.filter((datagram) => requests(datagram)[0]?.type === 0x17).length, 1)
  })

  it('getService finds none where there is none, and where IPVS has no IPv6', async () => {
    for (const errno of [3, 97])
      assert.equal(await (await IpvsConnection.open(kernel(() => errno).netlink)).getService(ID), undefined)
    await assert.rejects((await IpvsConnection.open(kernel(() => 1).netlink)).getService(ID), { code: 'EPERM' })
  })

  it('a batch that failed in part is not sent again', async () => {
    const { transport, netlink } = kernel((_, index) => (index === 0 ? 2 : 0))
    const ipvs = await IpvsConnection.open(netlink)
    const batch = ipvs.batch()
    batch.deleteDestination(ID, SERVER)
    batch.deleteService(ID)
    assert.deepEqual(
      (await batch.commit()).map((outcome) => outcome?.code),
      ['ENOENT', undefined],
    )
    assert.equal(transport.sent.length, 2)
  })

  for (const [errno, code] of [
    [1, 'EPERM'],
    [16, 'EBUSY'],
    [12, 'ENOMEM'],
  ] as const)
    it(`${code} is an outcome of commit and rejects a command`, async () => {
      const ipvs = await IpvsConnection.open(kernel(() => errno).netlink)
      const batch = ipvs.batch()
      batch.deleteService(ID)
      assert.deepEqual(
        (await batch.commit()).map((outcome) => outcome?.code),
        [code],
      )
      await assert.rejects(ipvs.setTimeouts(TIMEOUTS), { code, operation: 'IPVS_CMD_SET_CONFIG' })
    })

  it('a batch is empty after a commit that rejects', async () => {
    const { transport, netlink } = kernel()
    const ipvs = await IpvsConnection.open(netlink)
    const batch = ipvs.batch()
    batch.deleteService(ID)
    transport.receive = () => new Uint8Array(3)
    await assert.rejects(batch.commit(), { code: 'netlink-malformed' })
    assert.deepEqual(await batch.commit(), [])
  })
})

describe('askScheduler', () => {
  it('derives the answer from the first error of the kernel', async () => {
    const rows: [errno: number, expected: string][] = [
      [22, 'present'],
      [2, 'missing'],
      [97, 'no-ipv6'],
      [17, 'unknown'],
    ]
    for (const [errno, expected] of rows) {
      const { netlink, transport } = kernel(() => errno)
      assert.equal(await askScheduler(await IpvsConnection.open(netlink), 'mh'), expected)
      const sent = transport.sent.flatMap((datagram) => requests(datagram).map(({ type }) => type))
      assert.equal(sent.filter((type) => type !== 0x10).length, 1, 'one request, and nothing to take back')
    }
    const { netlink } = kernel(() => 1)
    await assert.rejects(askScheduler(await IpvsConnection.open(netlink), 'mh'), { code: 'EPERM' })
  })

  it('deletes the virtual server if a kernel accepts it', async () => {
    const { netlink, transport } = kernel(() => 0)
    assert.equal(await askScheduler(await IpvsConnection.open(netlink), 'mh'), 'present')
    // struct genlmsghdr: IPVS_CMD_NEW_SERVICE, then IPVS_CMD_DEL_SERVICE
    assert.deepEqual(
      transport.sent.slice(-2).map((datagram) => datagram[16]),
      [1, 3],
    )
  })
})
