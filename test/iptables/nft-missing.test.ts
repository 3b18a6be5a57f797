/** What missingForNft makes of kernels that lack a part; the first row is Debian's user-mode-linux. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingForNft } from '../../src/iptables/nft-missing.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { errorMessage, FakeTransport, hex, message, type Reply, requests } from '../netlink/wire.ts'

const [GETGEN, NEWTABLE, COMPAT_GET] = [0xa10, 0xa00, 0xb00]
const [EPERM, ENOENT, EINVAL, EOPNOTSUPP] = [1, 2, 22, 95]

/** A kernel that refuses these messages, and a table without a name. */
function ask(errnos: Readonly<Record<number, number>>): Promise<string | undefined> {
  const transport = new FakeTransport((datagram): Reply[] =>
    requests(datagram).flatMap(({ type, sequence }) => {
      const errno = errnos[type] ?? (type === NEWTABLE ? EINVAL : undefined)
      if (errno !== undefined) return [errorMessage(errno, sequence)]
      return type === GETGEN || type === COMPAT_GET ? [message(type, 0, sequence, hex('02000000'))] : []
    }),
  )
  return missingForNft(new NetlinkConnection(transport, { timeoutMs: 200 }), ['IPv4', 'IPv6'])
}

test('missingForNft names the part that is not there', async () => {
  const rows: readonly (readonly [errnos: Readonly<Record<number, number>>, missing: string | undefined])[] = [
    [{ [NEWTABLE]: EOPNOTSUPP }, 'nf_tables for IPv4'],
    [{ [GETGEN]: EINVAL }, 'nf_tables'],
    [{ [COMPAT_GET]: EINVAL }, 'nft_compat'],
    // The layer is there; that it does not know this match is another matter.
    [{ [COMPAT_GET]: ENOENT }, undefined],
    [{}, undefined],
  ]
  for (const [errnos, missing] of rows) assert.equal(await ask(errnos), missing, JSON.stringify(errnos))
})

test('missingForNft concludes nothing from a refusal for want of a capability', async () => {
  for (const type of [GETGEN, NEWTABLE, COMPAT_GET]) await assert.rejects(ask({ [type]: EPERM }), { code: 'EPERM' })
})
