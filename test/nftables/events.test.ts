/** How announcements of nf_tables are read. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { decodeNftChange, nftEvents } from '../../src/nftables/events.ts'
import type { NftChange } from '../../src/nftables/rule.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import { FakeTransport, hex, join, message, onlyMessage } from '../netlink/wire.ts'

// struct nfgenmsg of AF_INET, then NFTA_RULE_TABLE "nat", NFTA_RULE_CHAIN "OUTPUT"
const IN_OUTPUT = hex('02000001 08000100 6e617400 0b000200 4f555450555400 00')
// AF_INET6; NFTA_RULE_TABLE "filter", NFTA_RULE_CHAIN "KUBE-FORWARD"
const IN_OURS = hex('0a000001 0b000100 66696c74657200 00 11000200 4b5542452d464f525741524400 000000')
// AF_INET; NFTA_CHAIN_TABLE "nat", NFTA_CHAIN_HANDLE 5, NFTA_CHAIN_NAME "X"
const CHAIN = hex('02000001 08000100 6e617400 0c000200 0000000000000005 06000300 5800 0000')
// NFPROTO_INET (1), table "nat"
const OTHER_FAMILY = hex('01000001 08000100 6e617400')
const TABLE = hex('02000001 08000100 6e617400')

test('decodeNftChange reads what the kernel announces', () => {
  const rows: readonly (readonly [type: number, payload: Uint8Array, expected: Partial<NftChange> | undefined])[] = [
    [0x0a06, IN_OUTPUT, { kind: 'rule-added', family: 'IPv4', table: 'nat', chain: 'OUTPUT' }],
    [0x0a08, IN_OURS, { kind: 'rule-deleted', family: 'IPv6', table: 'filter', chain: 'KUBE-FORWARD' }],
    [0x0a03, CHAIN, { kind: 'chain-added', family: 'IPv4', table: 'nat', chain: 'X' }],
    [0x0a05, CHAIN, { kind: 'chain-deleted', family: 'IPv4', table: 'nat', chain: 'X' }],
    [0x0a02, TABLE, { kind: 'table-deleted', family: 'IPv4', table: 'nat', chain: '' }],
    [0x0a00, TABLE, undefined],
    [0x0a0f, TABLE, undefined],
    [0x0606, IN_OUTPUT, undefined],
    [0x0a02, OTHER_FAMILY, undefined],
    [0x0a02, new Uint8Array(2), undefined],
  ]
  for (const [type, payload, expected] of rows) {
    const found = decodeNftChange(onlyMessage(message(type, 0, 0, payload, 77)))
    assert.deepEqual(found, expected && { ...expected, portId: 77 }, type.toString(16))
  }
})

describe('nftEvents', () => {
  const deleted = (portId = 5): Uint8Array => message(0x0a08, 0, 0, IN_OUTPUT, portId)
  const listening = () => {
    const transport = new FakeTransport()
    const events: string[] = []
    const subscription = nftEvents(
      transport,
      ({ kind, portId }) => kind === 'rule-deleted' && portId !== 4711,
      ({ family, chain }) => events.push(`${family} ${chain}`),
      { onOverrun: () => events.push('overrun'), onFailure: () => events.push('failed') },
    )
    subscription.start()
    return { transport, events, subscription }
  }

  it('reports one change for each family, however many there are', () => {
    const { transport, events } = listening()
    transport.deliver(join(deleted(), deleted(), message(0x0a08, 0, 0, IN_OURS)), deleted())
    assert.deepEqual(events, ['IPv4 OUTPUT', 'IPv6 KUBE-FORWARD'])
    transport.deliver(message(0x0a06, 0, 0, IN_OUTPUT))
    assert.equal(events.length, 2)
  })

  it('does not report what does not concern us', () => {
    const { transport, events } = listening()
    transport.deliver(deleted(4711))
    assert.deepEqual(events, [])
  })

  it('reports a loss once, when the queue is empty, and continues', () => {
    const { transport, events } = listening()
    transport.deliver(
      new KernelError(105, 'recvfrom'),
      ...Array.from({ length: 100 }, () => message(0x0a0f, 0, 0, TABLE)),
    )
    assert.deepEqual(events, [])
    transport.deliver(hex('1000'))
    assert.deepEqual(events, ['overrun'])
    transport.deliver(deleted())
    assert.deepEqual(events, ['overrun', 'IPv4 OUTPUT'])
  })

  it('fails with an error of the socket', () => {
    const { transport, events } = listening()
    transport.deliver(deleted(), new KernelError(9, 'recvfrom'))
    assert.deepEqual(events, ['IPv4 OUTPUT', 'failed'])
  })
})
