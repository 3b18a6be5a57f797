/** Flows on the wire: requests compared with bytes made by hand, replies as recorded from Linux 7.2. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  decodeFlow,
  decodeTableSize,
  encodeDeleteFlow,
  encodeDumpFlows,
  encodeTableSize,
  passes,
} from '../../src/conntrack/codec.ts'
import type { Flow } from '../../src/conntrack/types.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { CodedError } from '../../src/values/errors.ts'
import { datagramOf, hex, onlyMessage, toHex } from '../netlink/wire.ts'
import { someFlow } from './arbitraries.ts'
import { dumpedFlow } from './dumped-flow.ts'

const DNS: Flow = {
  family: 'IPv4',
  protocol: 'udp',
  original: { source: '10.244.0.77', sourcePort: 40001, destination: '10.96.0.10', destinationPort: 53, zone: 0 },
  reply: { source: '10.244.0.53', sourcePort: 5353, destination: '10.244.0.77', destinationPort: 40001, zone: 0 },
  zone: 0,
  id: 0x0ecf0d8e,
}
const DNS6: Flow = {
  family: 'IPv6',
  protocol: 'udp',
  original: { source: 'fd00::1', sourcePort: 40001, destination: 'fd00::10', destinationPort: 53, zone: 0 },
  reply: { source: 'fd01::53', sourcePort: 5353, destination: 'fd00::1', destinationPort: 40001, zone: 0 },
  zone: 0,
  id: 0xc4bced66,
}

const ORIGINAL = `34000180 14000180 08000100 0af4004d 08000200 0a60000a
  1c000280 05000100 11000000 06000200 9c410000 06000300 00350000`
const ORIGINAL6 = `4c000180 2c000180 14000300 fd000000 00000000 00000000 00000001 14000400 fd000000 00000000 00000000 00000010
  1c000280 05000100 11000000 06000200 9c410000 06000300 00350000`

function encoded(encode: (batch: MessageBatch) => void): string {
  const batch = new MessageBatch(64)
  encode(batch)
  return toHex(batch.bytes)
}

describe('conntrack requests', () => {
  const rows: readonly (readonly [string, (batch: MessageBatch) => void, string])[] = [
    ['encodeTableSize', encodeTableSize, '14000000 0501 0100 00000000 00000000 00000000'],
    [
      'encodeDumpFlows of a protocol',
      (batch) => encodeDumpFlows(batch, { family: 'IPv4', protocol: 'udp' }),
      `30000000 0101 0103 00000000 00000000 02000000
       10000180 0c000280 05000100 11000000  0c001980 08000100 08000000`,
    ],
    [
      'encodeDumpFlows to one IPv4 address and port',
      (batch) =>
        encodeDumpFlows(batch, { family: 'IPv4', protocol: 'udp', destination: '10.96.0.10', destinationPort: 53 }),
      `44000000 0101 0103 00000000 00000000 02000000
       24000180 0c000180 08000200 0a60000a 14000280 05000100 11000000 06000300 00350000  0c001980 08000100 2a000000`,
    ],
    [
      'encodeDumpFlows to one IPv6 address and port leaves the address to us',
      (batch) =>
        encodeDumpFlows(batch, { family: 'IPv6', protocol: 'sctp', destination: 'fd00::10', destinationPort: 53 }),
      `38000000 0101 0103 00000000 00000000 0a000000
       18000180 14000280 05000100 84000000 06000300 00350000  0c001980 08000100 28000000`,
    ],
    [
      'encodeDeleteFlow IPv4',
      (batch) => encodeDeleteFlow(batch, DNS),
      `50000000 0201 0100 00000000 00000000 02000000 ${ORIGINAL} 08000c00 0ecf0d8e`,
    ],
    [
      'encodeDeleteFlow IPv6',
      (batch) => encodeDeleteFlow(batch, DNS6),
      `68000000 0201 0100 00000000 00000000 0a000000 ${ORIGINAL6} 08000c00 c4bced66`,
    ],
    [
      'encodeDeleteFlow of a zone',
      (batch) => encodeDeleteFlow(batch, { ...DNS, zone: 7 }),
      `58000000 0201 0100 00000000 00000000 02000000 ${ORIGINAL} 06001200 00070000 08000c00 0ecf0d8e`,
    ],
    [
      'encodeDeleteFlow of a zone of its direction',
      (batch) => encodeDeleteFlow(batch, { ...DNS, original: { ...DNS.original, zone: 9 } }),
      `58000000 0201 0100 00000000 00000000 02000000 ${ORIGINAL.replace('34000180', '3c000180')} 06000300 00090000
       08000c00 0ecf0d8e`,
    ],
  ]
  for (const [name, encode, expected] of rows) it(name, () => assert.equal(encoded(encode), toHex(hex(expected))))

  it('encodeDeleteFlow begins with the whole tuple, for every flow', () => {
    fc.assert(
      fc.property(someFlow, (flow) => {
        const bytes = encoded((batch) => encodeDeleteFlow(batch, flow))
        // Behind struct nlmsghdr and struct nfgenmsg: CTA_TUPLE_ORIG, nested, of at least two addresses and two ports.
        assert.equal(bytes.slice(44, 48), '0180')
        const tuple = hex(bytes.slice(40))
        assert.ok((tuple[0] ?? 0) >= (flow.family === 'IPv4' ? 52 : 76))
      }),
    )
  })

  it('encodeDeleteFlow refuses an incomplete tuple', () => {
    const batch = new MessageBatch()
    const { original } = DNS
    assert.throws(() => encodeDeleteFlow(batch, { ...DNS, original: { ...original, source: '' } }))
    assert.throws(() => encodeDeleteFlow(batch, { ...DNS, original: { ...original, destination: 'fd00::1' } }), {
      code: 'netlink-unencodable',
    })
    assert.deepEqual([batch.count, batch.bytes.length], [0, 0])
  })
})

/** Replies of Linux 7.2. */
const REPLIES = {
  udp: 'a400000000012200010000004e000000020000003400018014000180080001000af4004d080002000a60000a1c0002800500010011000000060002009c41000006000300003500003400028014000180080001000af40035080002000af4004d1c00028005000100110000000600020014e90000060003009c4100000800030000000008080008000000000008000c000ecf0d8e08000b00000000010800070000000257',
  udp6: 'd400000000012200010000004e0000000a0000004c0001802c00018014000300fd00000000000000000000000000000114000400fd0000000000000000000000000000101c0002800500010011000000060002009c41000006000300003500004c0002802c00018014000300fd01000000000000000000000000005314000400fd0000000000000000000000000000011c00028005000100110000000600020014e90000060003009c4100000800030000000008080008000000000008000c00c4bced6608000b00000000010800070000000257',
  tcp: 'd400000000012200010000004e000000020000003400018014000180080001000af4004d080002000a60000a1c0002800500010006000000060002009c4200000600030001bb00003400028014000180080001000af40035080002000af4004d1c00028005000100060000000600020020fb0000060003009c4200000800030000000008080008000000000008000c00dae6823c08000b00000000010800070000000257300004802c000180050001000300000005000200000000000500030000000000060004000a000000060005000a000000',
  icmp: 'b400000000012200010000004e000000020000003c00018014000180080001000af4004d080002000a60000a2400028005000100010000000600040000070000050005000800000005000600000000003c00028014000180080001000a60000a080002000af4004d2400028005000100010000000600040000070000050005000000000005000600000000000800030000000008080008000000000008000c009dd5ea0108000b00000000010800070000000257',
  size: '2400000005010200010000004e0000000000000008000100000000040800020000010000',
} as const

