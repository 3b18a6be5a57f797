/**
 * The ipset subsystem on the wire: requests compared with bytes made by hand from
 * linux/netfilter/ipset/ip_set.h, replies as recorded from a kernel.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { definitionOf, type SetDefinition } from '../../src/ipset/catalogue.ts'
import { decodeEntries, encodeEntries, MAX_ENTRIES } from '../../src/ipset/codec-entry.ts'
import { decodeHeader } from '../../src/ipset/codec-header.ts'
import {
  decodeVersions,
  encodeCreate,
  encodeDestroy,
  encodeList,
  encodePair,
  encodeProtocol,
  encodeType,
} from '../../src/ipset/codec.ts'
import { parametersOf } from '../../src/ipset/diff.ts'
import { formatEntry } from '../../src/ipset/entry-text.ts'
import type { SetEntry } from '../../src/ipset/types.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { CodedError } from '../../src/values/errors.ts'
import { datagramOf, hex, onlyMessage, toHex } from '../netlink/wire.ts'
import { partsFor, someSet } from './arbitraries.ts'

/** Attributes and header of the messages, without length, sequence and port id. */
function encoded(encode: (batch: MessageBatch) => void): string {
  const batch = new MessageBatch(64)
  encode(batch)
  const bytes = toHex(batch.bytes)
  assert.equal(new DataView(batch.bytes.slice().buffer).getUint32(0, true), batch.bytes.length)
  return bytes.slice(8, 16) + bytes.slice(32)
}

const plain = (text: string): string => toHex(hex(text))

function definition(name: string): SetDefinition {
  const set = definitionOf(name)
  assert.ok(set)
  return set
}

const CLUSTER_IP = definition('KUBE-CLUSTER-IP')
const SOURCES = definition('KUBE-6-LOAD-BALANCER-SOURCE-CID')
const NODE_PORTS = definition('KUBE-NODE-PORT-TCP')
const PROTOCOL = '05000100 07000000'
const NAME = '14000200 4b5542452d434c55535445522d495000'

