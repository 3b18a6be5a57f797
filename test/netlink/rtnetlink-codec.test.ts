/**
 * Links, addresses and routes on the wire: requests compared with bytes made by hand from the
 * headers, replies as recorded from Linux 7.2.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  decodeAddress,
  encodeAddAddress,
  encodeDeleteAddress,
  encodeDumpAddresses,
} from '../../src/netlink/address-codec.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import {
  decodeLink,
  encodeCreateDummy,
  encodeDeleteLink,
  encodeDumpLinks,
  encodeGetLink,
} from '../../src/netlink/link-codec.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import {
  decodeRoute,
  encodeAddRoute,
  encodeDeleteRoute,
  encodeDumpRoutes,
  type Route,
} from '../../src/netlink/route-codec.ts'
import { CodedError } from '../../src/values/errors.ts'
import { hex, message, onlyMessage, toHex } from './wire.ts'

const ROUTE: Route = {
  family: 'IPv4',
  destination: '10.5.0.0',
  prefixLength: 16,
  table: 1000,
  type: 1,
  scope: 0,
  protocol: 4,
  gateway: '10.9.0.2',
  outInterfaceIndex: 5,
  preferredSource: '10.96.0.1',
}

describe('rtnetlink requests', () => {
  const rows: readonly (readonly [string, (batch: MessageBatch) => void, string])[] = [
    [
      'encodeCreateDummy',
      (b) => encodeCreateDummy(b, 'kube-ipvs0'),
      `40000000 1000 0106 00000000 00000000  00000000 00000000 00000000 00000000
       0f00 0300 6b7562652d6970767330 00 00  1000 1280  0a00 0100 64756d6d79 00 0000`,
    ],
    [
      'encodeDeleteLink',
      (b) => encodeDeleteLink(b, 5),
      '20000000 1100 0100 00000000 00000000  00000000 05000000 00000000 00000000',
    ],
    [
      'encodeGetLink',
      (b) => encodeGetLink(b, 'lo'),
      '30000000 1200 0100 00000000 00000000  00000000 00000000 00000000 00000000  0700 0300 6c6f0000  0800 1d00 08000000',
    ],
    [
      'encodeDumpLinks',
      (b) => encodeDumpLinks(b),
      '28000000 1200 0103 00000000 00000000  00000000 00000000 00000000 00000000  0800 1d00 08000000',
    ],
    [
      'encodeAddAddress IPv4',
      (b) => encodeAddAddress(b, { address: '10.96.0.1', prefixLength: 32, interfaceIndex: 5 }),
      '28000000 1400 0106 00000000 00000000  02200000 05000000  0800 0200 0a600001  0800 0100 0a600001',
    ],
    [
      'encodeAddAddress IPv6 with scope and flags',
      (b) =>
        encodeAddAddress(b, { address: 'fd00::a', prefixLength: 128, interfaceIndex: 258, scope: 254, flags: 0x202 }),
      `48000000 1400 0106 00000000 00000000  0a8000fe 02010000  1400 0200 fd000000 00000000 00000000 0000000a
       1400 0100 fd000000 00000000 00000000 0000000a  0800 0800 02020000`,
    ],
    [
      'encodeDeleteAddress',
      (b) => encodeDeleteAddress(b, { address: '10.96.0.1', prefixLength: 32, interfaceIndex: 5 }),
      '28000000 1500 0100 00000000 00000000  02200000 05000000  0800 0200 0a600001  0800 0100 0a600001',
    ],
    [
      'encodeDeleteAddress with a peer',
      (b) => encodeDeleteAddress(b, { address: '10.96.0.1', prefixLength: 24, interfaceIndex: 5, peer: '10.9.0.2' }),
      '28000000 1500 0100 00000000 00000000  02180000 05000000  0800 0200 0a600001  0800 0100 0a090002',
    ],
    [
      'encodeDumpAddresses',
      (b) => encodeDumpAddresses(b, 5),
      '18000000 1600 0103 00000000 00000000  00000000 05000000',
    ],
    [
      'encodeAddRoute',
      (b) => encodeAddRoute(b, ROUTE),
      `44000000 1800 0106 00000000 00000000  02100000 fc040001 00000000
       0800 0100 0a050000  0800 0500 0a090002  0800 0700 0a600001  0800 0400 05000000  0800 0f00 e8030000`,
    ],
    [
      'encodeDeleteRoute of a default route',
      (b) =>
        encodeDeleteRoute(b, {
          family: 'IPv6',
          destination: '::',
          prefixLength: 0,
          table: 254,
          type: 1,
          scope: 0,
          protocol: 4,
        }),
      '24000000 1900 0100 00000000 00000000  0a000000 fe040001 00000000  0800 0f00 fe000000',
    ],
    [
      'encodeDumpRoutes',
      (b) => encodeDumpRoutes(b, 'IPv6'),
      '1c000000 1a00 0103 00000000 00000000  0a000000 00000000 00000000',
    ],
  ]
  for (const [name, encode, expected] of rows)
    it(`${name} writes the bytes of the headers`, () => {
      const batch = new MessageBatch(16)
      encode(batch)
      assert.equal(toHex(batch.bytes), toHex(hex(expected)))
    })

  it('interface names that the kernel would refuse are not sent', () => {
    for (const name of ['', 'x'.repeat(16), 'a\0b'])
      assert.throws(() => encodeCreateDummy(new MessageBatch(), name), { code: 'netlink-unencodable' })
  })

  it('an address of the wrong family is refused', () => {
    assert.throws(() => encodeAddRoute(new MessageBatch(), { ...ROUTE, gateway: 'fd00::1' }), {
      code: 'netlink-unencodable',
    })
  })
})

/**
 * An IPv4 address with flags, one of a point-to-point link, two of IPv6; the last two attributes of
 * each are not read.
 */
