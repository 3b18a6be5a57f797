/** Questions to the routing of the kernel and its answers, byte by byte, and which interfaces lead to gateways. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestOf } from '../../src/netlink/batch.ts'
import { decodeGatewayInterfaces } from '../../src/netlink/route-codec.ts'
import { decodeFoundRoute, encodeRouteLookup } from '../../src/netlink/route-lookup.ts'
import { hex, message, onlyMessage, toHex } from './wire.ts'

const RTM_NEWROUTE = 24
const route = (payload: string) => onlyMessage(message(RTM_NEWROUTE, 0, 1, hex(payload)))

/** struct rtmsg of IPv4 or IPv6: 32 or 128 bits of destination, table 254, and a type. */
const header = (family: string, type: string, length = '20') => `${family} ${length} 00 00 fe 00 00 ${type} 00020000`
const OIF_2 = '0800 0400 02000000'
const GATEWAY = '0800 0500 0a000210'
const PREFSRC = '0800 0700 0a00020f'

test('a question names the destination, and what is known of the packet', () => {
  const bytes = (lookup: Parameters<typeof encodeRouteLookup>[1]) =>
    toHex(requestOf((batch) => encodeRouteLookup(batch, lookup)).seal(1, false)).slice(32)
  assert.equal(bytes({ destination: '10.244.0.1' }), toHex(hex('02 20 00 00 00 00 00 00 00000000  0800 0100 0af40001')))
  assert.equal(
    bytes({ destination: '10.96.0.1', source: '10.0.2.100', inInterfaceIndex: 2, mark: 0x4000 }),
    toHex(
      hex(
        `02 20 20 00 00 00 00 00 00000000  0800 0100 0a600001  0800 0200 0a000264  0800 0300 02000000  0800 1000 00400000`,
      ),
    ),
  )
  assert.equal(
    bytes({ destination: 'fd00::1' }),
    toHex(hex('0a 80 00 00 00 00 00 00 00000000  1400 0100 fd000000 00000000 00000000 00000001')),
  )
})

test('an answer says where the packet leaves, and with which source', () => {
  assert.deepEqual(decodeFoundRoute(route(header('02', '01') + OIF_2 + GATEWAY + PREFSRC)), {
    type: 1,
    outInterfaceIndex: 2,
    gateway: '10.0.2.16',
    source: '10.0.2.15',
  })
  assert.deepEqual(decodeFoundRoute(route(header('02', '02'))), {
    type: 2,
    outInterfaceIndex: undefined,
    gateway: undefined,
    source: undefined,
  })
  // An IPv4 route through an IPv6 gateway (RTA_VIA).
  const via = '1600 1200 0a00 fe800000 00000000 00000000 00000001 0000'
  assert.equal(decodeFoundRoute(route(header('02', '01') + OIF_2 + via)).gateway, 'fe80::1')
})

test('a broken answer is an error', () => {
  for (const broken of ['02 20', header('02', '01') + '0600 0500 0a00 0000', header('07', '01')])
    assert.throws(() => decodeFoundRoute(route(broken)), { code: 'netlink-malformed' })
  assert.throws(() => decodeFoundRoute(onlyMessage(message(16, 0, 1, hex(header('02', '01'))))), {
    code: 'netlink-malformed',
  })
})

test('interfaces that lead to gateways are found in routes of one way and of several', () => {
  assert.deepEqual(decodeGatewayInterfaces(route(header('02', '01', '00') + OIF_2 + GATEWAY)), [2])
  assert.equal(decodeGatewayInterfaces(route(header('02', '01') + OIF_2)), undefined)
  assert.equal(decodeGatewayInterfaces(route(header('02', '02') + OIF_2 + GATEWAY)), undefined)
  // RTA_MULTIPATH: interface 3 with a gateway, interface 4 without one.
  const hops = `1c00 0900  1000 00 00 03000000 ${GATEWAY}  0800 00 00 04000000`
  assert.deepEqual(decodeGatewayInterfaces(route(header('02', '01', '00') + hops)), [3])
})
