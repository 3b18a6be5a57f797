/** What a base chain does with the rest of the packets, by rules as kernels list them, and the message that asks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeUnconditional, restOf, type ChainRest, type Unconditional } from '../../src/nftables/chain-rest.ts'
import { encodeListRules } from '../../src/nftables/rule-message.ts'
import { requestOf } from '../../src/netlink/batch.ts'
import { hex, onlyMessage, toHex } from '../netlink/wire.ts'

const PLACE = { family: 'inet', table: 'wall', chain: 'in' } as const
/** NFTA_RULE_TABLE "wall" and NFTA_RULE_CHAIN "in". */
const TABLE = '0900 0100 77616c6c00 000000'
const CHAIN = '0700 0200 696e00 00'
/** One NFTA_LIST_ELEM with NFTA_EXPR_NAME. */
const REJECT = '1000 0180 0b00 0100 72656a65637400 00'
const COUNTER = '1000 0180 0c00 0100 636f756e74657200'
const META = '1000 0180 0900 0100 6d65746100 000000'
/** `immediate` with NFTA_IMMEDIATE_DATA, NFTA_DATA_VERDICT and NFTA_VERDICT_CODE NF_DROP. */
const DROP = '2800 0180 0e00 0100 696d6d65646961746500 0000 1400 0280 1000 0280 0c00 0280 0800 0100 00000000'

/** An expression of x_tables with its name, NFTA_TARGET_NAME or NFTA_MATCH_NAME, of at most 8 characters. */
function ofXtables(kind: 'match' | 'target', name: string): string {
  const padded = (text: string): string => toHex(Buffer.from(text)).replaceAll(' ', '').padEnd(16, '0')
  return `2000 0180 ${kind === 'match' ? '0a00' : '0b00'} 0100 ${padded(kind)} 1000 0280 0c00 0100 ${padded(name)}`
}

/** NFT_MSG_NEWRULE of a family with expressions. */
function rule(family: string, place: string, ...expressions: readonly string[]) {
  const list = hex(expressions.join(''))
  const head = (list.length + 4).toString(16).padStart(2, '0')
  const body = hex(`${family} 00 0000 ${place} ${head}00 0480 ${toHex(list)}`)
  const length = (16 + body.length).toString(16).padStart(2, '0')
  return onlyMessage(hex(`${length}000000 060a 0200 01000000 00000000 ${toHex(body)}`))
}

test('encodeListRules asks for the rules of a chain of one family, because else the kernel looks into one table of that name', () => {
  const batch = requestOf((message) => encodeListRules(message, PLACE))
  const rest = `01000000 ${TABLE} ${CHAIN}`
  assert.equal(toHex(batch.seal(1, true)), toHex(hex(`28000000 070a 0503 01000000 00000000 ${rest}`)))
})

test('decodeUnconditional reads what a rule without conditions does, and no other rule', () => {
  const own = TABLE + CHAIN
  assert.deepEqual(decodeUnconditional(rule('01', own, COUNTER, REJECT), PLACE), { kind: 'reject', chain: '' })
  assert.deepEqual(decodeUnconditional(rule('01', own, DROP), PLACE), { kind: 'drop', chain: '' })
  for (const target of ['REJECT', 'DROP'])
    assert.equal(decodeUnconditional(rule('01', own, COUNTER, ofXtables('target', target)), PLACE)?.kind, 'reject')
  const commented = rule('01', own, ofXtables('match', 'comment'), DROP)
  assert.deepEqual(decodeUnconditional(commented, PLACE), { kind: 'drop', chain: '' })
  for (const other of [
    rule('01', own, ofXtables('target', 'MARK')),
    rule('01', own, ofXtables('match', 'mark'), DROP),
    rule('01', own, META, ofXtables('target', 'REJECT')),
    rule('01', own, META, DROP),
    rule('01', own, META, REJECT),
    rule('01', own, COUNTER),
    rule('01', TABLE + CHAIN.replace('696e', '6f6e'), DROP),
    rule('01', TABLE.replace('77', '66') + CHAIN, DROP),
  ])
    assert.equal(decodeUnconditional(other, PLACE), undefined)
})

test('the rest of a chain is what the first rule without conditions decides, through its jumps, or the policy', async () => {
  const to = (kind: 'jump' | 'goto', chain: string): Unconditional => ({ kind, chain })
  const end = (kind: ChainRest | 'return'): Unconditional =>
    kind === 'reject' ? { kind, chain: '' } : { kind, chain: '' }
  const rows: readonly (readonly [chains: Readonly<Record<string, readonly Unconditional[]>>, rest: ChainRest])[] = [
    [{}, 'accept'],
    [{ in: [end('reject')] }, 'reject'],
    [{ in: [end('accept'), end('drop')] }, 'accept'],
    [{ in: [end('return'), end('drop')] }, 'accept'],
    // As firewalld 0.9 and 2 write it.
    [{ in: [to('jump', 'zones'), end('reject')], zones: [to('goto', 'public')], public: [] }, 'reject'],
    [
      { in: [to('jump', 'zones')], zones: [to('goto', 'public')], public: [to('jump', 'pre'), end('reject')] },
      'reject',
    ],
    // The end of a chain behind a goto is not continued where the goto stands.
    [{ in: [to('goto', 'public'), end('drop')], public: [] }, 'accept'],
    [{ in: [to('jump', 'in')] }, 'accept'],
  ]
  for (const [chains, rest] of rows) {
    const found = await restOf({ ...PLACE, policy: 'accept' }, async ({ chain }) => chains[chain] ?? [])
    assert.equal(found, rest, JSON.stringify(chains))
  }
  assert.equal(await restOf({ ...PLACE, policy: 'drop' }, async () => []), 'drop')
})

test('a chain that jumps very often is followed for a bounded number of chains', async () => {
  let asked = 0
  const jumps = Array.from({ length: 100 }, (): Unconditional => ({ kind: 'jump', chain: 'in' }))
  const found = await restOf({ ...PLACE, policy: 'accept' }, async () => {
    asked++
    return jumps
  })
  assert.deepEqual([found, asked], ['accept', 64])
})
