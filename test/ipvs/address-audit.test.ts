import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { auditAddresses, auditRoutes } from '../../src/ipvs/address-audit.ts'
import {
  type Binding,
  type BoundAddress,
  type Device,
  hostAddress,
  liveAddresses,
} from '../../src/ipvs/address-diff.ts'
import { liveRoutes, LOOPBACK_INDEX, ROUTE_PROTOCOL } from '../../src/ipvs/route-diff.ts'
import type { InterfaceAddress } from '../../src/netlink/address-codec.ts'
import type { Link } from '../../src/netlink/link-codec.ts'
import { type Route, RT_TABLE_LOCAL, RTN_LOCAL } from '../../src/netlink/route-codec.ts'
import { AuditShare } from '../../src/sync/audit.ts'
import { familyOf } from '../../src/values/address.ts'
import { IP_FAMILIES } from '../../src/values/protocol.ts'
import { SERVICE_DEVICE } from '../../src/values/well-known.ts'

type Listed = Binding & { readonly address: string }
const DUMMY: Device = { kind: 'dummy' }
const LINK: Link = { index: 5, name: SERVICE_DEVICE, kind: 'dummy', flags: 0, mtu: 1500, operState: 'down' }
const MANY = Array.from({ length: 1000 }, (_, index) => `10.96.${index >> 8}.${index & 255}`)

/**
 * The keys that an audit doubts, for addresses in the kernel and in the mirror; without `link` the
 * device does not exist.
 */
async function doubted(
  kernel: readonly Listed[],
  mirror: readonly string[],
  link: Link | undefined,
  device = true,
  live: ReadonlyMap<string, BoundAddress> = new Map(mirror.map((address) => [address, hostAddress(address)])),
) {
  const doubts: string[] = []
  let passes = 0
  await auditAddresses({
    rtnetlink: {
      getLink: async () => link,
      visitAddresses: async (visit, options) => {
        // A list that was interrupted.
        visit(listed(host('10.8.8.8')))
        options?.onRestart?.()
        kernel.map(listed).forEach(visit)
      },
    },
    device: {
      live: () => (device ? DUMMY : undefined),
      doubt: (keys) => void doubts.push(...keys),
    },
    addresses: {
      live: (address) => live.get(address),
      liveKeys: () => live.keys(),
      doubt: (keys) => void doubts.push(...(keys === 'all' ? ['all'] : keys)),
    },
    share: new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined }),
    onDoubt: () => passes++,
    signal: new AbortController().signal,
  })
  assert.equal(passes, doubts.length > 0 ? 1 : 0)
  return doubts
}

/** The address as rtnetlink lists it. */
const listed = ({ peer, ...address }: Listed): InterfaceAddress => ({
  ...address,
  ...(peer === undefined ? {} : { peer }),
  family: familyOf(address.address),
  interfaceIndex: LINK.index,
  scope: 0,
  flags: 0,
})

const host = (address: string): Listed => ({ address, prefixLength: 32 })

describe('auditAddresses', () => {
  it('doubts nothing when kernel and mirror agree', async () => {
    assert.deepEqual(await doubted(MANY.map(host), MANY, LINK), [])
    assert.deepEqual(await doubted([], [], undefined, false), [])
    assert.equal(liveAddresses(MANY.map(host)).size, MANY.length)
  })

  const rows: readonly [what: string, kernel: readonly Listed[], mirror: readonly string[]][] = [
    ['a removed address', [], ['10.9.9.9']],
    ['a new address', [host('10.9.9.9')], []],
    ['another prefix length', [{ address: '10.9.9.9', prefixLength: 24 }], ['10.9.9.9']],
    ['a peer', [{ address: '10.9.9.9', prefixLength: 32, peer: '10.5.5.5' }], ['10.9.9.9']],
    ['a second prefix length', [host('10.9.9.9'), { address: '10.9.9.9', prefixLength: 24 }], ['10.9.9.9']],
  ]
  for (const [what, kernel, mirror] of rows)
    it(`doubts only the address of ${what}`, async () => {
      assert.deepEqual(await doubted([...MANY.map(host), ...kernel], [...MANY, ...mirror], LINK), ['10.9.9.9'])
    })

  it('doubts everything when the device was deleted, is new or has another kind', async () => {
    const everything = [SERVICE_DEVICE, 'all']
    assert.deepEqual(await doubted([], MANY, undefined), everything)
    assert.deepEqual(await doubted([], MANY, { ...LINK, kind: 'bridge' }), everything)
    assert.deepEqual(await doubted([], [], LINK, false), everything)
  })

  it('doubts no address that has two prefix lengths in kernel and mirror', async () => {
    const both = [host('10.9.9.9'), { address: '10.9.9.9', prefixLength: 24 }]
    assert.deepEqual(await doubted(both, [], LINK, true, liveAddresses(both)), [])
    assert.deepEqual(await doubted(both.slice(1), [], LINK, true, liveAddresses(both)), ['10.9.9.9'])
  })
})

describe('auditRoutes', () => {
  const route = (address: string, source = '172.18.0.2'): Route => ({
    family: familyOf(address),
    destination: address,
    prefixLength: familyOf(address) === 'IPv4' ? 32 : 128,
    table: RT_TABLE_LOCAL,
    type: RTN_LOCAL,
    protocol: ROUTE_PROTOCOL,
    scope: 0,
    outInterfaceIndex: LOOPBACK_INDEX,
    preferredSource: source,
    priority: 0,
  })

  /** The keys that an audit doubts; the list of each family is interrupted once. */
  async function doubtedRoutes(kernel: readonly Route[], mirror: readonly Route[]): Promise<string[]> {
    const live = liveRoutes(mirror)
    const doubts: string[] = []
    await auditRoutes({
      rtnetlink: {
        visitRoutes: async (visit, options) => {
          const ofFamily = kernel.filter(({ family }) => family === options?.family)
          for (const one of ofFamily) visit({ ...one, preferredSource: '192.0.2.1' })
          options?.onRestart?.()
          ofFamily.forEach(visit)
        },
      },
      routes: {
        live: (key) => live.get(key),
        liveKeys: () => live.keys(),
        doubt: (keys) => void doubts.push(...keys),
      },
      families: IP_FAMILIES,
      share: new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined }),
      onDoubt: () => undefined,
      signal: new AbortController().signal,
    })
    return doubts.toSorted()
  }

  const routes = ['10.96.0.1', '10.96.0.2', 'fd00::1', 'fd00::2'].map((address) => route(address))

  it('doubts nothing when kernel and mirror agree', async () => {
    assert.deepEqual(await doubtedRoutes(routes, routes), [])
    const twice = [...routes, route('10.96.0.1', '172.18.0.9')]
    assert.deepEqual(await doubtedRoutes(twice, twice), [])
  })

  it('doubts removed and new routes, another source and a second route, of both families', async () => {
    const kernel = [
      route('10.96.0.1', '172.18.0.9'),
      ...routes.slice(1, 3),
      route('fd00::3'),
      route('10.96.0.2', '172.18.0.9'),
    ]
    assert.deepEqual(await doubtedRoutes(kernel, routes), ['10.96.0.1', '10.96.0.2', 'fd00::2', 'fd00::3'])
  })
})
