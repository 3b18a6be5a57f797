/** Arbitrary items of private tables, as this program writes them. */
import fc from 'fast-check'
import { canonicalNetwork } from '../../src/nftables/networks.ts'
import type {
  NftAction,
  NftChain,
  NftElement,
  NftItem,
  NftRule,
  NftSet,
  NftStatement,
  PacketField,
} from '../../src/nftables/types.ts'
import { readAddress } from '../../src/values/address.ts'
import type { IpFamily } from '../../src/values/protocol.ts'

export const someFamily = fc.constantFrom<IpFamily>('IPv4', 'IPv6')

/** The fields of sets; a protocol alone is not one of ours. */
const FIELDS: readonly (readonly PacketField[])[] = [
  ['daddr'],
  ['dport'],
  ['l4proto', 'dport'],
  ['daddr', 'l4proto', 'dport'],
  ['daddr', 'l4proto', 'dport', 'saddr'],
]

const someProtocol = fc.constantFrom('tcp', 'udp', 'sctp')
const somePort = fc.integer({ min: 0, max: 65_535 })
/** Not all bits: nft compares those without a mask. */
const someMask = fc.integer({ min: 1, max: 0xffff_fffe })

/** Not of ::/96: nft prints `::1.2.3.4` for `::102:304`, a form that no Service has. */
export function someAddress(family: IpFamily): fc.Arbitrary<string> {
  const length = family === 'IPv4' ? 4 : 16
  return fc
    .uint8Array({ minLength: length, maxLength: length })
    .filter((bytes) => family === 'IPv4' || bytes.subarray(0, 12).some((byte) => byte !== 0))
    .map((bytes) => readAddress(bytes, 0, family))
}

/** As nft prints them. */
export function someNetwork(family: IpFamily): fc.Arbitrary<string> {
  const longest = family === 'IPv4' ? 32 : 128
  return fc
    .tuple(someAddress(family), fc.integer({ min: 0, max: longest }))
    .filter(([address]) => !address.startsWith('::ffff:') || family === 'IPv4')
    .map(([address, length]) => canonicalNetwork(`${address}/${length}`, family))
}

const NAME = fc.stringMatching(/^[a-z][a-z0-9-]{0,9}$/)
const someInterface = fc.oneof(
  NAME,
  NAME.map((name) => `${name}*`),
)
const isNot = fc.constantFrom({}, { isNot: true } as const)

/** @param chains names that verdicts jump to */
function someAction(chains: readonly string[]): fc.Arbitrary<NftAction> {
  const simple = fc.constantFrom<NftAction>({ kind: 'accept' }, { kind: 'drop' }, { kind: 'return' })
  if (chains.length === 0) return simple
  const target = fc
    .tuple(fc.constantFrom('jump', 'goto'), fc.constantFrom(...chains))
    .map(([kind, chain]) => ({ kind, chain }) as const)
  return fc.oneof(simple, target)
}

/** What a rule can do in a chain of any type; `sets` are there to be looked up in. */
export function someStatement(
  family: IpFamily,
  sets: readonly NftSet[] = FIELDS.map((fields, index) => ({
    kind: 'set',
    family,
    name: `set-${index}`,
    fields,
    isMap: false,
  })),
): fc.Arbitrary<NftStatement> {
  const field = fc.constantFrom('saddr', 'daddr')
  const cidr = someNetwork(family)
  const cidrs = fc.array(cidr, { minLength: 1, maxLength: 5 })
  return fc.oneof(
    fc.tuple(someInterface, isNot).map(([name, not]) => ({ kind: 'interface', name, ...not }) as const),
    fc
      .tuple(field, cidr, isNot)
      .map(([of, network, not]) => ({ kind: 'network', field: of, cidr: network, ...not }) as const),
    cidrs.map((list) => ({ kind: 'networks', field: 'saddr', cidrs: list }) as const),
    someProtocol.map((protocol) => ({ kind: 'protocol', protocol }) as const),
    fc.constant({ kind: 'new-connection' } as const),
    fc.tuple(someMask, isNot).map(([mask, not]) => ({ kind: 'mark', mask, ...not }) as const),
    fc.tuple(someMask, fc.constantFrom('set', 'clear')).map(([mask, to]) => ({ kind: 'set-mark', mask, to }) as const),
    fc
      .tuple(fc.constantFrom(...sets), isNot)
      .map(([{ name, fields, isMap }, not]) =>
        isMap
          ? ({ kind: 'verdict-map', fields, map: name } as const)
          : ({ kind: 'lookup', fields, set: name, ...not } as const),
      ),
  )
}

