/**
 * The messages that list and delete rules of nf_tables, and rules in answers of kernels, with bytes
 * as linux/netfilter/nf_tables.h has them.
 */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { deleteNftRules, encodeRemovals, removeNftChains } from '../../src/nftables/removal.ts'
import { encodeListRules } from '../../src/nftables/rule-message.ts'
import { decodeRule, listNftChains, listNftRules } from '../../src/nftables/rules.ts'
import { requestOf } from '../../src/netlink/batch.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import {
  doneMessage,
  errorMessage,
  FakeTransport,
  hex,
  join,
  message,
  onlyMessage,
  requests,
  toHex,
} from '../netlink/wire.ts'

/**
 * An attribute: its type, and its payload as bytes, as text with its NUL, or as a number of 32 bits
 * in network order.
 */
function attribute(type: number, payload: Uint8Array | string | number): Uint8Array {
  const body =
    typeof payload === 'number'
      ? hex((payload >>> 0).toString(16).padStart(8, '0'))
      : typeof payload === 'string'
        ? Buffer.from(`${payload}\0`)
        : payload
  const bytes = Buffer.alloc((body.length + 7) & ~3)
  bytes.writeUInt16LE(body.length + 4, 0)
  bytes.writeUInt16LE(type, 2)
  bytes.set(body, 4)
  return new Uint8Array(bytes)
}

const expression = (name: string, ...attributes: readonly Uint8Array[]): Uint8Array =>
  attribute(1, join(attribute(1, name), attribute(2, join(...attributes))))
const verdict = (code: number, chain?: string): Uint8Array =>
  expression(
    'immediate',
    attribute(1, 0),
    attribute(2, attribute(2, join(attribute(1, code), ...(chain === undefined ? [] : [attribute(2, chain)])))),
  )
const [ACCEPT, JUMP] = [verdict(1), verdict(-3, 'KUBE-SERVICES')]
const COUNTER = expression('counter')
const COMMENT = expression(
  'match',
  attribute(1, 'comment'),
  attribute(2, 0),
  attribute(3, 'kubernetes service portals'),
)
const payload = (base: number, offset: number, length: number): Uint8Array =>
  expression('payload', attribute(1, 1), attribute(2, base), attribute(3, offset), attribute(4, length))
const meta = (key: number): Uint8Array => expression('meta', attribute(2, key), attribute(1, 1))
const compare = (operation: number, value: string): Uint8Array =>
  expression('cmp', attribute(1, 1), attribute(2, operation), attribute(3, attribute(1, hex(value))))
const MASK = expression('bitwise', attribute(1, 1), attribute(2, 1), attribute(3, 4))
const TCP = [meta(16), compare(0, '06')]

function rule(family: string, ...expressions: readonly Uint8Array[]) {
  const attributes = [
    attribute(1, 'filter'),
    attribute(2, 'INPUT'),
    attribute(3, hex('0000000000000007')),
    attribute(4, join(...expressions)),
  ]
  return message(0x0a06, 2, 1, join(hex(`${family} 00 0000`), ...attributes))
}
const QUERY = { family: 'IPv4', table: 'filter', chain: 'INPUT' } as const
const read = (...expressions: readonly Uint8Array[]) => decodeRule(onlyMessage(rule('02', ...expressions)), QUERY)

test('a request names the table, and the chain if there is one', () => {
  const body = '02 00 0000 0b00 0100 66696c74657200 00'
  assert.equal(
    toHex(requestOf((batch) => encodeListRules(batch, { family: 'IPv4', table: 'filter' })).seal(1, false)),
    toHex(hex(`20000000 070a 0103 01000000 00000000 ${body}`)),
  )
  assert.equal(
    toHex(requestOf((batch) => encodeListRules(batch, QUERY)).seal(1, false)),
    toHex(hex(`2c000000 070a 0103 01000000 00000000 ${body} 0a00 0200 494e50555400 0000`)),
  )
})

