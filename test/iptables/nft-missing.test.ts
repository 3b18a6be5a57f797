/** What missingForNft makes of kernels that lack a part; the first row is Debian's user-mode-linux. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingForNft } from '../../src/iptables/nft-missing.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import type { UnusableFamilies } from '../../src/values/protocol.ts'
import { errorMessage, FakeTransport, hex, message, type Reply, requests } from '../netlink/wire.ts'

const [GETGEN, NEWTABLE, COMPAT_GET] = [0xa10, 0xa00, 0xb00]
const [EPERM, ENOENT, EINVAL, EOPNOTSUPP] = [1, 2, 22, 95]

type Errnos = Readonly<Record<number, number | readonly number[]>>

/** A kernel that refuses these messages, all or one after the other, and a table without a name. */
function ask(errnos: Errnos): Promise<UnusableFamilies> {
  const seen = new Map<number, number>()
  const transport = new FakeTransport((datagram): Reply[] =>
    requests(datagram).flatMap(({ type, sequence }) => {
      const refused = errnos[type]
      const count = seen.get(type) ?? 0
      seen.set(type, count + 1)
      const errno = (typeof refused === 'object' ? refused[count] : refused) ?? (type === NEWTABLE ? EINVAL : undefined)
      if (errno !== undefined) return [errorMessage(errno, sequence)]
      return type === GETGEN || type === COMPAT_GET ? [message(type, 0, sequence, hex('02000000'))] : []
    }),
  )
  return missingForNft(new NetlinkConnection(transport, { timeoutMs: 200 }), ['IPv4', 'IPv6'])
}

const inBoth = (reason: string): UnusableFamilies => ({ IPv4: reason, IPv6: reason })

test('missingForNft names the part that is not there, in each family', async () => {
  const rows: readonly (readonly [errnos: Errnos, missing: UnusableFamilies])[] = [
    [
      { [NEWTABLE]: EOPNOTSUPP },
      { IPv4: 'the kernel has no nf_tables for IPv4', IPv6: 'the kernel has no nf_tables for IPv6' },
    ],
    // The table of IPv4 comes first.
    [{ [NEWTABLE]: [EINVAL, EOPNOTSUPP] }, { IPv6: 'the kernel has no nf_tables for IPv6' }],
    [{ [NEWTABLE]: [EINVAL, EOPNOTSUPP], [COMPAT_GET]: EINVAL }, inBoth('the kernel has no nft_compat')],
    [{ [GETGEN]: EINVAL }, inBoth('the kernel has no nf_tables')],
    [{ [COMPAT_GET]: EINVAL }, inBoth('the kernel has no nft_compat')],
    // The layer is there; that it does not know this match is another matter.
    [{ [COMPAT_GET]: ENOENT }, {}],
    [{}, {}],
  ]
  for (const [errnos, missing] of rows) assert.deepEqual(await ask(errnos), missing, JSON.stringify(errnos))
})

test('missingForNft concludes nothing from a refusal for want of a capability', async () => {
  for (const type of [GETGEN, NEWTABLE, COMPAT_GET]) await assert.rejects(ask({ [type]: EPERM }), { code: 'EPERM' })
})