describe('requests', () => {
  it('encodeProtocol', () => assert.equal(encoded(encodeProtocol), plain(`01060100 00000000 ${PROTOCOL}`)))

  it('encodeCreate of a hash set: family, buckets and capacity, all in network order', () => {
    assert.equal(
      encoded((batch) =>
        encodeCreate(batch, CLUSTER_IP.name, CLUSTER_IP.type, parametersOf(CLUSTER_IP), { exclusive: true }),
      ),
      plain(`02060106 02000000 ${PROTOCOL} ${NAME}
        11000300 686173683a69702c706f727400000000
        05000400 05000000 05000500 02000000
        14000780 08001240 00000400 08001340 00010000`),
    )
  })

  it('encodeCreate of a bitmap: no family, its range', () => {
    assert.equal(
      encoded((batch) => encodeCreate(batch, NODE_PORTS.name, NODE_PORTS.type, parametersOf(NODE_PORTS))),
      plain(`02060104 00000000 ${PROTOCOL} 17000200 4b5542452d4e4f44452d504f52542d54435000 00
        10000300 6269746d61703a706f727400
        05000400 03000000 05000500 00000000
        14000780 06000440 00000000 06000540 ffff0000`),
    )
  })

  it('encodeEntries of IPv4 addresses with ports', () => {
    assert.equal(
      encoded((batch) => encodeEntries(batch, 'ADD', CLUSTER_IP, ['10.96.0.1,tcp:443', '10.96.0.10,udp:53'])),
      plain(`09060100 02000000 ${PROTOCOL} ${NAME} 08000900 00000000
        44000880
          20000780 0c000180 08000140 0a600001 06000440 01bb0000 05000700 06000000
          20000780 0c000180 08000140 0a60000a 06000440 00350000 05000700 11000000`),
    )
  })

  it('encodeEntries of an IPv6 network', () => {
    assert.equal(
      encoded((batch) => encodeEntries(batch, 'DEL', SOURCES, ['2001:db8::1,sctp:53,fd00::/64'])),
      plain(`0a060100 0a000000 ${PROTOCOL} 24000200 ${Buffer.from('KUBE-6-LOAD-BALANCER-SOURCE-CID\0').toString('hex')}
        08000900 00000000
        50000880 4c000780
          18000180 14000240 20010db8000000000000000000000001
          06000440 00350000 05000700 84000000
          18001480 14000240 fd000000000000000000000000000000
          05001500 40000000`),
    )
  })

  it('encodeEntries of bitmap ports', () => {
    assert.equal(
      encoded((batch) => encodeEntries(batch, 'ADD', NODE_PORTS, ['30080'], 'x')),
      plain(`09060100 02000000 ${PROTOCOL} 06000200 78000000 08000900 00000000
        10000880 0c000780 06000440 75800000`),
    )
  })

  it('encodeEntries refuses a text that is no entry, and adds nothing to the batch', () => {
    const batch = new MessageBatch()
    assert.throws(() => encodeEntries(batch, 'ADD', CLUSTER_IP, ['10.96.0.1,tcp:443', '10.96.0.1']), {
      code: 'ipset-entry-invalid',
    })
    assert.equal(batch.bytes.length, 0)
  })

  it('encodeEntries has room for MAX_ENTRIES entries of the longest kind', () => {
    const batch = new MessageBatch()
    const entries = Array.from({ length: MAX_ENTRIES }, () => '2001:db8:1::1,sctp:65535,fd00:1:2:3::/64')
    encodeEntries(batch, 'ADD', SOURCES, entries)
    assert.equal(batch.count, 1)
  })

  it('encodeDestroy, encodePair, encodeList, encodeType', () => {
    const x = '06000200 78000000'
    assert.equal(
      encoded((batch) => encodeDestroy(batch, 'x')),
      plain(`03060100 00000000 ${PROTOCOL} ${x}`),
    )
    const pair = `${x} 06000300 79000000`
    assert.equal(
      encoded((batch) => encodePair(batch, 'SWAP', 'x', 'y')),
      plain(`06060100 00000000 ${PROTOCOL} ${pair}`),
    )
    assert.equal(
      encoded((batch) => encodePair(batch, 'RENAME', 'x', 'y')),
      plain(`05060100 00000000 ${PROTOCOL} ${pair}`),
    )
    assert.equal(
      encoded((batch) => encodeList(batch, undefined, true)),
      plain(`07060103 00000000 ${PROTOCOL} 08000640 00000004`),
    )
    assert.equal(
      encoded((batch) => encodeList(batch, 'x', false)),
      plain(`07060103 00000000 ${PROTOCOL} ${x}`),
    )
    assert.equal(
      encoded((batch) => encodeType(batch, 'hash:ip', 'IPv6')),
      plain(`0d060100 0a000000 ${PROTOCOL} 0c000300 686173683a697000 05000500 0a000000`),
    )
  })
})

/** Replies of Linux 6.18. */
const REPLIES = {
  protocol: '2400000001060000010000009e6e000002000000050001000700000005000a0006000000',
  type: '480000000d060000010000009e6e000002000000050001000700000011000300686173683a69702c706f7274000000000500050002000000050004000700000005000a0000000000',
  clusterIp:
    'bc00000007060200010000009e6e0000020000000500010007000000140002004b5542452d434c55535445522d49500011000300686173683a69702c706f7274000000000500050002000000050004000700000006000b40000000003c00078008001240000004000800134000010000050015000c00000008001140d3d89626080019400000000008001a4000000108080018400000000124000880200007800c000180080001000a6000010600044001bb00000500070006000000',
  sources:
    '3401000007060200010000009e6e0000020000000500010007000000240002004b5542452d362d4c4f41442d42414c414e4345522d534f555243452d4349440015000300686173683a69702c706f72742c6e657400000000050005000a000000050004000800000006000b40000100004c000780080012400000040008001340000003e8050015000c00000008001140032f39ec080019400000000008001a40000005980800184000000001080006400000012c08000840000000187800088074000780180001801400020020010db80000000000000000000000011800148014000200fd0000000000000000000000000000000600044000350000050015004000000005000700110000000800084000000004080006400000012b0c00184000000000000000000c0019400000000000000000',
  nodePorts:
    '9800000007060200010000009e6e0000020000000500010007000000170002004b5542452d4e4f44452d504f52542d5443500000100003006269746d61703a706f7274000500050000000000050004000300000006000b40000200002c0007800600044075300000060005407fff0000080019400000000008001a40000001a80800184000000001100008800c0007800600044075800000',
} as const

const reply = (name: keyof typeof REPLIES): ReceivedMessage => onlyMessage(hex(REPLIES[name]))

