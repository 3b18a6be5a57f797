/** Laws of diff and step, and the commands that operations are printed as. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { chainKind, diffIptables, formatIptablesOperation, keyOf, sameItem } from '../../src/iptables/diff.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import type { Chain, IptablesItem, Jump } from '../../src/iptables/types.ts'
import { MemoryIptables } from './memory-iptables.ts'
import { everything } from '../modes/ipvs/iptables-firewall/rules/wanted.ts'

const { direction, step } = chainKind('IPv4')

const rule = fc.constantFrom(
  '-s 10.0.0.1/32 -j DROP',
  '-s 10.0.0.1 -j DROP',
  '-j RETURN',
  '-m mark --mark 0x1/0x1 -j X',
  '',
)
const chain: fc.Arbitrary<IptablesItem> = fc
  .array(rule, { maxLength: 6 })
  .map((rules) => ({ kind: 'chain', table: 'nat', chain: 'KUBE-SERVICES', rules }))
const jump: fc.Arbitrary<IptablesItem> = fc
  .integer({ min: 1, max: 3 })
  .map((copies) => ({ kind: 'jump', table: 'nat', chain: 'OUTPUT', rule: '-j KUBE-SERVICES', copies }))
const pair = fc.oneof(
  fc.tuple(fc.option(chain, { nil: undefined }), fc.option(chain, { nil: undefined })),
  fc.tuple(fc.option(jump, { nil: undefined }), fc.option(jump, { nil: undefined })),
)
const same = (a: IptablesItem | undefined, b: IptablesItem | undefined): boolean =>
  a === undefined || b === undefined ? a === b : sameItem(a, b)

test('diffIptables of equal items is empty', () => {
  fc.assert(fc.property(fc.oneof(chain, jump), (item) => diffIptables(item, structuredClone(item)).length === 0))
})

test('a step through diffIptables reaches the desired item, but for copies of a jump', () => {
  fc.assert(
    fc.property(pair, ([desired, live]) => {
      const ops = diffIptables(desired, live)
      const reached = ops.length === 0 ? live : ops.map((op) => step(live, op)).at(-1)
      if (desired?.kind === 'jump' && reached?.kind === 'jump') return true
      return same(reached, desired)
    }),
  )
})

test('keyOf an operation is the key of its item', () => {
  for (const [key, item] of renderIpvsRules(everything('IPv4')).items) {
    for (const op of [...diffIptables(item, undefined), ...diffIptables(undefined, item)]) assert.equal(keyOf(op), key)
    assert.deepEqual(diffIptables(item, undefined).map(direction), ['add'])
    assert.deepEqual(diffIptables(undefined, item).map(direction), ['remove'])
  }
})

test('sameItem compares the copies of a jump, diffIptables leaves them', () => {
  const once: Jump = { kind: 'jump', table: 'nat', chain: 'OUTPUT', rule: '-j KUBE-SERVICES', copies: 1 }
  const twice: Jump = { ...once, copies: 2 }
  assert.equal(sameItem(once, twice), false)
  assert.deepEqual(diffIptables(once, twice), [])
  assert.deepEqual(diffIptables(undefined, twice), [{ ...once, kind: 'delete-jump', copies: 2 }])
})

test('formatIptablesOperation prints commands with the effect of the operation', () => {
  const rules = fc.uniqueArray(
    fc.integer({ min: 1, max: 9 }).map((n) => `-s 10.0.0.${n}/32 -j RETURN`),
    { maxLength: 8 },
  )
  fc.assert(
    fc.property(fc.option(rules, { nil: undefined }), rules, (before, after) => {
      const memory = new MemoryIptables()
      const table = memory.tables.get('nat')
      if (before !== undefined) table?.set('KUBE-SERVICES', [...before])
      const wanted: Chain = { kind: 'chain', table: 'nat', chain: 'KUBE-SERVICES', rules: after }
      const live: Chain | undefined = before && { ...wanted, rules: before }
      for (const op of diffIptables(wanted, live)) {
        for (const command of formatIptablesOperation(op, 'IPv4').split('\n')) {
          const [, verb = '', rest = ''] = /^iptables -t nat (-\w) KUBE-SERVICES ?(.*)$/.exec(command) ?? []
          const list = table?.get('KUBE-SERVICES') ?? []
          const [, place, placed = ''] = /^(\d+) (.*)$/.exec(rest) ?? []
          if (verb === '-I' && place !== undefined) list.splice(Number(place) - 1, 0, placed)
          else if (verb === '-F') table?.set('KUBE-SERVICES', [])
          else memory.run('nat', `${verb} KUBE-SERVICES${rest === '' ? '' : ` ${rest}`}`)
        }
      }
      assert.deepEqual(table?.get('KUBE-SERVICES'), after)
    }),
  )
})

test('formatIptablesOperation prints the commands an operator would type', () => {
  const at = { table: 'nat', chain: 'KUBE-SERVICES' } as const
  const rows = [
    [{ kind: 'delete-chain', ...at }, 'ip6tables -t nat -F KUBE-SERVICES\nip6tables -t nat -X KUBE-SERVICES'],
    [
      { kind: 'insert-jump', table: 'nat', chain: 'OUTPUT', rule: '-m comment --comment "a b" -j KUBE-SERVICES' },
      'ip6tables -t nat -I OUTPUT -m comment --comment "a b" -j KUBE-SERVICES',
    ],
    [
      { kind: 'delete-jump', table: 'nat', chain: 'OUTPUT', rule: '-j X', copies: 2 },
      'ip6tables -t nat -D OUTPUT -j X\nip6tables -t nat -D OUTPUT -j X',
    ],
    [
      { kind: 'write-chain', ...at, before: ['-j A', '-j FOREIGN', '-j C'], rules: ['-j A', '-j B', '-j C'] },
      'ip6tables -t nat -D KUBE-SERVICES -j FOREIGN\nip6tables -t nat -I KUBE-SERVICES 2 -j B',
    ],
    [
      { kind: 'write-chain', ...at, before: ['-j C', '-j A'], rules: ['-j A', '-j C'] },
      'ip6tables -t nat -F KUBE-SERVICES\nip6tables -t nat -A KUBE-SERVICES -j A\nip6tables -t nat -A KUBE-SERVICES -j C',
    ],
    [{ kind: 'write-chain', ...at, before: undefined, rules: [] }, 'ip6tables -t nat -N KUBE-SERVICES'],
  ] as const
  for (const [op, text] of rows) {
    assert.equal(formatIptablesOperation(op, 'IPv6'), text)
    assert.equal(formatIptablesOperation(op, 'IPv4', '-legacy'), text.replaceAll(/^ip6tables/gm, 'iptables-legacy'))
  }
})
