/** The gateways of a route, in replies as recorded from Linux 7.2. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { decodeGateways } from '../../src/netlink/route-codec.ts'
import { CodedError } from '../../src/values/errors.ts'
import { hex, message, onlyMessage } from './wire.ts'

const IPV6_METRICS = '24000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000'
const GATEWAY_ROUTES: readonly (readonly [title: string, bytes: string, gateways: readonly string[]])[] = [
  [
    'a default route',
    '3400000018000200010000009d6f000002000000fe0300010000000008000f00fe00000008000500c00002010800040003000000',
    ['192.0.2.1'],
  ],
  [
    'one with several next hops',
    '5000000018000200010000009d6f000002000000fe0300010000000008000f00fe000000080006001400000024000900100000000300000008000500c0000209100000010500000008000500c6336401',
    ['192.0.2.9', '198.51.100.1'],
  ],
  [
    'one of IPv6 with several next hops',
    `9400000018000200010000009d6f00000a000000fe0300010000000008000f00fe00000008000600050000003c0009001c000000030000001400050020010db80000000000000000000000051c000000030000001400050020010db8000000000000000000000006${IPV6_METRICS}`,
    ['2001:db8::5', '2001:db8::6'],
  ],
  [
    'one of IPv4 through a gateway of IPv6',
    '4400000018000200010000005c77000002000000fe0300010000000008000f00fe000000160012000a0020010db800000000000000000000000900000800040003000000',
    ['2001:db8::9'],
  ],
  [
    'one of IPv4 through gateways of both families',
    '6000000018000200010000005c77000002000000fe0300010000000008000f00fe0000000800060007000000340009002000000003000000160012000a0020010db80000000000000000000000080000100000000300000008000500c0000207',
    ['2001:db8::8', '192.0.2.7'],
  ],
]

/** A route whose next hop has next hops of its own, and so on, as no kernel writes it. */
function nestedHops(depth: number): Uint8Array {
  let inner = Buffer.from('08000500c0000209', 'hex')
  for (let level = 0; level < depth; level++) {
    const outer = Buffer.alloc(12 + inner.length)
    outer.writeUInt16LE(outer.length, 0)
    outer.writeUInt16LE(9, 2)
    outer.writeUInt16LE(outer.length - 4, 4)
    inner.copy(outer, 12)
    inner = outer
  }
  return message(0x18, 0, 1, Buffer.concat([Buffer.from('02000000fe03000100000000', 'hex'), inner]))
}

describe('decodeGateways', () => {
  it('reads next hops, but none inside others', () => {
    assert.deepEqual(decodeGateways(onlyMessage(nestedHops(1)))?.gateways, ['192.0.2.9'])
    for (const depth of [2, 5000]) assert.equal(decodeGateways(onlyMessage(nestedHops(depth))), undefined)
  })

  for (const [title, bytes, gateways] of GATEWAY_ROUTES)
    it(`reads ${title}`, () => assert.deepEqual(decodeGateways(onlyMessage(hex(bytes))), { isDefault: true, gateways }))

  it('reads that of a network', () => {
    const bytes = hex('02180000 fe040001 00000000 08000100 0af40100 08000500 0a090002')
    assert.deepEqual(decodeGateways(onlyMessage(message(24, 0, 1, bytes))), {
      isDefault: false,
      gateways: ['10.9.0.2'],
    })
  })

  it('returns undefined for a route without one', () => {
    const rows: readonly (readonly [string, string])[] = [
      ['a network on a link', '02180000 fe02fd01 00000000 08000100 0a090000 08000400 05000000'],
      ['a black hole', '02000000 fe030006 00000000'],
      ['a default route to a link', '02000000 fe03fd01 00000000 08000400 05000000'],
      ['a multicast route', '80000000 fe000005 00000000'],
    ]
    for (const [title, bytes] of rows)
      assert.equal(decodeGateways(onlyMessage(message(24, 0, 1, hex(bytes)))), undefined, title)
  })

  it('decodes, skips or refuses random payloads', () => {
    const header = fc.constantFrom('02000000fe03000100000000', '0a000000fe03000100000000')
    const rest = fc.array(fc.constantFrom(0, 2, 4, 5, 8, 9, 10, 16, 18, 20, 28, 255), { maxLength: 80 })
    fc.assert(
      fc.property(header, rest, (first, bytes) => {
        try {
          decodeGateways(onlyMessage(message(24, 0, 1, new Uint8Array([...hex(first), ...bytes]))))
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
        }
      }),
      { numRuns: 2000 },
    )
  })
})