function entriesIn(message: ReceivedMessage, set: string): SetEntry[] {
  const entries: SetEntry[] = []
  decodeEntries(message, set, (entry) => void entries.push(entry))
  return entries
}

describe('replies', () => {
  it('decodeVersions', () => {
    assert.deepEqual(decodeVersions(reply('protocol'), 'PROTOCOL'), { lowest: 6, highest: 7 })
    assert.deepEqual(decodeVersions(reply('type'), 'TYPE'), { lowest: 0, highest: 7 })
  })

  it('decodeHeader', () => {
    assert.deepEqual(decodeHeader(reply('clusterIp')), {
      name: 'KUBE-CLUSTER-IP',
      type: 'hash:ip,port',
      family: 'IPv4',
      maxElements: 65_536,
      firstPort: 0,
      lastPort: 0,
      hashSize: 1024,
      references: 0,
      elements: 1,
      extras: '',
    })
    assert.deepEqual(decodeHeader(reply('sources')), {
      name: 'KUBE-6-LOAD-BALANCER-SOURCE-CID',
      type: 'hash:ip,port,net',
      family: 'IPv6',
      maxElements: 1000,
      firstPort: 0,
      lastPort: 0,
      hashSize: 1024,
      references: 0,
      elements: 1,
      extras: 'comment counters timeout 300',
    })
    assert.deepEqual(decodeHeader(reply('nodePorts')), {
      name: 'KUBE-NODE-PORT-TCP',
      type: 'bitmap:port',
      family: undefined,
      maxElements: 0,
      firstPort: 30_000,
      lastPort: 32_767,
      hashSize: 0,
      references: 0,
      elements: 1,
      extras: '',
    })
  })

  it('decodeEntries', () => {
    assert.deepEqual(entriesIn(reply('clusterIp'), 'a'), [{ set: 'a', entry: '10.96.0.1,tcp:443' }])
    assert.deepEqual(entriesIn(reply('sources'), 'b'), [
      { set: 'b', entry: '2001:db8::1,udp:53,fd00::/64', noMatch: true },
    ])
    assert.deepEqual(entriesIn(reply('nodePorts'), 'c'), [{ set: 'c', entry: '30080' }])
  })

  it('decodeHeader treats a message without a type as the continuation of the set before', () => {
    assert.equal(
      decodeHeader(onlyMessage(hex(`24000000 07060200 01000000 00000000 02000000 ${PROTOCOL} 06000200 78000000`))),
      undefined,
    )
  })

  it('decoding reverses encoding, for every type', () => {
    const any = someSet.chain((set) =>
      fc.array(partsFor(set).map(formatEntry), { minLength: 1, maxLength: 5 }).map((entries) => ({ set, entries })),
    )
    fc.assert(
      fc.property(any, ({ set, entries }) => {
        const batch = new MessageBatch()
        encodeEntries(batch, 'ADD', set, entries)
        // A listed set has the same parts, except for the command's number.
        const bytes = batch.bytes.slice()
        bytes[4] = 7
        assert.deepEqual(
          entriesIn(onlyMessage(bytes), set.name),
          entries.map((entry) => ({ set: set.name, entry })),
        )
      }),
    )
  })

  it('malformed replies are coded errors, for any wrong byte and any length', () => {
    const read = (message: ReceivedMessage): void => {
      decodeHeader(message)
      entriesIn(message, 'x')
    }
    const names = fc.constantFrom('clusterIp' as const, 'sources' as const, 'nodePorts' as const)
    let refused = 0
    fc.assert(
      fc.property(names, fc.nat(), fc.nat(255), fc.boolean(), (name, place, value, cut) => {
        const bytes = hex(REPLIES[name]).slice()
        const at = 16 + (place % (bytes.length - 16))
        if (!cut) bytes[at] = value
        try {
          read({
            ...datagramOf(bytes),
            type: 0x607,
            flags: 2,
            sequence: 1,
            portId: 0,
            start: 16,
            end: cut ? at : bytes.length,
          })
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
          refused++
        }
      }),
      { numRuns: 2000 },
    )
    assert.ok(refused > 100)
  })

  it('a reply to another request is malformed', () => {
    assert.throws(() => decodeHeader(reply('protocol')), { code: 'netlink-malformed' })
    assert.throws(() => decodeVersions(reply('clusterIp'), 'TYPE'), { code: 'netlink-malformed' })
  })
})
