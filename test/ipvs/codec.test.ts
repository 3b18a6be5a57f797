/**
 * The IPVS family on the wire: requests compared with bytes made by hand from linux/ip_vs.h,
 * replies as recorded from Linux 7.2.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { decodeDestination, encodeDestination, encodeDestinationId } from '../../src/ipvs/codec-destinations.ts'
import {
  decodeService,
  decodeServiceTraffic,
  encodeService,
  encodeServiceId,
  type ServiceFields,
} from '../../src/ipvs/codec-servers.ts'
import { decodeInfo, decodeTimeouts, encodeTimeouts } from '../../src/ipvs/codec.ts'
import { beginIpvs } from '../../src/ipvs/batch.ts'
import type { ForwardingMethod, RealServer, VirtualServerFields } from '../../src/ipvs/types.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { readAddress } from '../../src/values/address.ts'
import { CodedError } from '../../src/values/errors.ts'
import { hex, message, onlyMessage, toHex } from '../netlink/wire.ts'

const FAMILY_ID = 0x17

const SH: VirtualServerFields = {
  family: 'IPv4',
  address: '10.96.0.1',
  port: 443,
  protocol: 'tcp',
  scheduler: 'sh',
  flags: 0x19,
  timeoutSeconds: 10800,
  netmask: 0xffffff00,
  persistenceEngine: '',
}
const DNS6: VirtualServerFields = {
  family: 'IPv6',
  address: 'fd00::a',
  port: 53,
  protocol: 'udp',
  scheduler: 'rr',
  flags: 0,
  timeoutSeconds: 0,
  netmask: 128,
  persistenceEngine: '',
}
const SERVER4: RealServer = {
  address: '10.244.0.5',
  port: 8443,
  weight: 100,
  forwarding: 'masquerade',
  upperThreshold: 9,
  lowerThreshold: 3,
}
const SERVER6: RealServer = {
  address: 'fd01::5',
  port: 5353,
  weight: 0,
  forwarding: 'masquerade',
  upperThreshold: 0,
  lowerThreshold: 0,
}

const ID4 = '0600 0100 02000000  0600 0200 06000000  1400 0300 0a600001 00000000 00000000 00000000  0600 0400 01bb0000'
const ID6 = '0600 0100 0a000000  0600 0200 11000000  1400 0300 fd000000 00000000 00000000 0000000a  0600 0400 00350000'

describe('IPVS requests', () => {
  const rows: readonly (readonly [string, (batch: MessageBatch) => void, string])[] = [
    [
      'NEW_SERVICE IPv4, persistent, sh with both flags',
      (b) => (beginIpvs(b, FAMILY_ID, 'NEW_SERVICE'), encodeService(b, SH)),
      `68000000 1700 0100 00000000 00000000  01010000  5400 0180 ${ID4}
       0700 0600 73680000  0c00 0700 19000000 ffffffff  0800 0800 302a0000  0800 0900 ffffff00`,
    ],
    [
      'SET_SERVICE IPv6 with a persistence engine',
      (b) => (beginIpvs(b, FAMILY_ID, 'SET_SERVICE'), encodeService(b, { ...DNS6, persistenceEngine: 'sip' })),
      `70000000 1700 0100 00000000 00000000  02010000  5c00 0180 ${ID6}
       0700 0600 72720000  0800 0b00 73697000  0c00 0700 00000000 ffffffff  0800 0800 00000000  0800 0900 80000000`,
    ],
    [
      'DEL_SERVICE',
      (b) => (beginIpvs(b, FAMILY_ID, 'DEL_SERVICE'), encodeServiceId(b, SH)),
      `44000000 1700 0100 00000000 00000000  03010000  3000 0180 ${ID4}`,
    ],
    [
      'GET_SERVICE of a mark',
      (b) => (beginIpvs(b, FAMILY_ID, 'GET_SERVICE'), encodeServiceId(b, { family: 'IPv6', fwmark: 7 })),
      '28000000 1700 0100 00000000 00000000  04010000  1400 0180 0600 0100 0a000000  0800 0500 07000000',
    ],
    [
      'GET_SERVICE of all',
      (b) => beginIpvs(b, FAMILY_ID, 'GET_SERVICE', 'dump'),
      '14000000 1700 0103 00000000 00000000  04010000',
    ],
    [
      'NEW_DEST',
      (b) => (beginIpvs(b, FAMILY_ID, 'NEW_DEST'), encodeServiceId(b, SH), encodeDestination(b, SERVER4)),
      `8c000000 1700 0100 00000000 00000000  05010000  3000 0180 ${ID4}
       4800 0280 0600 0b00 02000000  1400 0100 0af40005 00000000 00000000 00000000  0600 0200 20fb0000
       0800 0300 00000000  0800 0400 64000000  0800 0500 09000000  0800 0600 03000000`,
    ],
    [
      'DEL_DEST',
      (b) => (beginIpvs(b, FAMILY_ID, 'DEL_DEST'), encodeServiceId(b, DNS6), encodeDestinationId(b, SERVER6)),
      `6c000000 1700 0100 00000000 00000000  07010000  3000 0180 ${ID6}
       2800 0280 0600 0b00 0a000000  1400 0100 fd010000 00000000 00000000 00000005  0600 0200 14e90000`,
    ],
    [
      'SET_CONFIG',
      (b) => (
        beginIpvs(b, FAMILY_ID, 'SET_CONFIG'),
        encodeTimeouts(b, { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 })
      ),
      '2c000000 1700 0100 00000000 00000000  0c010000  0800 0400 84030000  0800 0500 78000000  0800 0600 2c010000',
    ],
  ]
  for (const [name, encode, expected] of rows)
    it(`${name} has the bytes of the header`, () => {
      const batch = new MessageBatch(16)
      encode(batch)
      batch.end()
      const bytes = hex(expected)
      assert.equal(toHex(batch.bytes), toHex(bytes))
      assert.equal(new DataView(bytes.buffer).getUint32(0, true), bytes.length)
    })

  for (const field of ['scheduler', 'persistenceEngine'] as const)
    it(`a ${field} that the kernel would refuse is not sent`, () => {
      for (const name of ['x'.repeat(16), 'a\0b'])
        assert.throws(() => encodeService(new MessageBatch().begin(1, 0, 'X'), { ...SH, [field]: name }), {
          code: 'netlink-unencodable',
        })
    })
})

/** Ten counters of 64 bit: 1, 2, 3, 2^32 + 4, 5 … 10. */
const STATS64 = Array.from(
  { length: 10 },
  (_, i) =>
    `0c00 ${(i + 1).toString(16).padStart(2, '0')}00 ${(i + 1).toString(16).padStart(2, '0')}000000 ${i === 3 ? '01' : '00'}000000`,
).join(' ')
/** Ten counters as in struct ip_vs_stats_user: bytes in 64 bit, the rest in 32; all of them 7. */
const STATS = Array.from({ length: 10 }, (_, i) =>
  i === 3 || i === 4
    ? `0c00 0${i + 1}00 07000000 00000000`
    : `0800 ${(i + 1).toString(16).padStart(2, '0')}00 07000000`,
).join(' ')

