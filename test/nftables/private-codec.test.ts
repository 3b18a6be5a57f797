/** The messages about private tables: their bytes, what is read from them, and what is malformed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type MessageBatch, requestOf } from '../../src/netlink/batch.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { decodeChain, decodePrivateRule, encodeNewChain, encodeRule } from '../../src/nftables/chain-codec.ts'
import { encodeElements, MAX_ELEMENTS, MAX_MAP_ELEMENTS } from '../../src/nftables/element-codec.ts'
import { decodeSet, encodeNetworks, encodeNewSet, NetworksDecoder } from '../../src/nftables/set-codec.ts'
import { decodeStatements } from '../../src/nftables/statement-decoder.ts'
import { decodePrivateTable, encodeNewTable } from '../../src/nftables/table-codec.ts'
import { NFT_TABLE } from '../../src/nftables/kind.ts'
import { type NftElement, nftKey, type NftSet } from '../../src/nftables/types.ts'
import { visitMessages } from '../../src/netlink/message.ts'
import { hex, message, onlyMessage, toHex } from '../netlink/wire.ts'
import { someElement, someFamily, someSet } from './arbitraries.ts'
import { elementsOf, INPUT, JUMP, PORT, PORTS, RANGES, received, SERVICE } from './private-messages.ts'

/** NFTA_*_TABLE "kube-ipvs" */
const TABLE = '0e000100 6b7562652d69707673000000'
/** The payload of the only message: its family, and what follows struct nfgenmsg. */
function payload(encode: (batch: MessageBatch) => void): string {
  const { bytes, start, end } = onlyMessage(requestOf(encode).bytes)
  return toHex(bytes.subarray(start, end))
}

const blanks = (text: string): string => text.replaceAll(/\s/g, '')

