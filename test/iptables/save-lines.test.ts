/**
 * Texts of iptables-save as root of a node can make them: a comment with line breaks is one word of
 * one rule for every reader.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { summarizeRules } from '../../src/doctor/rules-summary.ts'
import { CLEANUP_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { saveLines } from '../../src/iptables/save-lines.ts'
import { foreignReferences, itemsOf, parsePolicies, parseSave, parseShown } from '../../src/iptables/save-text.ts'
import { wholeTables } from '../../src/iptables/whole-tables.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { endpointCounters } from '../../src/traffic/rules-reader.ts'

/** As iptables 1.8.9 prints a comment with all that a reader could take for something else. */
const HOSTILE = `-m comment --comment "first
COMMIT
*filter
:INPUT DROP [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
[9:9] -A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m comment --comment demo/web:http --to-destination 10.0.0.1:80
# Table \`nat' is incompatible, use 'nft' tool.
-A PREROUTING -j KUBE-SERVICES
say \\"hi\\" \\\\ there"`

const TEXT = `*nat
:PREROUTING ACCEPT [0:0]
:"cd - [0:0]
:a"b - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING ${HOSTILE} -j ACCEPT
-A PREROUTING -j "cd
-A "cd ${HOSTILE} -j a"b
-A "cd -m comment --comment "not closed -j a"b
[5:300] -A KUBE-SERVICES ${HOSTILE} -j RETURN
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD ${HOSTILE} -j DROP
COMMIT
`

test('a line of iptables-save goes on behind the line breaks of a word in quotes', () => {
  assert.deepEqual([...saveLines('a\nb\n')], ['a', 'b'])
  assert.deepEqual([...saveLines('a\n\nb')], ['a', '', 'b'])
  assert.deepEqual([...saveLines('')], [])
  const lines = [...saveLines(TEXT)]
  assert.equal(lines.length, 15)
  assert.equal(lines[5], `-A PREROUTING ${HOSTILE} -j ACCEPT`)
  // A quote without an end, and the quotes of a chain's name, end with their line.
  assert.deepEqual(lines.slice(6, 10), [
    '-A PREROUTING -j "cd',
    `-A "cd ${HOSTILE} -j a"b`,
    '-A "cd -m comment --comment "not closed -j a"b',
    `[5:300] -A KUBE-SERVICES ${HOSTILE} -j RETURN`,
  ])
})

test('a word in quotes is bounded, so a quote without an end costs little', () => {
  const long = `-A INPUT -m comment --comment "${'x\n'.repeat(600)}" -j ACCEPT`
  assert.equal([...saveLines(long)].length, 601)
  const open = '-A INPUT -m comment --comment "open -j ACCEPT\n'.repeat(100_000)
  assert.equal([...saveLines(open)].length, 100_000)
})

test('every comment is read as the word that it is', () => {
  const comment = fc.string({
    unit: fc.constantFrom('a', '\n', '"', '\\', "'", ' ', '-', ':', '*', '#'),
    maxLength: 255,
  })
  fc.assert(
    fc.property(fc.array(comment, { maxLength: 4 }), (comments) => {
      const rules = comments.map((word) => `-A INPUT -m comment --comment "${word.replace(/["\\']/g, '\\$&')}" -j X`)
      assert.deepEqual([...saveLines(rules.map((rule) => `${rule}\n`).join(''))], rules)
    }),
  )
})

test('no reader takes the lines of a comment for chains, rules, tables, policies or counters', () => {
  const saved = parseSave(TEXT)
  assert.deepEqual(
    Array.from(saved, ([table, chains]) => [table, [...chains.keys()]]),
    [
      ['nat', ['PREROUTING', '"cd', 'a"b', 'KUBE-SERVICES']],
      ['filter', ['FORWARD']],
    ],
  )
  assert.deepEqual(saved.get('nat')?.get('PREROUTING'), [`${HOSTILE} -j ACCEPT`, '-j "cd'])
  assert.deepEqual(saved.get('nat')?.get('KUBE-SERVICES'), [`${HOSTILE} -j RETURN`])
  assert.deepEqual([...itemsOf(saved, IPVS_LAYOUT).keys()], ['nat KUBE-SERVICES'])
  assert.deepEqual(
    [...parsePolicies(TEXT)],
    [
      ['nat PREROUTING', 'ACCEPT'],
      ['filter FORWARD', 'DROP'],
    ],
  )
  assert.deepEqual(Array.from(parseShown(`-P INPUT ACCEPT\n-N X\n-A X ${HOSTILE} -j Y\n`)), [
    ['INPUT', []],
    ['X', [`${HOSTILE} -j Y`]],
  ])
  assert.deepEqual(endpointCounters(TEXT), [])
  const summary = summarizeRules(wholeTables(TEXT), 'nft', 'IPv4', CLEANUP_LAYOUT)
  assert.deepEqual(
    [summary.kubeChains, summary.serviceChains, summary.builtIn.map(({ chain, policy }) => `${chain} ${policy}`)],
    [['nat KUBE-SERVICES'], 0, ['FORWARD DROP']],
  )
})

test('a jump whose comment has a line break is one of others: no line of iptables-restore could delete it', () => {
  const rule = '-m comment --comment "a\nb" -j KUBE-SERVICES'
  const saved = parseSave(`*nat\n:OUTPUT ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n-A OUTPUT ${rule}\nCOMMIT\n`)
  assert.deepEqual([...itemsOf(saved, IPVS_LAYOUT).keys()], ['nat KUBE-SERVICES'])
  assert.deepEqual([...foreignReferences(saved, IPVS_LAYOUT)], [['nat KUBE-SERVICES', `-A OUTPUT ${rule}`]])
})