describe('a rule', () => {
  it('is read with its place, verdict and comment', () => {
    assert.deepEqual(read(COMMENT, COUNTER, JUMP), {
      table: 'filter',
      chain: 'INPUT',
      handle: 7n,
      verdict: { kind: 'jump', chain: 'KUBE-SERVICES' },
      isExact: true,
      isPlain: true,
      hasOtherEffect: false,
      matches: ['comment'],
      comment: 'kubernetes service portals',
    })
  })

  it('has one of the verdicts of nf_tables, or none', () => {
    const kinds = [0, 1, -3, -4, -5, 3].map((code) => read(verdict(code))?.verdict?.kind)
    assert.deepEqual(kinds, ['drop', 'accept', 'jump', 'goto', 'return', 'other'])
    assert.equal(read(COUNTER)?.verdict, undefined)
  })

  it('of another family, table or chain is none of the asked', () => {
    const found = (family: string, query: Partial<typeof QUERY> | { table: string } | { chain: string }) =>
      decodeRule(onlyMessage(rule(family, ACCEPT)), { ...QUERY, ...query })
    assert.equal(found('0a', {}), undefined)
    assert.equal(found('01', {}), undefined)
    assert.equal(found('02', { table: 'nat' }), undefined)
    assert.equal(found('02', { chain: 'OUTPUT' }), undefined)
    assert.notEqual(found('02', {}), undefined)
  })

  const rows: readonly (readonly [what: string, isExact: boolean, expressions: readonly Uint8Array[]])[] = [
    ['source', true, [payload(1, 12, 4), compare(0, '0a000001')]],
    ['not the destination', true, [payload(1, 16, 3), compare(1, '0a0000')]],
    ['part of the source by a mask', true, [payload(1, 12, 4), MASK, compare(0, '0a000000')]],
    ['sources above one', false, [payload(1, 12, 4), compare(4, '0a000000')]],
    ['sources in a set', false, [payload(1, 12, 4), expression('lookup')]],
    ['a source that nothing compares', false, [payload(1, 12, 4)]],
    ['another field of IP', false, [payload(1, 1, 1), compare(0, '10')]],
    ['the link layer', false, [payload(0, 0, 6), compare(0, '000000000001')]],
    ['a port of TCP', true, [...TCP, payload(2, 2, 2), compare(0, '0050')]],
    ['ports from and to', true, [...TCP, payload(2, 2, 2), compare(5, '0050'), compare(3, '0060')]],
    ['a port of no protocol', false, [payload(2, 2, 2), compare(0, '0050')]],
    ['a port of another protocol', false, [meta(16), compare(0, '84'), payload(2, 2, 2), compare(0, '0050')]],
    ['flags of TCP', true, [...TCP, payload(2, 13, 1), MASK, compare(0, '02')]],
    ['a mark', true, [meta(3), MASK, compare(0, '00400000')]],
    ['an interface', true, [meta(6), compare(0, '6c6f00')]],
    ['the user', false, [meta(10), compare(0, '00000000')]],
    ['two values for one field', false, [meta(3), compare(1, '01000000'), compare(1, '02000000')]],
    ['the state of connections by nft', false, [expression('ct'), MASK, compare(1, '00000000')]],
    ['a limit of packets', true, [expression('limit', attribute(4, 0), attribute(5, 0))]],
    ['a limit of bytes', false, [expression('limit', attribute(4, 1))]],
    ['a limit that inverts', false, [expression('limit', attribute(5, 1))]],
    [
      'an address for a NAT',
      false,
      [expression('immediate', attribute(2, attribute(1, hex('0a000001')))), expression('nat')],
    ],
    ['an expression of a kernel to come', false, [expression('quantum')]],
    ['any match of x_tables', true, [expression('match', attribute(1, 'set'), attribute(3, hex('00')))]],
  ]
  for (const [what, isExact, expressions] of rows)
    it(`${isExact ? 'is' : 'is not'} exact that looks at ${what}`, () => {
      assert.equal(read(...expressions, ACCEPT)?.isExact, isExact)
      assert.equal(read(...expressions, JUMP)?.isPlain, false)
    })

  it('does something besides its verdict when an expression sets or maps something', () => {
    const address = expression('immediate', attribute(2, attribute(1, hex('0a000001'))))
    const rows: readonly (readonly [boolean, readonly Uint8Array[]])[] = [
      [false, [expression('ct', attribute(2, 1)), expression('lookup', attribute(2, 1)), expression('fib')]],
      [false, [expression('log'), COUNTER, expression('limit')]],
      [true, [expression('meta', attribute(2, 3), attribute(3, 1))]],
      [true, [expression('payload', attribute(5, 1))]],
      [true, [expression('lookup', attribute(2, 1), attribute(3, 0))]],
      [true, [address, expression('nat')]],
      [true, [expression('reject')]],
      [true, [expression('quantum')]],
    ]
    for (const [hasOtherEffect, expressions] of rows) {
      const found = read(...expressions)
      assert.equal(found?.hasOtherEffect, hasOtherEffect)
      if (hasOtherEffect) assert.equal(found?.isExact, false)
    }
  })

  it('of IPv6 has its addresses elsewhere', () => {
    const of = (offset: number) =>
      decodeRule(onlyMessage(rule('0a', payload(1, offset, 16), compare(0, 'fd00'.padEnd(32, '0')), ACCEPT)), {
        ...QUERY,
        family: 'IPv6',
      })
    assert.deepEqual(
      [8, 24, 12].map((offset) => of(offset)?.isExact),
      [true, true, false],
    )
  })

  it('that is cut off is refused', () => {
    const bytes = rule('02', ACCEPT)
    bytes.set(hex('ffff'), 20)
    assert.throws(() => decodeRule(onlyMessage(bytes), QUERY), { code: 'netlink-malformed' })
    assert.throws(() => decodeRule(onlyMessage(message(0x0a03, 0, 1, hex('02000000'))), QUERY), {
      code: 'netlink-malformed',
    })
  })
})

