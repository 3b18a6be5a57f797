/** Which families the firewall serves on a kernel, and whether the tables of those can belong to it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { askSupport } from '../../../../src/modes/ipvs/nftables-firewall/kernel.ts'
import { NetlinkConnection } from '../../../../src/netlink/connection.ts'
import { FAMILY_NUMBER, IP_FAMILIES, type IpFamily } from '../../../../src/values/protocol.ts'
import { errorMessage, FakeTransport, hex, message, requests } from '../../../netlink/wire.ts'

const [NEWTABLE, GETGEN, EOPNOTSUPP] = [0x0a00, 0x0a10, 95]
const { signal } = new AbortController()

/** A kernel without these families, and without tables that belong to a socket in some others. */
function kernel(lacks: readonly IpFamily[], unowned: readonly IpFamily[] = []): NetlinkConnection {
  const isOf = (families: readonly IpFamily[], number: number): boolean =>
    families.some((family) => FAMILY_NUMBER[family] === number)
  const transport = new FakeTransport((datagram) => {
    const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.length)
    let at = 0
    return requests(datagram).flatMap(({ type, flags, sequence }) => {
      const from = at
      at += (view.getUint32(at, true) + 3) & ~3
      if (type === GETGEN) return [message(0x0a0f, 0, sequence, hex('00000000'))]
      const number = view.getUint8(from + 16)
      const isOwned = Buffer.from(datagram.subarray(from, at)).includes('kube-ipvs-trial-owned')
      if (type === NEWTABLE && (isOf(lacks, number) || (isOwned && isOf(unowned, number))))
        return [errorMessage(EOPNOTSUPP, sequence)]
      return (flags & 4) === 0 ? [] : [errorMessage(0, sequence)]
    })
  })
  return new NetlinkConnection(transport, { timeoutMs: 200 })
}

const ask = (netlink: NetlinkConnection) => askSupport(netlink, { families: IP_FAMILIES, lacks: [] }, signal)

describe('the families of the nftables firewall', () => {
  it('are served with tables of its own where each of them can belong to it', async () => {
    const { support, mayOwn } = await ask(kernel([]))
    assert.deepEqual([support.families, mayOwn], [IP_FAMILIES, true])
    assert.equal((await ask(kernel([], ['IPv6']))).mayOwn, false)
  })

  it('that are not there cost the other one nothing', async () => {
    const { support, mayOwn } = await ask(kernel(['IPv6']))
    assert.deepEqual([support.families, mayOwn], [['IPv4'], true])
    const [lack] = support.lacks
    assert.ok(lack?.why === 'nftables')
    assert.match(lack.reason, /has no nf_tables for IPv6/)
  })

  it('are none where the kernel has neither', async () => {
    await assert.rejects(ask(kernel(IP_FAMILIES)), { code: 'nftables-missing' })
  })
})