const reply = (name: keyof typeof REPLIES): ReceivedMessage => onlyMessage(hex(REPLIES[name]))

describe('conntrack replies', () => {
  it('decodeFlow', () => {
    assert.deepEqual(decodeFlow(reply('udp')), DNS)
    assert.deepEqual(decodeFlow(reply('udp6')), DNS6)
    const tcp = decodeFlow(reply('tcp'))
    assert.deepEqual([tcp?.protocol, tcp?.original.destinationPort, tcp?.reply.sourcePort], ['tcp', 443, 8443])
  })

  it('decodeFlow leaves out flows without ports and flows of other families', () => {
    assert.equal(decodeFlow(reply('icmp')), undefined)
    const other = hex(REPLIES.udp).slice()
    other[16] = 7
    assert.equal(decodeFlow(onlyMessage(other)), undefined)
  })

  it('decodeTableSize', () => assert.deepEqual(decodeTableSize(reply('size')), { flows: 4, limit: 65_536 }))

  it('decoding reverses encoding, in any zone', () => {
    fc.assert(
      fc.property(someFlow, (flow) => {
        assert.deepEqual(decodeFlow(onlyMessage(dumpedFlow(flow))), flow)
      }),
    )
  })

  it('decodeFlow refuses a reply cut at any byte that it needs', () => {
    for (const name of ['udp', 'udp6', 'tcp', 'icmp', 'size'] as const) {
      const { bytes, ...message } = reply(name)
      const whole = name === 'size' ? decodeTableSize : decodeFlow
      for (let end = message.start; end < message.end; end++) {
        const cut = { ...message, ...datagramOf(bytes.slice(0, end)), end }
        try {
          const decoded = whole(cut)
          // A cut between two attributes is not visible; only unused attributes are then missing.
          assert.deepEqual(decoded, name === 'size' ? { flows: 4, limit: undefined } : whole(reply(name)))
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', `${name} at ${end}: ${error}`)
        }
      }
      // A cut inside the tuples is always refused.
      const behindTuples = message.start + 4 + (name === 'size' ? 8 : 104)
      for (let end = message.start; end < behindTuples; end++)
        assert.throws(() => whole({ ...message, ...datagramOf(bytes.slice(0, end)), end }), {
          code: 'netlink-malformed',
        })
    }
  })

  it('malformed replies are coded errors, whatever byte is wrong', () => {
    const names = fc.constantFrom('udp' as const, 'udp6' as const, 'tcp' as const, 'icmp' as const)
    let refused = 0
    fc.assert(
      fc.property(names, fc.nat(), fc.nat(255), (name, place, value) => {
        const { bytes, ...message } = reply(name)
        const wrong = bytes.slice()
        wrong[message.start + (place % (message.end - message.start))] = value
        try {
          decodeFlow({ ...message, ...datagramOf(wrong) })
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
    assert.throws(() => decodeFlow(reply('size')), { code: 'netlink-malformed' })
    assert.throws(() => decodeTableSize(reply('udp')), { code: 'netlink-malformed' })
  })
})

describe('passes', () => {
  for (const [what, filter, expected] of [
    ['its protocol', { family: 'IPv4', protocol: 'udp' }, true],
    ['its address and port', { family: 'IPv4', protocol: 'udp', destination: '10.96.0.10', destinationPort: 53 }, true],
    ['another family', { family: 'IPv6', protocol: 'udp' }, false],
    ['another protocol', { family: 'IPv4', protocol: 'tcp' }, false],
    ['another address', { family: 'IPv4', protocol: 'udp', destination: '10.96.0.11' }, false],
    ['another port', { family: 'IPv4', protocol: 'udp', destinationPort: 54 }, false],
    ['the address that answers', { family: 'IPv4', protocol: 'udp', destination: '10.244.0.53' }, false],
  ] as const)
    it(`${what}: ${expected}`, () => assert.equal(passes(DNS, filter), expected))
})
