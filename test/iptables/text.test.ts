/** Rules as text: words, spellings, what iptables-save prints, what iptables-restore reads and says. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatRestore, parseFailure } from '../../src/iptables/restore-text.ts'
import { IPTABLES_LAYOUT, IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { canonicalRule, matchesOf, quoteWord, sameRule, sameRules, targetOf } from '../../src/iptables/rule-text.ts'
import { optionValues, ruleOptions } from '../../src/iptables/rule-parts.ts'
import { foreignReferences, itemsOf, parseSave } from '../../src/iptables/save-text.ts'
import type { IptablesOperation } from '../../src/iptables/types.ts'
import { MemoryIptables } from './memory-iptables.ts'
import { everything } from '../modes/ipvs/iptables-firewall/rules/wanted.ts'

test('ruleOptions reads what quoteWord wrote', () => {
  const word = fc.string({
    minLength: 1,
    unit: fc.constantFrom('a', 'Z', '0', '-', '_', ' ', '"', "'", '\\', '/', '!'),
  })
  fc.assert(
    fc.property(fc.array(word), (words) => {
      const rule = words.map((one) => `--comment ${quoteWord(one)}`).join(' ')
      assert.deepEqual(
        ruleOptions(rule).map(({ values }) => values),
        words.map((one) => [one]),
      )
    }),
  )
})

test('optionValues has the first value of each option, and marks those that are negated', () => {
  const values = optionValues(
    '! -s 10.0.0.0/8 -p tcp -m comment --comment "-d x" -m set --match-set A dst,dst -j DNAT --random',
  )
  assert.deepEqual(Object.fromEntries(values), {
    '!-s': '10.0.0.0/8',
    '-p': 'tcp',
    '-m': 'set',
    '--comment': '-d x',
    '--match-set': 'A',
    '-j': 'DNAT',
    '--random': '',
  })
})

test('quoteWord refuses control characters, which rules that are compared may have', () => {
  for (let code = 0; code < 0x80; code++) {
    const word = `a${String.fromCharCode(code)}b`
    if (code >= 0x20 && code !== 0x7f) assert.doesNotThrow(() => quoteWord(word))
    else {
      assert.throws(() => quoteWord(word), { code: 'iptables-unprintable' })
      assert.equal(sameRule(`-m comment --comment "${word}" -j X`, `-m comment --comment "${word}" -j X`), true)
      assert.doesNotThrow(() => canonicalRule(`-m comment --comment "${word}" -j X`))
    }
  }
})

test('sameRule ignores spelling and the order of matches only', () => {
  const rows: readonly (readonly [a: string, b: string, same: boolean])[] = [
    ['-s 10.0.0.1/32 -j DROP', '-s 10.0.0.1 -j DROP', true],
    ['-s 10.0.0.0/8 -j DROP', '-s 10.0.0.0/255.0.0.0 -j DROP', true],
    ['-s fd00::1/128 -j DROP', '-s fd00::1 -j DROP', true],
    ['-s 10.0.0.0/8 -j DROP', '! -s 10.0.0.0/8 -j DROP', false],
    ['-s 10.0.0.0/8 -j DROP', '-d 10.0.0.0/8 -j DROP', false],
    ['-m mark --mark 0x4000/0x4000 -j ACCEPT', '-m mark --mark 0x00004000/0x00004000 -j ACCEPT', true],
    ['-m mark --mark 0x4000 -j ACCEPT', '-m mark --mark 0x4000/0xffffffff -j ACCEPT', true],
    ['-m mark --mark 0x4000/0x4000 -j ACCEPT', '-m mark ! --mark 0x4000/0x4000 -j ACCEPT', false],
    ['-j MARK --set-xmark 0x4000/0x0', '-j MARK --set-xmark 0x4000/0x4000', false],
    [
      '-s 1.2.3.4/32 -m ipvs --vproto 6 --vaddr 1.2.3.4 --vport 80 -j DROP',
      '-s 1.2.3.4/32 -m ipvs --vaddr 1.2.3.4 --vport 80 --vproto tcp -j DROP',
      true,
    ],
    [
      '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      '-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT',
      true,
    ],
    [
      '-m comment --comment "a b" -m mark --mark 1/1 -j X',
      '-m mark --mark 0x1/0x1 -m comment --comment "a b" -j X',
      true,
    ],
    ['-m comment --comment "a b" -j X', '-m comment --comment "a c" -j X', false],
    ['-m comment --comment "-m mark" -j X', '-m comment --comment "-j X" -m mark', false],
    ['-m comment --comment "it\\\'s" -j X', '-m comment --comment "it\'s" -j X', true],
    ['-p sctp -j X', '-p 132 -j X', true],
    ['-p constructor -j X', '-p toString -j X', false],
    ['-m set --match-set A dst,dst -j X', '-m set --match-set A dst,src -j X', false],
    ['-m addrtype --dst-type LOCAL -j X', '-m addrtype ! --dst-type LOCAL -j X', false],
    ['-j MASQUERADE --random-fully', '-j MASQUERADE', false],
    ['-j X', '-g X', false],
    ['-i veth+ -j X', '! -i veth+ -j X', false],
  ]
  for (const [a, b, same] of rows) assert.equal(sameRule(a, b), same, `${a}\n${b}`)
})

test('canonicalRule differs for all our rules', () => {
  for (const family of ['IPv4', 'IPv6'] as const) {
    for (const item of renderIpvsRules(everything(family)).items.values()) {
      if (item.kind !== 'chain') continue
      assert.equal(new Set(item.rules.map(canonicalRule)).size, item.rules.length)
    }
  }
})

test('targetOf and matchesOf read options, not comments', () => {
  const rule = '-m comment --comment "-j DROP -m ipvs" -m physdev ! --physdev-is-in -j ACCEPT'
  assert.equal(targetOf(rule), 'ACCEPT')
  assert.deepEqual(matchesOf(rule), ['comment', 'physdev'])
  assert.equal(targetOf('-g KUBE-X'), 'KUBE-X')
  assert.equal(targetOf('-s 10.0.0.1/32'), undefined)
})

const SAVED = `# Generated by iptables-nft-save v1.8.9 (nf_tables) on Sat Nov 21 07:58:30 2026
*raw
:PREROUTING ACCEPT [12:34]
COMMIT
*nat
:OUTPUT ACCEPT [1:60]
:KUBE-SERVICES - [0:0]
[5:300] -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -s 10.0.0.1/32 -j KUBE-SERVICES
-A OUTPUT
-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
COMMIT
# Completed on Sat Nov 21 07:58:30 2026
# Warning: iptables-legacy tables present, use iptables-legacy-save to see them
`

test('parseSave reads counters, comments and other tables', () => {
  const saved = parseSave(SAVED)
  assert.deepEqual([...saved.keys()], ['raw', 'nat'])
  assert.deepEqual(saved.get('nat')?.get('OUTPUT')?.length, 4)
  assert.deepEqual(
    [...itemsOf(saved, IPVS_LAYOUT)],
    [
      [
        'nat KUBE-SERVICES',
        { kind: 'chain', table: 'nat', chain: 'KUBE-SERVICES', rules: ['-s 127.0.0.0/8 -j RETURN'] },
      ],
      [
        'nat OUTPUT KUBE-SERVICES',
        {
          kind: 'jump',
          table: 'nat',
          chain: 'OUTPUT',
          rule: '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
          copies: 2,
        },
      ],
    ],
  )
  assert.deepEqual(
    [...foreignReferences(saved, IPVS_LAYOUT)],
    [['nat KUBE-SERVICES', '-A OUTPUT -s 10.0.0.1/32 -j KUBE-SERVICES']],
  )
})

test('parseSave refuses a text that is cut off or hides a table', () => {
  assert.throws(() => parseSave(SAVED.slice(0, 300)), { code: 'iptables-save-truncated' })
  assert.throws(() => parseSave("# Table `filter' is incompatible, use 'nft' tool.\n"), {
    code: 'iptables-table-incompatible',
  })
  assert.deepEqual([...parseSave("# Table `mangle' is incompatible, use 'nft' tool.\n")], [])
  assert.deepEqual([...parseSave('')], [])
})

test('sameRules ignores the order of rules of which no two match one packet, and no other order', () => {
  const service = (address: string, port: number, to: string): string =>
    `-d ${address}/32 -p tcp -m comment --comment "demo/web cluster IP" -m tcp --dport ${port} -j ${to}`
  const [a, b, c] = [service('10.96.0.1', 80, 'A'), service('10.96.0.2', 80, 'B'), service('10.96.0.1', 81, 'C')]
  const nodePorts = '-m comment --comment "node ports" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS'
  const anyAddress = '-p tcp -m tcp --dport 80 -j D'
  const network = '-d 10.96.0.0/16 -p tcp -m tcp --dport 80 -j E'
  const negated = '! -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j F'
  const ports = '-d 10.96.0.9/32 -p tcp -m tcp --dport 80:90 -j G'
  const rows: readonly (readonly [same: boolean, first: readonly string[], second: readonly string[]])[] = [
    [true, [a, b, c, nodePorts], [c, b, a, nodePorts]],
    [true, [a, c, anyAddress], [c, a, anyAddress]],
    [true, [a, service('10.96.0.1', 80, 'Z')], [a, service('10.96.0.1', 80, 'Z')]],
    [false, [a, service('10.96.0.1', 80, 'Z')], [service('10.96.0.1', 80, 'Z'), a]],
    [false, [a, b, nodePorts], [a, nodePorts, b]],
    [false, [nodePorts, a], [a, nodePorts]],
    [false, [a, anyAddress], [anyAddress, a]],
    [false, [b, network], [network, b]],
    [false, [b, negated], [negated, b]],
    [false, [a, ports], [ports, a]],
    [false, [a, a, b], [a, b, b]],
    [false, [a, b], [a]],
    [false, ['-j A', '-j B'], ['-j B', '-j A']],
  ]
  for (const [same, first, second] of rows) {
    assert.equal(sameRules(first, second), same, `${first.join('; ')} and ${second.join('; ')}`)
    assert.equal(sameRules(second, first), same)
  }
})

test('formatRestore declares chains before rules and jumps, and empties a chain before it deletes it', () => {
  const chain = 'KUBE-SERVICES'
  const rule = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
  const ops: readonly IptablesOperation[] = [
    { kind: 'delete-chain', table: 'filter', chain: 'KUBE-FORWARD' },
    { kind: 'insert-jump', table: 'nat', chain: 'PREROUTING', rule },
    { kind: 'delete-jump', table: 'filter', chain: 'FORWARD', rule: '-j KUBE-FORWARD', copies: 2 },
    { kind: 'insert-jump', table: 'nat', chain: 'OUTPUT', rule },
    { kind: 'write-chain', table: 'nat', chain, before: undefined, rules: ['-j KUBE-MARK-MASQ'] },
    { kind: 'write-chain', table: 'nat', chain: 'KUBE-MARK-MASQ', before: [], rules: [] },
  ]
  const { text, operationOfLine, tableOfLine } = formatRestore(ops, IPVS_LAYOUT)
  const rows: readonly (readonly [line: string, op: number | undefined, table: string])[] = [
    ['*nat', undefined, 'nat'],
    [':KUBE-MARK-MASQ - [0:0]', 5, 'nat'],
    [':KUBE-SERVICES - [0:0]', 4, 'nat'],
    ['-A KUBE-SERVICES -j KUBE-MARK-MASQ', 4, 'nat'],
    [`-I OUTPUT ${rule}`, 3, 'nat'],
    [`-I PREROUTING ${rule}`, 1, 'nat'],
    ['COMMIT', undefined, 'nat'],
    ['*filter', undefined, 'filter'],
    [':KUBE-FORWARD - [0:0]', 0, 'filter'],
    ['-D FORWARD -j KUBE-FORWARD', 2, 'filter'],
    ['-D FORWARD -j KUBE-FORWARD', 2, 'filter'],
    ['-X KUBE-FORWARD', 0, 'filter'],
    ['COMMIT', undefined, 'filter'],
  ]
  assert.equal(text, rows.map(([line]) => `${line}\n`).join(''))
  assert.deepEqual(
    operationOfLine,
    rows.map(([, op]) => op),
  )
  assert.deepEqual(
    tableOfLine,
    rows.map(([, , table]) => table),
  )
  assert.equal(formatRestore([], IPVS_LAYOUT).text, '')
})

test('formatRestore sorts chains with a hash by name, because iptables-nft needs much longer for another order', () => {
  const names = ['KUBE-SVC-CCCCCCCCCCCCCCCC', 'KUBE-SEP-BBBBBBBBBBBBBBBB', 'KUBE-SEP-AAAAAAAAAAAAAAAA']
  const ops = names.map(
    (chain): IptablesOperation => ({
      kind: 'write-chain',
      table: 'nat',
      chain,
      before: undefined,
      rules: ['-j A', '-j B'],
    }),
  )
  const sorted = names.toReversed()
  assert.equal(
    formatRestore(ops, IPTABLES_LAYOUT).text,
    [
      '*nat',
      ...sorted.map((chain) => `:${chain} - [0:0]`),
      ...sorted.flatMap((chain) => [`-A ${chain} -j A`, `-A ${chain} -j B`]),
      'COMMIT\n',
    ].join('\n'),
  )
})

test('parseFailure finds lines and reason in the messages of each back end', () => {
  const rows: readonly (readonly [said: string, lines: readonly number[], reason: string])[] = [
    [
      "iptables-nft-restore v1.8.9 (nf_tables): Set NOPE doesn't exist.\n\nError occurred at line: 3\nTry `iptables-nft-restore -h' or 'iptables-nft-restore --help' for more information.\n",
      [3],
      "Set NOPE doesn't exist.",
    ],
    [
      'iptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed (Invalid argument): rule in chain OUTPUT\nline 3: RULE_APPEND failed (Invalid argument): rule in chain PREROUTING\n',
      [2, 3],
      'line 2: RULE_APPEND failed (Invalid argument): rule in chain OUTPUT; line 3: RULE_APPEND failed (Invalid argument): rule in chain PREROUTING',
    ],
    ['iptables-restore: line 7 failed\n', [7], 'line 7 failed'],
    [
      "iptables-restore v1.8.9 (legacy): Couldn't load match `nonesuch':No such file or directory\n\nError occurred at line: 3\n",
      [3],
      "Couldn't load match `nonesuch':No such file or directory",
    ],
    ['Another app is currently holding the xtables lock.\n', [], 'Another app is currently holding the xtables lock.'],
    ['', [], 'no reason given'],
  ]
  for (const [said, lines, reason] of rows) assert.deepEqual(parseFailure(said), { lines, reason })
})

test('itemsOf reads the items that formatRestore wrote', async () => {
  for (const family of ['IPv4', 'IPv6'] as const) {
    const { items } = renderIpvsRules(everything(family))
    const memory = new MemoryIptables()
    const ops = [...items.values()].map(
      (item): IptablesOperation =>
        item.kind === 'chain'
          ? { kind: 'write-chain', table: item.table, chain: item.chain, before: undefined, rules: item.rules }
          : { kind: 'insert-jump', table: item.table, chain: item.chain, rule: item.rule },
    )
    assert.equal((await memory.restore(family, formatRestore(ops, IPVS_LAYOUT).text)).exitCode, 0)
    assert.deepEqual(new Map([...itemsOf(parseSave(memory.text()), IPVS_LAYOUT)].sort()), new Map([...items].sort()))
  }
})
