/** Questions to nf_tables against a played kernel: the bytes that are sent, and what each refusal means. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { encodeGetExtension } from '../../src/iptables/extension-codec.ts'
import { hasExtension, hasNftCompat } from '../../src/iptables/extensions.ts'
import { encodeTrial, tryNftFamily } from '../../src/iptables/nft-trial.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { hasSubsystem } from '../../src/netlink/nfnetlink.ts'
import { errorMessage, FakeTransport, hex, message, requests, toHex } from '../netlink/wire.ts'

const [EPERM, ENOENT, EINVAL, EPROTONOSUPPORT, EOPNOTSUPP] = [1, 2, 22, 93, 95]

/** A kernel that answers message `index` of a datagram with an errno, or a reply of its type where that is undefined. */
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
  it('asks by name for revision 0', () => {
    const batch = new MessageBatch(16)
    encodeGetExtension(batch, { kind: 'target', name: 'MARK' }, 'IPv6')
    const expected =
      '30000000 000b 0100 00000000 00000000 0a000000 0900 0100 4d41524b00 000000 0800 0200 00000000 0800 0300 00000001'
    assert.equal(toHex(batch.bytes), toHex(hex(expected)))
  })

  it('takes any revision, and no answer for another', async () => {
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
  it('knows a missing one from one that refuses', async () => {
    assert.equal(await hasSubsystem(kernel(undefined), 'ctnetlink'), true)
    assert.equal(await hasSubsystem(kernel(EINVAL), 'nf_tables'), false)
    await assert.rejects(hasSubsystem(kernel(EPERM), 'nf_tables'), { code: 'EPERM' })
  })
})

describe('tryNftFamily', () => {
  it('never sends an end of the transaction', () => {
    const batch = new MessageBatch(16)
    encodeTrial(batch, 'IPv4')
    const types = requests(batch.bytes).map(({ type }) => type)
    assert.deepEqual(types, [0x10, 0x0a00, 0x0a03], 'NFNL_MSG_BATCH_END is 0x11')
  })

  it('tells what the kernel lacks', async () => {
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
