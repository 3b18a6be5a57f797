/** The laws that every kind of table keeps, on an io in memory. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { CATALOGUE } from '../../../src/ipset/catalogue.ts'
import { parametersOf, SET_ENTRIES, SETS } from '../../../src/ipset/diff.ts'
import { entryKey } from '../../../src/ipset/types.ts'
import { chainKind } from '../../../src/iptables/diff.ts'
import { ADDRESSES, DEVICE, DEVICE_KIND, hostAddress } from '../../../src/ipvs/address-diff.ts'
import { VIRTUAL_SERVERS } from '../../../src/ipvs/diff.ts'
import { type LocalRoute, localRoute, ROUTES, sharedPaths } from '../../../src/ipvs/route-diff.ts'
import { virtualServerKey } from '../../../src/ipvs/types.ts'
import { NFT_TABLE } from '../../../src/nftables/kind.ts'
import { nftKey } from '../../../src/nftables/types.ts'
import { renderIpvsRules } from '../../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { commandsOf } from '../../../src/sync/plan.ts'
import { reconciled } from '../../../src/sync/reconciled.ts'
import { Reconciler } from '../../../src/sync/reconciler.ts'
import { TableSync } from '../../../src/sync/table-sync.ts'
import type { TableKind } from '../../../src/sync/table.ts'
import { familyOf } from '../../../src/values/address.ts'
import { SERVICE_DEVICE } from '../../../src/values/well-known.ts'
import { someEntry } from '../../ipset/arbitraries.ts'
import { someItem } from '../../nftables/arbitraries.ts'
import { MemoryTable } from '../../support/memory-table.ts'
import { liveVirtualServer, wantedVirtualServer } from '../../support/virtual-servers.ts'
import { everything } from './iptables-firewall/rules/wanted.ts'

const signal = new AbortController().signal
const now = (): number => 0

/** An arbitrary item with its key. */
type Keyed<Item> = fc.Arbitrary<readonly [key: string, item: Item]>

/** @param live what the kernel may have, under the same keys */
function keepsLaws<Item, Op>(kind: TableKind<Item, Op>, wanted: Keyed<Item>, live: Keyed<Item>): void {
  const items = (keyed: Keyed<Item>) => fc.array(keyed, { maxLength: 8 }).map((all) => new Map(all))

  it(`${kind.name}: one pass from any state reaches the wanted one, by the commands of its plan`, async () => {
    await fc.assert(
      fc.asyncProperty(items(wanted), items(live), async (desired, there) => {
        const table = new MemoryTable(kind)
        const sync = new TableSync(table)
        const reconciler = new Reconciler([reconciled(sync)])
        for (const [key, item] of there) table.kernel.set(key, item)
        for (const [key, item] of desired) sync.want(key, item)
        const plan = await reconciler.plan({ signal, now })
        const { failures } = await reconciler.pass({ signal, now, mayRemove: true })
        assert.deepEqual([failures, table.applied], [[], commandsOf(plan)])
        const after = await reconciler.plan({ signal, now })
        assert.deepEqual(new Set(after.map(({ key }) => key)), new Set(desired.keys()))
        for (const { key, state, operations } of after) {
          assert.ok(state === 'present' || state === 'draining', `${key} ${state}`)
          assert.deepEqual(operations, [])
        }
      }),
    )
  })

  it(`${kind.name}: equal items differ in nothing, and an operation names the key that it changes`, () => {
    fc.assert(
      fc.property(wanted, live, ([key, item], [otherKey, other]) => {
        assert.ok(kind.equal(item, structuredClone(item)))
        assert.deepEqual(kind.diff(key, item, structuredClone(item)), [])
        const before = otherKey === key ? other : undefined
        for (const op of [...kind.diff(key, item, before), ...kind.diff(key, undefined, item)])
          assert.equal(kind.key(op), key)
      }),
    )
  })
}

describe('kinds of tables', () => {
  const keyed = <Item>(arbitrary: fc.Arbitrary<Item>, keyOf: (item: Item) => string): Keyed<Item> =>
    arbitrary.map((item) => [keyOf(item), item])

  keepsLaws(VIRTUAL_SERVERS, keyed(wantedVirtualServer, virtualServerKey), keyed(liveVirtualServer, virtualServerKey))

  const set = fc.constantFrom(...CATALOGUE.slice(0, 4))
  const otherSet = fc.record({
    type: fc.constantFrom('hash:ip', 'list:set'),
    maxElements: fc.constantFrom(10, 131_072),
  })
  keepsLaws(
    SETS,
    set.map((one) => [one.name, parametersOf(one)]),
    fc.tuple(set, otherSet).map(([one, other]) => [one.name, { ...parametersOf(one), ...other }]),
  )
  keepsLaws(SET_ENTRIES, keyed(someEntry, entryKey), keyed(someEntry, entryKey))

  const device = (kind: string) => fc.constant([SERVICE_DEVICE, { kind }] as const)
  keepsLaws(DEVICE, device(DEVICE_KIND), fc.oneof(device(DEVICE_KIND), device('bridge')))

  const vip = fc.constantFrom('10.96.0.1', '10.96.0.2', 'fd00::1')
  const prefixLength = fc.constantFrom(24, 32)
  keepsLaws(
    ADDRESSES,
    vip.map((address) => [address, hostAddress(address)]),
    fc
      .tuple(vip, prefixLength)
      .map(([address, length]) => [address, { address, bindings: [{ prefixLength: length }] }]),
  )
  const route = (source: string | undefined): Keyed<LocalRoute> =>
    vip.map((address) => [address, localRoute(address, sharedPaths(familyOf(address), source))])
  keepsLaws(ROUTES, fc.constantFrom(undefined, '192.168.0.7').chain(route), route('192.168.0.8'))

  const rendered = fc.constantFrom(...renderIpvsRules(everything('IPv4')).items)
  keepsLaws(
    chainKind('IPv4'),
    rendered,
    fc.tuple(rendered, fc.boolean()).map(([[key, item], isOther]) => {
      if (!isOther) return [key, item]
      return [key, item.kind === 'chain' ? { ...item, rules: item.rules.slice(1) } : { ...item, copies: 2 }]
    }),
  )
  keepsLaws(NFT_TABLE, keyed(someItem(), nftKey), keyed(someItem(), nftKey))
})
