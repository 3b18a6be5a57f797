/** The results of nft-support on kernels that lack a part. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import {
  encodeGetExtension,
  encodeTrial,
  hasExtension,
  hasNftCompat,
  missingForNft,
  tryNftFamily,
} from '../../src/nftables/support.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { hasSubsystem } from '../../src/netlink/subsystems.ts'
import type { UnusableFamilies } from '../../src/values/protocol.ts'
import { errorMessage, FakeTransport, hex, message, type Reply, requests, toHex } from '../netlink/wire.ts'

const [EPERM, ENOENT, EINVAL, EPROTONOSUPPORT, EOPNOTSUPP] = [1, 2, 22, 93, 95]

/**
 * A kernel that answers message `index` of a datagram with an errno, or a reply of its type where
 * that is undefined.
 */
function kernel(...errnos: readonly (number | undefined)[]): NetlinkConnection {
  const transport = new FakeTransport((datagram) =>
    requests(datagram).flatMap(({ type, flags, sequence }, index) => {
      const errno = errnos[index]
      if (errno === undefined) return [message(type, 0, sequence, hex('02000000'))]
      return errno !== 0 || (flags & 4) !== 0 ? [errorMessage(errno, sequence)] : []
    }),
  )
  return new NetlinkConnection(transport, { timeoutMs: 200 })
}

describe('hasExtension', () => {
  it('asks for revision 0 of the name', () => {
    const batch = new MessageBatch(16)
    encodeGetExtension(batch, { kind: 'target', name: 'MARK' }, 'IPv6')
    const expected =
      '30000000 000b 0100 00000000 00000000 0a000000 0900 0100 4d41524b00 000000 0800 0200 00000000 0800 0300 00000001'
    assert.equal(toHex(batch.bytes), toHex(hex(expected)))
  })

  it('accepts any revision, and rejects for other errors', async () => {
    const rows: [errno: number | undefined, extension: boolean, compat: boolean][] = [
      [undefined, true, true],
      [EPROTONOSUPPORT, true, true],
      [ENOENT, false, true],
      [EINVAL, false, false],
    ]
    for (const [errno, extension, compat] of rows) {
      assert.equal(await hasExtension(kernel(errno), { kind: 'match', name: 'ipvs' }, 'IPv4'), extension, `${errno}`)
      assert.equal(await hasNftCompat(kernel(errno)), compat, `${errno}`)
    }
    await assert.rejects(hasExtension(kernel(EPERM), { kind: 'match', name: 'ipvs' }, 'IPv4'), { code: 'EPERM' })
  })
})

describe('hasSubsystem', () => {
  it('distinguishes a missing subsystem from a refusal', async () => {
    assert.equal(await hasSubsystem(kernel(undefined), 'ctnetlink'), true)
    assert.equal(await hasSubsystem(kernel(EINVAL), 'nf_tables'), false)
    await assert.rejects(hasSubsystem(kernel(EPERM), 'nf_tables'), { code: 'EPERM' })
  })
})

describe('tryNftFamily', () => {
  it('never sends the end of the transaction', () => {
    const batch = new MessageBatch(16)
    encodeTrial(batch, 'IPv4')
    const types = requests(batch.bytes).map(({ type }) => type)
    assert.deepEqual(types, [0x10, 0x0a00, 0x0a03], 'NFNL_MSG_BATCH_END is 0x11')
  })

  it('reports what the kernel lacks', async () => {
    const rows: [table: number, chain: number, expected: string][] = [
      [0, 0, 'works'],
      [EOPNOTSUPP, ENOENT, 'no-family'],
      [0, ENOENT, 'no-nat'],
      [0, EOPNOTSUPP, 'no-nat'],
    ]
    for (const [table, chain, expected] of rows)
      assert.equal(await tryNftFamily(kernel(0, table, chain), 'IPv4'), expected)
    await assert.rejects(tryNftFamily(kernel(0, EPERM, 0), 'IPv4'), { code: 'EPERM' })
  })
})

const [GETGEN, NEWTABLE, COMPAT_GET] = [0xa10, 0xa00, 0xb00]

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

test('missingForNft names the missing part in each family', async () => {
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
    // nft_compat answers, even if it does not have this match.
    [{ [COMPAT_GET]: ENOENT }, {}],
    [{}, {}],
  ]
  for (const [errnos, missing] of rows) assert.deepEqual(await ask(errnos), missing, JSON.stringify(errnos))
})

test('missingForNft rejects when the kernel refuses for lack of a capability', async () => {
  for (const type of [GETGEN, NEWTABLE, COMPAT_GET]) await assert.rejects(ask({ [type]: EPERM }), { code: 'EPERM' })
})