describe('over a connection', () => {
  const answering = (...messages: readonly Uint8Array[]): NetlinkConnection =>
    new NetlinkConnection(
      new FakeTransport((datagram) => {
        const sequence = requests(datagram)[0]?.sequence ?? 0
        return [...messages, doneMessage(0, sequence)]
      }),
    )

  it('rules and chains are listed', async () => {
    assert.equal((await listNftRules(answering(rule('02', ACCEPT), rule('0a', ACCEPT)), QUERY)).length, 1)
    const chain = (table: string, name: string, ...more: readonly Uint8Array[]) =>
      message(0x0a03, 2, 1, join(hex('02 00 0000'), attribute(1, table), attribute(3, name), ...more))
    const netlink = answering(
      chain('filter', 'INPUT', attribute(4, attribute(1, 1)), attribute(5, 0)),
      chain('filter', 'KUBE-X'),
      chain('nat', 'KUBE-Y'),
    )
    assert.deepEqual(await listNftChains(netlink, 'IPv4', 'filter'), [
      { name: 'INPUT', isBase: true, policy: 'drop' },
      { name: 'KUBE-X', isBase: false, policy: 'accept' },
    ])
  })

  const PLACE = { table: 'filter', chain: 'INPUT', handle: 7n }
  const kernel = (errno: number): NetlinkConnection =>
    new NetlinkConnection(
      new FakeTransport((datagram) =>
        requests(datagram).flatMap(({ type, flags, sequence }) => {
          if (type !== 0x0a08) return []
          return errno !== 0 || (flags & 4) !== 0 ? [errorMessage(errno, sequence)] : []
        }),
      ),
      { timeoutMs: 200 },
    )

  it('a rule is deleted by its handle, in a transaction of its own', async () => {
    const batch = requestOf((one) => encodeRemovals(one, 'IPv4', [{ kind: 'rules', ...PLACE }]))
    const expected =
      '14000000 1000 0100 01000000 00000000 0000000a' +
      '38000000 080a 0500 02000000 00000000 02000000 0b00 0100 66696c74657200 00 0a00 0200 494e50555400 0000 0c00 0300 0000000000000007' +
      '14000000 1100 0100 03000000 00000000 0000000a'
    assert.equal(toHex(batch.seal(1, true)), toHex(hex(expected)))
    await deleteNftRules(kernel(0), 'IPv4', [PLACE, PLACE])
  })

  it('what is gone already undoes a transaction, so the others are removed one by one', async () => {
    const sizes: number[] = []
    const netlink = new NetlinkConnection(
      new FakeTransport((datagram) => {
        const deletions = requests(datagram).filter(({ type }) => type === 0x0a05)
        if (deletions.length > 0) sizes.push(deletions.length)
        // The second chain of the first transaction is gone.
        return deletions.flatMap(({ flags, sequence }, index) => {
          if (deletions.length > 1 && index === 1) return [errorMessage(2, sequence)]
          return (flags & 4) === 0 ? [] : [errorMessage(0, sequence)]
        })
      }),
      { timeoutMs: 200 },
    )
    const chains = ['KUBE-A', 'KUBE-B', 'KUBE-C']
    await removeNftChains(netlink, { family: 'IPv4', table: 'filter', jumps: [], emptied: [], deleted: chains })
    assert.deepEqual(sizes, [3, 1, 1, 1])
  })

  it('a rule that is gone counts as deleted, and any other refusal rejects', async () => {
    await deleteNftRules(kernel(2), 'IPv4', [PLACE])
    await assert.rejects(deleteNftRules(kernel(1), 'IPv4', [PLACE]), { code: 'EPERM' })
  })
})
