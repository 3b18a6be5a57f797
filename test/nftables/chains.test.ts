/** The message that lists chains of nf_tables, and the chains in answers of kernels. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeListChains } from '../../src/nftables/chain-message.ts'
import { decodeBaseChain, isBesideIptables, listNftBaseChains } from '../../src/nftables/chains.ts'
import { requestOf } from '../../src/netlink/batch.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { errorMessage, FakeTransport, hex, onlyMessage, requests, toHex } from '../netlink/wire.ts'

/** NFTA_CHAIN_TABLE "wall". */
const TABLE = '0900 0100 77616c6c00 000000'
/** NFTA_CHAIN_NAME "in". */
const NAME = '0700 0300 696e00 00'
/** NFTA_CHAIN_HOOK with NFTA_HOOK_HOOKNUM and NFTA_HOOK_PRIORITY, a signed number. */
const hook = (number: string, priority = '00000000'): string =>
  `1400 0480 0800 0100 000000${number} 0800 0200 ${priority}`
/** NFTA_CHAIN_TYPE "nat". */
const TYPE = '0800 0700 6e617400'
const policy = (number: string): string => `0800 0500 000000${number}`

/** NFT_MSG_NEWCHAIN of a family. */
function chain(family: string, ...attributes: readonly string[]) {
  const body = hex(`${family} 00 0000 ${attributes.join('')}`)
  const length = (16 + body.length).toString(16).padStart(2, '0')
  return onlyMessage(hex(`${length}000000 030a 0200 01000000 00000000 ${toHex(body)}`))
}

test('encodeListChains asks for the chains of all families', () => {
  // The flags are NLM_F_REQUEST, NLM_F_ACK and NLM_F_DUMP.
  const batch = requestOf((message) => encodeListChains(message))
  assert.equal(toHex(batch.seal(1, true)), toHex(hex('14000000 040a 0503 01000000 00000000 00000000')))
})

test('decodeBaseChain reads base chains at the hooks of interest, and no others', () => {
  const rows: readonly (readonly [message: ReturnType<typeof chain>, expected: unknown])[] = [
    [
      chain('01', TABLE, NAME, hook('02'), policy('00')),
      { family: 'inet', table: 'wall', chain: 'in', hook: 'forward', priority: 0, type: '', policy: 'drop' },
    ],
    [
      chain('0a', TABLE, NAME, hook('01'), policy('01')),
      { family: 'ip6', table: 'wall', chain: 'in', hook: 'input', priority: 0, type: '', policy: 'accept' },
    ],
    [
      chain('02', TABLE, NAME, hook('00', 'ffffff9c'), TYPE, policy('01')),
      { family: 'ip', table: 'wall', chain: 'in', hook: 'prerouting', priority: -100, type: 'nat', policy: 'accept' },
    ],
    [chain('02', TABLE, NAME), undefined],
    [chain('07', TABLE, NAME, hook('01')), undefined],
    [chain('05', TABLE, NAME, hook('01')), undefined],
  ]
  for (const [message, expected] of rows) assert.deepEqual(decodeBaseChain(message), expected)
})

test('listNftBaseChains lists none where the kernel has no nf_tables, and rejects what it refuses', async () => {
  const kernel = (errno: number): NetlinkConnection =>
    new NetlinkConnection(
      new FakeTransport((datagram) => requests(datagram).map(({ sequence }) => errorMessage(errno, sequence))),
      { timeoutMs: 200 },
    )
  assert.deepEqual(await listNftBaseChains(kernel(22)), [])
  await assert.rejects(listNftBaseChains(kernel(1)), { code: 'EPERM' })
})

test('isBesideIptables knows the chains of iptables by their table and their name', () => {
  const base = {
    family: 'ip',
    table: 'nat',
    chain: 'PREROUTING',
    hook: 'prerouting',
    priority: -100,
    type: 'nat',
    policy: 'accept',
  } as const
  const rows: readonly (readonly [change: Partial<Parameters<typeof isBesideIptables>[0]>, expected: boolean])[] = [
    [{}, false],
    [{ family: 'ip6', table: 'filter', chain: 'INPUT', hook: 'input' }, false],
    [{ chain: 'prerouting' }, true],
    [{ family: 'inet' }, true],
    [{ table: 'cni_hostport' }, true],
  ]
  for (const [change, expected] of rows) assert.equal(isBesideIptables({ ...base, ...change }), expected)
})