function reply(command: number, nest: number, ...attributes: string[]): ReceivedMessage {
  const inner = hex(attributes.join(' '))
  const header = Buffer.alloc(8)
  header[0] = command
  header[1] = 1
  header.writeUInt16LE(inner.length + 4, 4)
  header.writeUInt16LE(nest, 6)
  return onlyMessage(message(FAMILY_ID, 2, 2, new Uint8Array(Buffer.concat([header, inner]))))
}

const SERVICE4 = [ID4, '0700 0600 73680000', '0c00 0700 1b000000 ffffffff', '0800 0800 302a0000', '0800 0900 ffffff00']
const SERVICE6 = [ID6, '0700 0600 72720000', '0c00 0700 02000000 ffffffff', '0800 0800 00000000', '0800 0900 80000000']
const MARK = [
  '0600 0100 02000000',
  '0800 0500 07000000',
  '0800 0600 776c6300',
  '0c00 0700 02000000 ffffffff',
  '0800 0800 00000000',
  '0800 0900 ffffffff',
]
const DESTINATION4 = [
  '1400 0100 0af40005 00000000 00000000 00000000  0600 0200 20fb0000  0800 0300 00000000  0800 0400 64000000',
  '0500 0d00 00000000  0600 0e00 00000000  0600 0f00 00000000  0800 0500 09000000  0800 0600 03000000',
  '0800 0700 0b000000  0800 0800 0c000000  0800 0900 0d000000',
]
const COUNTS = { activeConnections: 11, inactiveConnections: 12, persistentConnections: 13 }
const TRAFFIC64 = [1, 2, 3, 0x1_0000_0004, 5]