const ADDRESSES: readonly (readonly [string, object])[] = [
  [
    '50000000 14002200 03000000 49000000 02208000 05000000 08000100 0a600001 08000200 0a600001 09000300 63617030 00000000 08000800 80000000 14000600 ffffffff ffffffff aa000000 aa000000',
    { family: 'IPv4', address: '10.96.0.1', prefixLength: 32, interfaceIndex: 5, scope: 0, flags: 0x80 },
  ],
  [
    '50000000 14002200 03000000 49000000 02208000 05000000 08000100 0a090002 08000200 0a090001 09000300 63617030 00000000 08000800 80000000 14000600 ffffffff ffffffff ae000000 ae000000',
    {
      family: 'IPv4',
      address: '10.9.0.1',
      prefixLength: 32,
      interfaceIndex: 5,
      scope: 0,
      flags: 0x80,
      peer: '10.9.0.2',
    },
  ],
  [
    '48000000 14002200 03000000 49000000 0a808000 05000000 14000100 fd000000 00000000 00000000 0000000a 14000600 ffffffff ffffffff b1000000 b1000000 08000800 80000000',
    { family: 'IPv6', address: 'fd00::a', prefixLength: 128, interfaceIndex: 5, scope: 0, flags: 0x80 },
  ],
  [
    '50000000 14002200 03000000 49000000 0a4080fd 05000000 14000100 fe800000 00000000 f42477ff fe0acb31 14000600 ffffffff ffffffff b0000000 b0000000 08000800 80020000 05000b00 03000000',
    {
      family: 'IPv6',
      address: 'fe80::f424:77ff:fe0a:cb31',
      prefixLength: 64,
      interfaceIndex: 5,
      scope: 253,
      flags: 0x280,
    },
  ],
]