/** What ends a rule; the last three only in some chains. */
export function someEnd(): fc.Arbitrary<NftStatement> {
  return fc.oneof(
    someAction([]).map((action) => ({ kind: 'verdict', action }) as const),
    fc.boolean().map((isFullyRandom) => ({ kind: 'masquerade', isFullyRandom }) as const),
    fc.constantFrom({ kind: 'reject' } as const, { kind: 'keep-destination' } as const),
  )
}

export function someRule(family: IpFamily, sets?: readonly NftSet[]): fc.Arbitrary<NftRule> {
  const statements = fc
    .tuple(fc.array(someStatement(family, sets), { maxLength: 3 }), fc.option(someEnd(), { nil: undefined }))
    .map(([some, end]) => (end === undefined ? some : [...some, end]))
    .filter((all) => all.length > 0)
  const comment = fc.stringMatching(/^[ -!#-~]{1,40}$/)
  return fc.oneof(
    statements.map((all) => ({ statements: all })),
    fc.tuple(statements, comment).map(([all, text]) => ({ statements: all, comment: text })),
  )
}

export function someSet(family: IpFamily): fc.Arbitrary<NftSet> {
  return fc
    .tuple(NAME, fc.constantFrom(...FIELDS), fc.boolean())
    .map(([name, fields, isMap]) => ({ kind: 'set', family, name: `s-${name}`, fields, isMap }))
}

/** No chain is called, so that every statement is allowed in it. */
export function someChain(family: IpFamily, sets?: readonly NftSet[]): fc.Arbitrary<NftChain> {
  return fc
    .tuple(NAME, fc.array(someRule(family, sets), { maxLength: 4 }))
    .map(([name, rules]) => ({ kind: 'chain', family, name: `c-${name}`, rules }))
}

export function someElement(set: NftSet, chains: readonly string[] = []): fc.Arbitrary<NftElement> {
  const part = (field: PacketField): fc.Arbitrary<string> => {
    if (field === 'l4proto') return someProtocol
    return field === 'dport' ? somePort.map(String) : someAddress(set.family)
  }
  const value = fc.tuple(...set.fields.map(part)).map((parts) => parts.join(' . '))
  const element = value.map((text) => ({ kind: 'element', family: set.family, set: set.name, value: text }) as const)
  if (!set.isMap) return element
  return fc.tuple(element, someAction(chains)).map(([item, action]) => ({ ...item, action }))
}

/** Items that often have the same keys, for laws about changes. */
export function someItem(): fc.Arbitrary<NftItem> {
  const sets = (family: IpFamily): readonly [NftSet, NftSet] => [
    { kind: 'set', family, name: 'ports', fields: ['daddr', 'l4proto', 'dport'], isMap: false },
    { kind: 'set', family, name: 'marks', fields: ['l4proto', 'dport'], isMap: true },
  ]
  return someFamily.chain((family) => {
    const [ports, marks] = sets(family)
    return fc.oneof<fc.Arbitrary<NftItem>[]>(
      fc.boolean().map((isOwned) => ({ kind: 'table', family, isOwned })),
      fc.constantFrom(ports, marks, { ...ports, isMap: true }),
      someChain(family).map((chain) => ({ ...chain, name: 'services' })),
      fc
        .constantFrom('tcp . 80', 'udp . 53')
        .chain((value) => someElement(marks, ['services']).map((item) => ({ ...item, value }))),
    )
  })
}