/** The same attributes, each with eight more bytes, as hexadecimal text. */
function lengthened(attributes: Uint8Array): string {
  const bytes = Buffer.from(attributes)
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt16LE(at)
    const longer = Buffer.alloc((length + 8 + 3) & ~3)
    bytes.copy(longer, 0, at, at + length)
    longer.writeUInt16LE(length + 8)
    text += longer.toString('hex')
    at += (length + 3) & ~3
  }
  return text
}

const stats = (text: string, type: string): string => `${(hex(text).length + 4).toString(16)}00 ${type}00 ${text}`

/** The key and the counters that decodeServiceTraffic reads of a reply. */
function trafficOf(message: ReceivedMessage): readonly [string | undefined, readonly number[]] {
  const traffic = new Float64Array(5)
  const key = decodeServiceTraffic(message, traffic)
  return [key, Array.from(traffic)]
}

describe('IPVS replies', () => {
  it('decodeService reads IPv4 without the flag that only the kernel sets', () => {
    assert.deepEqual(decodeService(reply(1, 1, ...SERVICE4)), { kind: 'address', fields: SH })
  })

  it('decodeService reads IPv6 with a prefix length as netmask', () => {
    assert.deepEqual(decodeService(reply(1, 1, ...SERVICE6)), { kind: 'address', fields: DNS6 })
  })

  it('decodeService reads a mark and a persistence engine, and skips unknown attributes', () => {
    const fields = {
      family: 'IPv4',
      fwmark: 7,
      scheduler: 'wlc',
      flags: 0,
      timeoutSeconds: 0,
      netmask: 0xffffffff,
      persistenceEngine: 'sip',
    }
    assert.deepEqual(decodeService(reply(1, 1, ...MARK, '0800 0b00 73697000', '0800 6300 12345678')), {
      kind: 'fwmark',
      fields,
    })
  })

  it('decodeDestination uses the family of the service for a destination without one', () => {
    assert.deepEqual(decodeDestination(reply(5, 2, ...DESTINATION4), 'IPv4'), { realServer: SERVER4, ...COUNTS })
  })

  it('decodeDestination prefers the family in the message', () => {
    const tunnel = decodeDestination(reply(5, 2, ...DESTINATION4, '0600 0b00 02000000'), 'IPv6')
    assert.equal(tunnel?.realServer.address, '10.244.0.5')
  })

  const methods = ['masquerade', 'local', 'tunnel', 'route', 'bypass', 'unknown', 'unknown', 'unknown'] as const
  for (const [number, forwarding] of methods.entries())
    it(`decodeDestination reads forwarding ${number} as ${forwarding}`, () => {
      const bytes = DESTINATION4.map((text) => text.replace('0800 0300 00000000', `0800 0300 0${number}000000`))
      assert.equal(decodeDestination(reply(5, 2, ...bytes), 'IPv4')?.realServer.forwarding, forwarding)
    })

  it('decodeServiceTraffic reads the 64-bit counters if they are present', () => {
    const both = [stats(STATS, '0a'), stats(STATS64, '0c')]
    assert.deepEqual(trafficOf(reply(1, 1, ...SERVICE4, ...both)), ['10.96.0.1:443/tcp', TRAFFIC64])
  })

  it('decodeServiceTraffic reads the 32-bit counters otherwise', () => {
    assert.deepEqual(trafficOf(reply(1, 1, ...SERVICE4, stats(STATS, '0a'))), ['10.96.0.1:443/tcp', [7, 7, 7, 7, 7]])
  })

  it('decodeServiceTraffic returns no key for a service without connections', () => {
    const none = STATS64.replace('0c00 0100 01000000', '0c00 0100 00000000')
    const [key] = trafficOf(reply(1, 1, ...SERVICE4, stats(none, '0c')))
    assert.equal(key, undefined)
  })

  it('decodeInfo and decodeTimeouts read what Linux 7.2 answers', () => {
    assert.deepEqual(
      decodeInfo(onlyMessage(hex('24000000 17000000 07000000 49000000 0e010000 08000100 01020100 08000200 00010000'))),
      {
        version: '1.2.1',
        connectionTableSize: 256,
      },
    )
    assert.deepEqual(
      decodeTimeouts(
        onlyMessage(
          hex('2c000000 17000000 08000000 49000000 0c010000 08000400 84030000 08000500 78000000 08000600 2c010000'),
        ),
      ),
      {
        tcpSeconds: 900,
        tcpFinSeconds: 120,
        udpSeconds: 300,
      },
    )
  })

  const refused: readonly (readonly [string, () => unknown])[] = [
    ['another command', () => decodeService(reply(5, 1, ...SERVICE4))],
    ['no service', () => decodeService(reply(1, 2, ...SERVICE4))],
    ['no destination', () => decodeDestination(reply(5, 1, ...DESTINATION4), 'IPv4')],
    ['an address of 4 bytes', () => decodeDestination(reply(5, 2, '0800 0100 0af40005', ...DESTINATION4), 'IPv4')],
    ...SERVICE4.map(
      (_, skip) =>
        [
          `service part ${skip} missing`,
          () => decodeService(reply(1, 1, ...SERVICE4.filter((__, i) => i !== skip))),
        ] as const,
    ),
    ...DESTINATION4.map(
      (_, skip) =>
        [
          `destination part ${skip} missing`,
          () => decodeDestination(reply(5, 2, ...DESTINATION4.filter((__, i) => i !== skip)), 'IPv4'),
        ] as const,
    ),
  ]
  for (const [name, decode] of refused)
    it(`a reply with ${name} is refused`, () => {
      assert.throws(decode, { code: 'netlink-malformed' })
    })

  it('a service or destination of an unknown protocol or family is left out', () => {
    const changed = (parts: readonly string[], from: string, to: string) => parts.map((text) => text.replace(from, to))
    assert.equal(decodeService(reply(1, 1, ...changed(SERVICE4, '0600 0100 02', '0600 0100 03'))), undefined)
    assert.equal(decodeService(reply(1, 1, ...changed(SERVICE4, '0600 0200 06', '0600 0200 32'))), undefined)
    assert.equal(decodeDestination(reply(5, 2, ...DESTINATION4, '0600 0b00 07000000'), 'IPv4'), undefined)
  })

  it('attributes that are longer in a newer kernel are read', () => {
    const longer = (parts: readonly string[]) => parts.map((text) => lengthened(hex(text)))
    assert.deepEqual(decodeService(reply(1, 1, ...longer(SERVICE4))), { kind: 'address', fields: SH })
    assert.deepEqual(decodeService(reply(1, 1, ...longer(SERVICE6))), { kind: 'address', fields: DNS6 })
    const destination = decodeDestination(reply(5, 2, ...longer(DESTINATION4)), 'IPv4')
    assert.deepEqual(destination, { realServer: SERVER4, ...COUNTS })
    const [, traffic] = trafficOf(reply(1, 1, ...SERVICE4, stats(lengthened(hex(STATS64)), '0c')))
    assert.deepEqual(traffic, TRAFFIC64)
  })

  it('a reply cut at any byte is complete or refused', () => {
    const replies: readonly (readonly [ReceivedMessage, (message: ReceivedMessage) => unknown])[] = [
      [reply(1, 1, ...SERVICE4), decodeService],
      [reply(1, 1, ...SERVICE6), decodeService],
      [reply(1, 1, ...MARK), decodeService],
      [reply(5, 2, ...DESTINATION4), (each) => decodeDestination(each, 'IPv4')],
    ]
    for (const [whole, decode] of replies)
      for (let length = 16; length < whole.bytes.length; length++)
        for (const fixNest of [false, true]) {
          const cut = whole.bytes.slice(0, length)
          const view = new DataView(cut.buffer)
          view.setUint32(0, length, true)
          if (fixNest && length >= 24) view.setUint16(20, length - 20, true)
          assert.throws(() => decode(onlyMessage(cut)), { code: 'netlink-malformed' }, `cut to ${length}`)
        }
  })

  it('random payloads are decoded or refused', () => {
    const payload = fc
      .array(fc.oneof(fc.constantFrom(1, 2, 4, 5, 6, 8, 0, 0, 0, 16, 20), fc.integer({ min: 0, max: 255 })), {
        maxLength: 160,
      })
      .map((bytes) => new Uint8Array(bytes))
    fc.assert(
      fc.property(fc.constantFrom(1, 5, 9, 12, 14), payload, (command, bytes) => {
        const each = onlyMessage(message(FAMILY_ID, 2, 1, new Uint8Array([command, 1, 0, 0, ...bytes])))
        const decoders = [
          decodeService,
          trafficOf,
          (m: ReceivedMessage) => decodeDestination(m, 'IPv6'),
          decodeInfo,
          decodeTimeouts,
        ]
        for (const decode of decoders)
          try {
            decode(each)
          } catch (error) {
            assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
          }
      }),
      { numRuns: 2000 },
    )
  })
})