const ROUTES: readonly (readonly [string, object])[] = [
  [
    '44000000 18002200 05000000 49000000 02100000 fc040001 00000000 08000f00 e8030000 08000100 0a050000 08000700 0a600001 08000500 0a090002 08000400 05000000',
    ROUTE,
  ],
  [
    '3c000000 18002200 05000000 49000000 02200000 ff02fe02 00000000 08000f00 ff000000 08000100 0a600001 08000700 0a600001 08000400 05000000',
    {
      family: 'IPv4',
      destination: '10.96.0.1',
      prefixLength: 32,
      table: 255,
      type: 2,
      scope: 254,
      protocol: 2,
      outInterfaceIndex: 5,
      preferredSource: '10.96.0.1',
    },
  ],
  [
    '24000000 18002200 05000000 49000000 0a000000 fe030001 00000000 08000f00 fe000000',
    { family: 'IPv6', destination: '::', prefixLength: 0, table: 254, type: 1, scope: 0, protocol: 3 },
  ],
]

/** RTM_NEWLINK of a dummy, with attributes that are not read between those that are. */
const LINK = `68000000 10000000 02000000 49000000 00000100 05000000 c3000100 00000000
  09000300 63617030 00000000 08000d00 e8030000 05001000 06000000 08000400 dc050000 08003d00 00000000
  10001200 0a000100 64756d6d 79000000 0c000600 6e6f7175 65756500`
const LINK_VALUE = { index: 5, name: 'cap0', kind: 'dummy', flags: 0x100c3, mtu: 1500, operState: 'up' }

const REPLIES: readonly (readonly [string, (message: ReceivedMessage) => unknown, string, object])[] = [
  ...ADDRESSES.map(([bytes, value]) => ['decodeAddress', decodeAddress, bytes, value] as const),
  ...ROUTES.map(([bytes, value]) => ['decodeRoute', decodeRoute, bytes, value] as const),
  ['decodeLink', decodeLink, LINK, LINK_VALUE],
]

describe('rtnetlink replies', () => {
  for (const [name, decode, bytes, value] of REPLIES)
    it(`${name} reads ${JSON.stringify(value)}`, () => {
      assert.deepEqual({ ...(decode(onlyMessage(hex(bytes))) as object) }, value)
    })

  it('a reply cut at any byte is refused or lacks only optional fields', () => {
    for (const [name, decode, text, value] of REPLIES) {
      const whole = hex(text)
      for (let length = 16; length < whole.length; length++) {
        const cut = whole.slice(0, length)
        new DataView(cut.buffer).setUint32(0, length, true)
        try {
          const decoded = decode(onlyMessage(cut)) as Record<string, unknown>
          for (const field of ['family', 'destination', 'prefixLength', 'interfaceIndex', 'index', 'name'])
            assert.equal(
              decoded[field],
              (value as Record<string, unknown>)[field],
              `${name} cut to ${length}: ${field}`,
            )
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
        }
      }
    }
  })

  it('random payloads are decoded, skipped or refused', () => {
    const type = fc.constantFrom(16, 17, 20, 21, 24, 25)
    const payload = fc.oneof(
      fc.uint8Array({ maxLength: 100 }),
      fc
        .array(fc.constantFrom(0, 1, 2, 4, 5, 8, 10, 32, 255), { maxLength: 100 })
        .map((bytes) => new Uint8Array(bytes)),
    )
    fc.assert(
      fc.property(type, payload, (each, bytes) => {
        const decode = each < 20 ? decodeLink : each < 24 ? decodeAddress : decodeRoute
        try {
          decode(onlyMessage(message(each, 0, 1, bytes)))
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
        }
      }),
      { numRuns: 2000 },
    )
  })

  it('other message types are refused, other families and cached routes skipped', () => {
    for (const decode of [decodeLink, decodeAddress, decodeRoute])
      assert.throws(() => decode(onlyMessage(message(3, 0, 1))), { code: 'netlink-malformed' })
    assert.equal(decodeAddress(onlyMessage(message(20, 0, 1, hex('2d000000 01000000')))), undefined)
    assert.equal(decodeRoute(onlyMessage(message(24, 0, 1, hex('80000000 fe000005 00000000')))), undefined)
    assert.equal(decodeRoute(onlyMessage(message(24, 0, 1, hex('02000000 fe000001 00020000')))), undefined)
  })
})