describe('a message about a private table', () => {
  it('makes one that belongs to the socket and outlives it', () => {
    // NFTA_TABLE_FLAGS: NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST
    const bytes = `02000000 ${TABLE} 08000200 00000006`
    assert.equal(
      payload((batch) => encodeNewTable(batch, 'IPv4', true)),
      blanks(bytes),
    )
    const table = decodePrivateTable(received((batch) => encodeNewTable(batch, 'IPv4', false)))
    assert.deepEqual(table, { family: 'IPv4', isDormant: false, owner: undefined, isPersistent: false })
  })

  it('makes a set whose type nft knows, in 6 bits for each field, and a map', () => {
    const set = `
      0a000000 ${TABLE} 0a000200 706f727473000000
      08000300 00000000 08000400 0000830d 08000500 00000018 08000a00 00000000
      0a000d00 000400000000 0000`
    assert.equal(
      payload((batch) => encodeNewSet(batch, PORTS)),
      blanks(set),
    )
    // NFTA_SET_DATA_TYPE: NFT_DATA_VERDICT; the second record of the userdata is the order of bytes of the data
    const map = `
      02000000 ${TABLE} 0b000200 72616e6765730000
      08000300 00000008 08000400 0000730d 08000500 0000000c 08000600 ffffff00 08000700 00000000 08000a00 00000000
      10000d00 000400000000 010400000000`
    assert.equal(
      payload((batch) => encodeNewSet(batch, RANGES)),
      blanks(map),
    )
    for (const one of [PORTS, RANGES]) assert.deepEqual(decodeSet(received((batch) => encodeNewSet(batch, one))), one)
  })

  it('makes an anonymous set of networks, with the first address behind each', () => {
    const batch = requestOf((one) =>
      encodeNetworks(one, 'IPv4', { name: '__set%d', id: 3 }, ['10.0.0.0/8', '192.0.2.7']),
    )
    const expected = `
      6c000000 090a 0104 00000000 00000000 02000000 ${TABLE} 0c000200 5f5f736574256400
      08000300 00000007 08000400 00000007 08000500 00000004 08000a00 00000003
      0c000980 08000100 00000005 10000d00 000402000000 020401000000`
    const elements = `
      a4000000 0c0a 0104 00000000 00000000 02000000 ${TABLE} 0c000200 5f5f736574256400 08000400 00000003
      6c000380
      18000180 08000300 00000001 0c000180 08000100 00000000
      10000180 0c000180 08000100 0a000000
      18000180 08000300 00000001 0c000180 08000100 0b000000
      10000180 0c000180 08000100 c0000207
      18000180 08000300 00000001 0c000180 08000100 c0000208`
    assert.equal(toHex(batch.bytes), blanks(expected + elements))
    const decoder = new NetworksDecoder('IPv4')
    visitMessages(batch.bytes, (each) => {
      if ((each.type & 0xff) === 12) decoder.read(each)
    })
    assert.deepEqual(decoder.networks(), ['10.0.0.0/8', '192.0.2.7'])
  })

  it('makes a base chain', () => {
    // NFTA_CHAIN_HOOK { NF_INET_LOCAL_IN, -5 }, policy NF_ACCEPT, type "filter"
    const bytes = `
      02000000 ${TABLE} 07000300 696e0000 14000480 08000100 00000001 08000200 fffffffb
      08000500 00000001 0b000700 66696c7465720000`
    assert.equal(
      payload((batch) => encodeNewChain(batch, INPUT)),
      blanks(bytes),
    )
    assert.deepEqual(decodeChain(received((batch) => encodeNewChain(batch, INPUT))), INPUT)
  })

  it('adds a rule with a comment that nft prints', () => {
    const rule = { statements: [{ kind: 'reject' }], comment: 'refused' } as const
    const encode = (batch: MessageBatch): void => encodeRule(batch, 'IPv4', 'in', rule, 1)
    // NFTA_RULE_USERDATA: record 0, 8 bytes
    const bytes = `
      02000000 ${TABLE} 07000200 696e0000
      28000480 24000180 0b000100 72656a6563740000 14000280 08000100 00000000 05000200 03000000
      0e000700 0008 7265667573656400 0000`
    assert.equal(payload(encode), blanks(bytes))
    const listed = decodePrivateRule(received(encode), 'IPv4')
    assert.equal(listed?.comment, 'refused')
    assert.deepEqual(
      decodeStatements(listed.expressions, 'IPv4', () => undefined),
      rule.statements,
    )
    assert.throws(
      () => requestOf((batch) => encodeRule(batch, 'IPv4', 'in', { ...rule, comment: 'x'.repeat(129) }, 1)),
      {
        code: 'netlink-unencodable',
      },
    )
  })

  it('adds an element with its verdict, and deletes one without', () => {
    const added = `
      02000000 ${TABLE} 0b000200 72616e6765730000
      34000380 30000180
      14000180 10000100 0a600001 06000000 00500000
      18000280 14000280 08000100 fffffffc 07000200 72310000`
    assert.equal(
      payload((batch) => encodeElements(batch, 'NEWSETELEM', 'IPv4', 'ranges', [JUMP])),
      blanks(added),
    )
    const deleted = `
      0a000000 ${TABLE} 0a000200 706f727473000000
      28000380 24000180 20000180 1c000100 fd000000 00000000 00000000 00000001 11000000 00350000`
    assert.equal(
      payload((batch) => encodeElements(batch, 'DELSETELEM', 'IPv6', 'ports', [PORT])),
      blanks(deleted),
    )
  })

  it('with the most elements stays below the length of an attribute', () => {
    const long = `${'fedc:'.repeat(7)}fedc`
    const set: NftSet = { ...RANGES, family: 'IPv6', fields: [...SERVICE, 'saddr'] }
    for (const [length, action] of [
      [MAX_ELEMENTS, undefined],
      [MAX_MAP_ELEMENTS, { kind: 'goto', chain: 'r'.repeat(255) }],
    ] as const) {
      const elements = Array.from({ length }, (_, port): NftElement => {
        const value = `${long} . tcp . ${port} . ${long}`
        const element = { kind: 'element', family: 'IPv6', set: 'ranges', value } as const
        return action === undefined ? element : { ...element, action }
      })
      const given = received((batch) => encodeElements(batch, 'NEWSETELEM', 'IPv6', 'ranges', elements))
      assert.deepEqual(elementsOf(given, set), elements)
    }
  })

  it('has elements as they were written', () => {
    const some = someFamily
      .chain(someSet)
      .chain((set) => fc.tuple(fc.constant(set), fc.array(someElement(set, ['r1']))))
    fc.assert(
      fc.property(some, ([set, elements]) => {
        const given = received((batch) => encodeElements(batch, 'NEWSETELEM', set.family, set.name, elements))
        assert.deepEqual(elementsOf(given, set), elements)
      }),
    )
  })

  it('refuses an element that has no such text', () => {
    for (const value of [
      '',
      'x',
      '0x',
      '0x0',
      `0x${'00'.repeat(65)}`,
      '10.0.0.1 . tcp . 65536',
      '10.0.0.256',
      '1.2.3.4.5 . tcp . 1',
      'fd00::1',
    ])
      assert.throws(
        () => requestOf((batch) => encodeElements(batch, 'NEWSETELEM', 'IPv4', 's', [{ ...JUMP, value }])),
        { code: 'netlink-unencodable' },
        value,
      )
  })
})

