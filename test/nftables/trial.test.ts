/** What a kernel lacks for private tables, by the answers to a transaction that has no end. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { tryPrivateTable } from '../../src/nftables/trial.ts'
import type { NftItem } from '../../src/nftables/types.ts'
import { errorMessage, FakeTransport, hex, message, requests } from '../netlink/wire.ts'

const [EPERM, ENOENT, EINVAL, EOPNOTSUPP] = [1, 2, 22, 95]
const [NEWTABLE, NEWCHAIN, NEWRULE, GETGEN] = [0x0a00, 0x0a03, 0x0a06, 0x0a10]
const BATCH_END = 0x11
const { signal } = new AbortController()

const ITEMS: readonly NftItem[] = [
  { kind: 'table', family: 'IPv6', isOwned: false },
  {
    kind: 'chain',
    family: 'IPv6',
    name: 'nat-postrouting',
    hook: { type: 'nat', hook: 'postrouting', priority: 95 },
    rules: [
      { statements: [{ kind: 'new-connection' }, { kind: 'masquerade', isFullyRandom: true }] },
      { statements: [{ kind: 'protocol', protocol: 'tcp' }, { kind: 'reject' }] },
    ],
  },
]

/** A kernel that refuses messages by their type, and by how many of it came before. */
function kernel(refuses: (type: number, index: number, bytes: Uint8Array) => number): FakeTransport {
  return new FakeTransport((datagram) => {
    const counts = new Map<number, number>()
    let at = 0
    return requests(datagram).flatMap(({ type, flags, sequence }) => {
      const bytes = datagram.slice(
        at,
        (at += (new DataView(datagram.buffer, datagram.byteOffset).getUint32(at, true) + 3) & ~3),
      )
      const index = counts.get(type) ?? 0
      counts.set(type, index + 1)
      const errno = refuses(type, index, bytes)
      if (errno !== 0) return [errorMessage(errno, sequence)]
      if (type === GETGEN) return [message(0x0a0f, 0, sequence, hex('00000000'))]
      return (flags & 4) === 0 ? [] : [errorMessage(0, sequence)]
    })
  })
}

const trial = (transport: FakeTransport): ReturnType<typeof tryPrivateTable> =>
  tryPrivateTable(new NetlinkConnection(transport, { timeoutMs: 200 }), ITEMS, { signal })

describe('a trial of private tables', () => {
  it('is never committed, and tries each statement that needs a module once', async () => {
    const transport = kernel(() => 0)
    assert.deepEqual(await trial(transport), { lacks: undefined, mayOwn: true })
    const types = requests(transport.sent[1] ?? hex('')).map(({ type }) => type)
    assert.deepEqual(types, [0x10, NEWTABLE, NEWTABLE, NEWCHAIN, NEWRULE, NEWRULE, NEWRULE, NEWCHAIN])
    assert.ok(!types.includes(BATCH_END))
  })

  it('names what is missing, and its module', async () => {
    const has = (bytes: Uint8Array, name: string): boolean => Buffer.from(bytes).includes(`${name}\0`)
    const cases: readonly (readonly [refuses: Parameters<typeof kernel>[0], remedy: string])[] = [
      [(type, _, bytes) => (type === NEWRULE && has(bytes, 'masq') ? ENOENT : 0), 'module nft_masq'],
      [(type, _, bytes) => (type === NEWRULE && has(bytes, 'reject') ? ENOENT : 0), 'module nft_reject_ipv6'],
      [(type, _, bytes) => (type === NEWRULE && has(bytes, 'ct') ? ENOENT : 0), 'module nft_ct'],
      [(type, index) => (type === NEWCHAIN && index === 1 ? ENOENT : 0), 'module nft_chain_nat'],
      [(type) => (type === NEWTABLE ? EOPNOTSUPP : 0), 'module nf_tables'],
      [(type) => (type === GETGEN ? EINVAL : 0), 'module nf_tables'],
    ]
    for (const [refuses, remedy] of cases) {
      const { lacks } = await trial(kernel(refuses))
      assert.equal(lacks?.code, 'nftables-missing')
      assert.equal(lacks.remedy, remedy)
    }
  })

  it('says where tables cannot belong to a socket and outlive it, which is nothing missing', async () => {
    const older = kernel((type, index) => (type === NEWTABLE && index === 1 ? EOPNOTSUPP : 0))
    assert.deepEqual(await trial(older), { lacks: undefined, mayOwn: false })
  })

  it('rejects where this process may change nothing', async () => {
    await assert.rejects(trial(kernel((type) => (type === 0x10 ? EPERM : 0))), { code: 'EPERM' })
  })
})