describe('IPVS round trips', () => {
  const address = (family: 'IPv4' | 'IPv6'): fc.Arbitrary<string> =>
    fc
      .uint8Array({ minLength: family === 'IPv4' ? 4 : 16, maxLength: family === 'IPv4' ? 4 : 16 })
      .map((bytes) => readAddress(bytes, 0, family))
  const u32 = fc.integer({ min: 0, max: 0xffffffff })
  const name = fc.stringMatching(/^[a-z][a-z0-9_-]{0,14}$/)
  const rest = {
    scheduler: name,
    flags: u32.map((flags) => (flags & ~2) >>> 0),
    timeoutSeconds: u32,
    netmask: u32,
    persistenceEngine: fc.oneof(fc.constant(''), name),
  }
  const fields: fc.Arbitrary<ServiceFields> = fc.constantFrom('IPv4' as const, 'IPv6' as const).chain((family) =>
    fc.oneof(
      fc.record({
        family: fc.constant(family),
        address: address(family),
        port: fc.integer({ min: 0, max: 65535 }),
        protocol: fc.constantFrom('tcp' as const, 'udp' as const, 'sctp' as const),
        ...rest,
      }),
      fc.record({ family: fc.constant(family), fwmark: fc.integer({ min: 1, max: 0xffffffff }), ...rest }),
    ),
  )

  it('decodeService reads what encodeService wrote', () => {
    fc.assert(
      fc.property(fields, (service) => {
        const batch = new MessageBatch(16)
        beginIpvs(batch, FAMILY_ID, 'NEW_SERVICE')
        encodeService(batch, service)
        batch.end()
        assert.deepEqual(decodeService(onlyMessage(batch.bytes))?.fields, { ...service })
      }),
    )
  })

  it('decodeDestination reads what encodeDestination wrote', () => {
    const server: fc.Arbitrary<RealServer> = fc.record({
      address: fc.oneof(address('IPv4'), address('IPv6')),
      port: fc.integer({ min: 0, max: 65535 }),
      weight: u32,
      forwarding: fc.constantFrom<ForwardingMethod>('masquerade', 'local', 'tunnel', 'route', 'bypass'),
      upperThreshold: u32,
      lowerThreshold: u32,
    })
    fc.assert(
      fc.property(server, (each) => {
        const batch = new MessageBatch(16)
        beginIpvs(batch, FAMILY_ID, 'NEW_DEST')
        encodeDestination(batch, each)
        batch.end()
        // The kernel adds connection counts, so put them inside the nested attribute.
        const counts = hex('0800 0700 01000000 0800 0800 02000000 0800 0900 03000000')
        const bytes = new Uint8Array(Buffer.concat([batch.bytes, counts]))
        const view = new DataView(bytes.buffer)
        view.setUint32(0, bytes.length, true)
        view.setUint16(20, bytes.length - 20, true)
        assert.deepEqual(decodeDestination(onlyMessage(bytes), 'IPv4'), {
          realServer: { ...each },
          activeConnections: 1,
          inactiveConnections: 2,
          persistentConnections: 3,
        })
      }),
    )
  })
})