describe('what other programs made', () => {
  it('an element whose padding is not zero is another one than that of the same text, and is deleted by its bytes', () => {
    const bytes = requestOf((batch) => encodeElements(batch, 'NEWSETELEM', 'IPv4', 'ranges', [JUMP])).bytes.slice()
    const at = Buffer.from(bytes).indexOf(hex('0a600001 06000000 00500000'))
    for (const [offset, value] of [
      [5, '0x0a6000010601000000500000'],
      [11, '0x0a6000010600000000500001'],
    ] as const) {
      const odd = bytes.slice()
      odd[at + offset] = 1
      assert.deepEqual(elementsOf(onlyMessage(odd), RANGES), [{ ...JUMP, value }])
      assert.deepEqual(
        requestOf((batch) => encodeElements(batch, 'NEWSETELEM', 'IPv4', 'ranges', [{ ...JUMP, value }])).bytes,
        odd,
      )
    }
  })

  it('a set with a timeout, a size, another type or a map of marks is foreign', () => {
    const bytes = toHex(requestOf((batch) => encodeNewSet(batch, RANGES)).bytes)
    const changes: readonly (readonly [from: string, to: string])[] = [
      ['0800030000000008', '0800030000000018'],
      ['080004000000730d', '0800040000000029'],
      ['08000600ffffff00', '0800060000000013'],
      ['080005000000000c', '0800050000000010'],
    ]
    for (const [from, to] of changes) {
      assert.ok(bytes.includes(from))
      const set = decodeSet(onlyMessage(hex(bytes.replace(from, to))))
      assert.equal(set?.kind === 'set' && set.isForeign, true, to)
    }
  })

  it('an element that stands for every value is read and deleted as nft writes it', () => {
    // NFTA_SET_ELEM_FLAGS: NFT_SET_ELEM_CATCHALL, and no key
    const [set, map] = ['0a000200 706f727473000000', '0b000200 72616e6765730000']
    const listed = (family: string, rest: string): ReceivedMessage =>
      onlyMessage(message(0x0a0c, 0, 1, hex(`${family}000000 ${TABLE} ${rest}`)))
    const inSet = listed('0a', `${set} 10000380 0c000180 08000300 00000002`)
    const every: NftElement = { ...PORT, value: '*' }
    assert.deepEqual(elementsOf(inSet, PORTS), [every])
    const inMap = listed('02', `${map} 20000380 1c000180 08000300 00000002 10000280 0c000280 08000100 00000000`)
    assert.deepEqual(elementsOf(inMap, RANGES), [{ ...JUMP, value: '*', action: { kind: 'drop' } }])
    assert.equal(
      payload((batch) => encodeElements(batch, 'DELSETELEM', 'IPv6', 'ports', [every])),
      blanks(`0a000000 ${TABLE} ${set} 10000380 0c000180 08000300 00000002`),
    )
    assert.deepEqual(NFT_TABLE.diff(nftKey(every), undefined, every).map(NFT_TABLE.text), [
      "nft delete element ip6 kube-ipvs ports '{ * }'",
    ])
  })

  it('an element with an expression of its own is foreign, and replaced', () => {
    // NFTA_SET_ELEM_EXPR, NFTA_SET_ELEM_EXPRESSIONS: their contents do not matter.
    for (const expression of ['10000780 0c000100 636f756e74657200', '14000b80 10000180 0c000100 636f756e74657200']) {
      const list = `28000000 24000000 20000180 1c000100 fd000000 00000000 00000000 00000001 11000000 00350000`
      const length = hex(expression).length
      const bytes = hex(`0a000000 ${TABLE} 0a000200 706f727473000000 ${list} ${expression}`)
      const view = new DataView(bytes.buffer, bytes.byteOffset + 4 + hex(TABLE).length + 12)
      view.setUint32(0, ((0x28 + length) << 24) | (3 << 8) | 0x80)
      view.setUint32(4, ((0x24 + length) << 24) | (1 << 8) | 0x80)
      const [element, ...more] = elementsOf(onlyMessage(message(0x0a0c, 0, 1, bytes)), PORTS)
      assert.deepEqual([element, more], [{ ...PORT, isForeign: true }, []])
      assert.deepEqual(NFT_TABLE.diff(nftKey(PORT), PORT, element).map(NFT_TABLE.text), [
        "nft 'delete element ip6 kube-ipvs ports { fd00::1 . udp . 53 }; add element ip6 kube-ipvs ports { fd00::1 . udp . 53 }'",
      ])
    }
  })

  it('a chain with another policy, type or hook is foreign', () => {
    const bytes = toHex(requestOf((batch) => encodeNewChain(batch, INPUT)).bytes)
    for (const [from, to] of [
      ['0800050000000001', '0800050000000000'],
      ['66696c746572', '726f75746500'],
      ['1400048008000100000000010', '1400048008000100000000050'],
    ] as const) {
      assert.ok(bytes.includes(from), from)
      assert.equal(decodeChain(onlyMessage(hex(bytes.replace(from, to))))?.isForeign, true, to)
    }
  })

  it('a table that sees no packets, and one that belongs to another socket', () => {
    // NFTA_TABLE_FLAGS: owner and dormant; NFTA_TABLE_OWNER
    const bytes = hex(`02000000 ${TABLE} 08000200 00000003 08000700 00001234`)
    assert.deepEqual(decodePrivateTable(onlyMessage(message(0x0a00, 0, 1, bytes))), {
      family: 'IPv4',
      isDormant: true,
      owner: 0x1234,
      isPersistent: false,
    })
  })
})
