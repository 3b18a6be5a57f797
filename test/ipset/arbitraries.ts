/** Arbitrary entries of every set for property tests: with few addresses, so that keys often coincide. */
import fc from 'fast-check'
import { CATALOGUE, type SetDefinition } from '../../src/ipset/catalogue.ts'
import { formatEntry } from '../../src/ipset/entry-text.ts'
import type { EntryParts, SetEntry } from '../../src/ipset/types.ts'
import type { IpFamily } from '../../src/values/protocol.ts'

const ADDRESSES: Readonly<Record<IpFamily, readonly string[]>> = {
  IPv4: ['0.0.0.1', '10.96.0.1', '10.96.0.2', '203.0.113.10', '255.255.255.255'],
  IPv6: ['::1', 'fd00:10:96::1', '2001:db8:cb::10', '::ffff:10.0.0.1', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
}
const NETWORKS: Readonly<Record<IpFamily, readonly (readonly [string, number])[]>> = {
  IPv4: [
    ['10.0.0.0', 8],
    ['128.0.0.0', 1],
    ['192.0.2.7', 32],
  ],
  IPv6: [
    ['2001:db8::', 32],
    ['8000::', 1],
    ['fd00::7', 128],
  ],
}

const port = fc.oneof(fc.constantFrom(1, 80, 65_535), fc.integer({ min: 0, max: 65_535 }))
/** The last ones are only used by other programs. */
const protocol = fc.constantFrom('tcp' as const, 'udp' as const, 'sctp' as const, 136, 1, 58, 47)

/** Parts of an entry of this set. */
export function partsFor({ type, family }: Pick<SetDefinition, 'type' | 'family'>): fc.Arbitrary<EntryParts> {
  const address = fc.constantFrom(...ADDRESSES[family])
  const options = { noNullPrototype: true } as const
  switch (type) {
    case 'bitmap:port':
      return fc.record({ port }, options)
    case 'hash:ip':
      return fc.record({ address }, options)
    case 'hash:ip,port':
      return fc.record({ address, port, protocol }, options)
    case 'hash:ip,port,ip':
      return fc.record({ address, port, protocol, second: address }, options)
    case 'hash:ip,port,net':
      return fc
        .record({ address, port, protocol, network: fc.constantFrom(...NETWORKS[family]) }, options)
        .map(({ network: [second, secondLength], ...rest }) => ({ ...rest, second, secondLength }))
  }
}

export const someSet: fc.Arbitrary<SetDefinition> = fc.constantFrom(...CATALOGUE)

/** An entry of any set. */
export const someEntry: fc.Arbitrary<SetEntry> = someSet.chain((set) =>
  partsFor(set).map((parts) => ({ set: set.name, entry: formatEntry(parts) })),
)

/** A live entry: it may be an exception. */
export const liveEntry: fc.Arbitrary<SetEntry> = fc
  .tuple(someEntry, fc.boolean())
  .map(([entry, noMatch]) => (noMatch ? { ...entry, noMatch: true as const } : entry))
