/** Statements of rules on the wire, and what other programs write there. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AttributeCursor } from '../../src/netlink/attributes.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { canonicalStatement } from '../../src/nftables/canonical.ts'
import { decodeExpression, type Expression } from '../../src/nftables/expression-codec.ts'
import { decodeStatements, type NetworksOf } from '../../src/nftables/statement-decoder.ts'
import { encodeStatement } from '../../src/nftables/statement-encoder.ts'
import type { NftStatement } from '../../src/nftables/types.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { hex, toHex } from '../netlink/wire.ts'
import { someStatement } from './arbitraries.ts'
import { CASES } from './statement-bytes.ts'

/** The expressions of a statement as bytes, without the message around them. */
function encoded(statement: NftStatement, family: IpFamily): Uint8Array {
  const batch = new MessageBatch()
  batch.begin(0, 0, 'STATEMENT')
  encodeStatement(batch, statement, family, { name: '__set%d', id: 1 })
  batch.end()
  return batch.bytes.slice(16)
}

function expressionsIn(bytes: Uint8Array): Expression[] {
  const list = new AttributeCursor(bytes, 0, bytes.length)
  const expressions: Expression[] = []
  while (list.next()) expressions.push(decodeExpression(list.nested()))
  return expressions
}

function decoded(bytes: Uint8Array, family: IpFamily, networksOf: NetworksOf = () => undefined) {
  return decodeStatements(expressionsIn(bytes), family, networksOf)
}

describe('a statement', () => {
  for (const { family, statement, expressions } of CASES)
    it(`is written and read: ${family} ${JSON.stringify(statement)}`, () => {
      const bytes = hex(expressions.join(''))
      assert.equal(toHex(encoded(statement, family)), toHex(bytes))
      assert.deepEqual(decoded(bytes, family), [statement])
    })

  it('is read as it was written, in any rule', () => {
    const rule = fc
      .constantFrom<IpFamily>('IPv4', 'IPv6')
      .chain((family) =>
        fc.record({ family: fc.constant(family), statements: fc.array(someStatement(family), { maxLength: 6 }) }),
      )
    fc.assert(
      fc.property(rule, ({ family, statements }) => {
        const wanted = statements.map((statement) => canonicalStatement(statement, family))
        const networks = wanted.flatMap((statement) => (statement.kind === 'networks' ? [statement.cidrs] : []))
        const bytes = Buffer.concat(wanted.map((statement) => encoded(statement, family)))
        // Every anonymous set has the same name here; they are looked up in order.
        assert.deepEqual(
          decoded(bytes, family, () => networks.shift()),
          wanted,
        )
      }),
    )
  })

  it('that is foreign is never written', () => {
    assert.throws(() => encoded({ kind: 'foreign', expression: 'counter' }, 'IPv4'), { code: 'netlink-unencodable' })
  })
})

describe('expressions of other programs', () => {
  /** The expressions of a statement with one attribute's value changed. */
  function changed(statement: NftStatement, from: string, to: string): readonly NftStatement[] {
    const bytes = toHex(encoded(statement, 'IPv4'))
    assert.ok(bytes.includes(from), bytes)
    return decoded(hex(bytes.replace(from, to)), 'IPv4')
  }
  const names = (statements: readonly NftStatement[]): readonly string[] =>
    statements.map((statement) => (statement.kind === 'foreign' ? statement.expression : `our ${statement.kind}`))

  it('are foreign one by one, between statements that are not', () => {
    const bytes = Buffer.concat([
      encoded({ kind: 'protocol', protocol: 'tcp' }, 'IPv4'),
      // NFTA_LIST_ELEM { NFTA_EXPR_NAME "counter" }, as the kernel prints one, with its NFTA_EXPR_DATA
      hex('14000180 0c00010063 6f756e746572 00 0400 0280'),
      encoded({ kind: 'reject' }, 'IPv4'),
    ])
    assert.deepEqual(names(decoded(bytes, 'IPv4')), ['our protocol', 'counter', 'our reject'])
  })

  it('that differ from ours in one number are foreign', () => {
    const register = '0800010000000001'
    const cases: readonly (readonly [NftStatement, from: string, to: string, readonly string[]])[] = [
      // another kind of reject, ICMP code, flags of a masquerade
      [{ kind: 'reject' }, '0800010000000000', '0800010000000001', ['reject']],
      [{ kind: 'reject' }, '0500020003', '0500020001', ['reject']],
      [{ kind: 'masquerade', isFullyRandom: true }, '00000010', '00000004', ['masq']],
      // ct state established; a comparison that is not with 0
      [{ kind: 'new-connection' }, '08000100 08000000'.replace(' ', ''), '0800010002000000', ['ct', 'bitwise', 'cmp']],
      [{ kind: 'new-connection' }, '0800020000000001', '0800020000000000', ['ct', 'bitwise', 'cmp']],
      // a mark that is compared with another one than its mask
      [
        { kind: 'mark', mask: 0x4000 },
        '0c0003800800010000400000',
        '0c0003800800010000800000',
        ['meta', 'bitwise', 'cmp'],
      ],
      // oifname; a protocol that no Service has
      [{ kind: 'interface', name: 'cni0' }, '0800020000000006', '0800020000000007', ['meta', 'cmp']],
      [{ kind: 'protocol', protocol: 'tcp' }, '0500010006', '0500010001', ['meta', 'cmp']],
      // another register, the source port, a map into a register
      [{ kind: 'network', field: 'saddr', cidr: '10.0.0.0/8' }, register, '0800010000000009', ['payload', 'cmp']],
      [
        { kind: 'lookup', fields: ['dport'], set: 'ports' },
        '0800030000000002',
        '0800030000000000',
        ['payload', 'lookup'],
      ],
      [
        { kind: 'verdict-map', fields: ['dport'], map: 'm' },
        '0800030000000000',
        '0800030000000001',
        ['payload', 'lookup'],
      ],
      // source NAT
      [{ kind: 'keep-destination' }, '0800010000000001080002', '0800010000000000080002', ['payload', 'nat']],
    ]
    for (const [statement, from, to, expected] of cases)
      assert.deepEqual(names(changed(statement, from, to)), expected, JSON.stringify(statement))
  })

  it('that name a set which is no set of networks are foreign', () => {
    const bytes = encoded({ kind: 'networks', field: 'saddr', cidrs: ['10.0.0.0/8', '192.0.2.1'] }, 'IPv4')
    assert.deepEqual(names(decoded(bytes, 'IPv4')), ['payload', 'lookup'])
  })

  it('with a name that every object of JavaScript has are foreign', () => {
    for (const name of ['constructor', 'toString', 'hasOwnProperty', '__proto__']) {
      const batch = new MessageBatch()
      batch.begin(0, 0, 'EXPRESSION')
      const element = batch.nest(1)
      batch.string(1, name)
      const data = batch.nest(2)
      batch.u32be(3, 1)
      batch.endNest(data)
      batch.endNest(element)
      batch.end()
      assert.deepEqual(decoded(batch.bytes.slice(16), 'IPv4'), [{ kind: 'foreign', expression: name }])
    }
  })

  it('that are cut short are malformed', () => {
    for (const { family, expressions } of CASES) {
      const bytes = hex(expressions.join(''))
      for (let length = 1; length < bytes.length; length++) {
        let statements: readonly NftStatement[] = []
        try {
          statements = decoded(bytes.subarray(0, length), family)
        } catch (error) {
          assert.equal((error as { code?: unknown }).code, 'netlink-malformed')
          continue
        }
        // Whole expressions, or one without the padding of its last attribute.
        assert.ok(statements.length > 0)
      }
    }
  })
})
