/** What missingForNft makes of kernels that lack a part; the first row is Debian's user-mode-linux. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingForNft } from '../../src/iptables/nft-missing.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { errorMessage, FakeTransport, hex, message, type Reply, requests } from '../netlink/wire.ts'

const [GETGEN, NEWTABLE, NEWCHAIN, COMPAT_GET] = [0xa10, 0xa00, 0xa03, 0xb00]
const [EPERM, ENOENT, EINVAL, EOPNOTSUPP] = [1, 2, 22, 95]

function ask(errnos: Readonly<Record<number, number>>): Promise<string | undefined> {
  const transport = new FakeTransport((datagram): Reply[] =>
    requests(datagram).flatMap(({ type, flags, sequence }) => {
      const errno = errnos[type]
      if (errno !== undefined) return [errorMessage(errno, sequence)]
      if (type === GETGEN || type === COMPAT_GET) return [message(type, 0, sequence, hex('02000000'))]
      return (flags & 4) === 0 ? [] : [errorMessage(0, sequence)]
    }),
  )
  return missingForNft(new NetlinkConnection(transport, { timeoutMs: 200 }), ['IPv4', 'IPv6'])
}

test('missingForNft names the part that is not there', async () => {
  const rows: readonly (readonly [errnos: Readonly<Record<number, number>>, missing: string | undefined])[] = [
    [{ [NEWTABLE]: EOPNOTSUPP, [NEWCHAIN]: ENOENT }, 'nf_tables for IPv4'],
    [{ [GETGEN]: EINVAL }, 'nf_tables'],
    [{ [NEWCHAIN]: ENOENT }, 'nft_chain_nat for IPv4'],
    [{ [COMPAT_GET]: EINVAL }, 'nft_compat'],
    // The layer is there; that it does not know this match is another matter.
    [{ [COMPAT_GET]: ENOENT }, undefined],
    [{}, undefined],
  ]
  for (const [errnos, missing] of rows) assert.equal(await ask(errnos), missing, JSON.stringify(errnos))
})

test('missingForNft concludes nothing from a refusal for want of a capability', async () => {
  await assert.rejects(ask({ [GETGEN]: EPERM }), { code: 'EPERM' })
})
