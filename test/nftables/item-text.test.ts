/** Texts of items and operations, as nft prints and takes them. A kernel test has nft judge them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { operationText, tableText } from '../../src/nftables/item-text.ts'
import { ruleText, statementText } from '../../src/nftables/statement-text.ts'
import type { NftChain, NftItem, NftStatement } from '../../src/nftables/types.ts'

const PORTS = {
  kind: 'set',
  family: 'IPv4',
  name: 'ports',
  fields: ['daddr', 'l4proto', 'dport'],
  isMap: false,
} as const
const RANGES = { ...PORTS, family: 'IPv6', name: 'ranges', isMap: true } as const
const INPUT: NftChain = {
  kind: 'chain',
  family: 'IPv4',
  name: 'filter-input',
  hook: { type: 'filter', hook: 'input', priority: -5 },
  rules: [
    {
      statements: [{ kind: 'new-connection' }, { kind: 'lookup', fields: ['daddr'], set: 'vips' }, { kind: 'reject' }],
    },
    { statements: [{ kind: 'verdict', action: { kind: 'jump', chain: 'services' } }], comment: 'what remains' },
  ],
}

describe('the text of an operation', () => {
  const cases: readonly (readonly [kind: 'add' | 'delete' | 'replace', item: NftItem, text: string])[] = [
    ['add', { kind: 'table', family: 'IPv4', isOwned: false }, 'nft add table ip kube-ipvs'],
    [
      'add',
      { kind: 'table', family: 'IPv6', isOwned: true },
      "nft add table ip6 kube-ipvs '{ flags owner, persist; }'",
    ],
    ['delete', { kind: 'table', family: 'IPv6', isOwned: true }, 'nft delete table ip6 kube-ipvs'],
    ['add', PORTS, "nft add set ip kube-ipvs ports '{ type ipv4_addr . inet_proto . inet_service; }'"],
    ['add', RANGES, "nft add map ip6 kube-ipvs ranges '{ type ipv6_addr . inet_proto . inet_service : verdict; }'"],
    ['delete', RANGES, 'nft delete map ip6 kube-ipvs ranges'],
    [
      'add',
      { kind: 'element', family: 'IPv4', set: 'vips', value: '10.96.0.1' },
      "nft add element ip kube-ipvs vips '{ 10.96.0.1 }'",
    ],
    [
      'replace',
      {
        kind: 'element',
        family: 'IPv6',
        set: 'ranges',
        value: 'fd00::1 . tcp . 80',
        action: { kind: 'jump', chain: 'r' },
      },
      "nft 'delete element ip6 kube-ipvs ranges { fd00::1 . tcp . 80 }; add element ip6 kube-ipvs ranges { fd00::1 . tcp . 80 : jump r }'",
    ],
    [
      'add',
      INPUT,
      "nft 'add chain ip kube-ipvs filter-input { type filter hook input priority filter - 5; policy accept; }; " +
        'add rule ip kube-ipvs filter-input ct state new ip daddr @vips reject; ' +
        'add rule ip kube-ipvs filter-input jump services comment "what remains"\'',
    ],
    ['delete', INPUT, "nft 'flush chain ip kube-ipvs filter-input; delete chain ip kube-ipvs filter-input'"],
    ['add', { kind: 'chain', family: 'IPv4', name: 'c', rules: [] }, 'nft add chain ip kube-ipvs c'],
    // The kernel takes names with any characters: neither the shell nor nft may take them for a command.
    ['delete', { ...PORTS, name: 'x; touch /tmp/p' }, "nft delete set ip kube-ipvs x'??touch?/tmp/p'"],
    [
      'delete',
      { kind: 'chain', family: 'IPv4', name: "x'; flush ruleset; '\u001b[2J", rules: [] },
      "nft 'flush chain ip kube-ipvs x???flush?ruleset?????2J; delete chain ip kube-ipvs x???flush?ruleset?????2J'",
    ],
    [
      'delete',
      { kind: 'element', family: 'IPv4', set: '$(reboot)', value: '80' },
      "nft delete element ip kube-ipvs '??reboot? { 80 }'",
    ],
    [
      'add',
      { kind: 'element', family: 'IPv4', set: 's', value: '80', action: { kind: 'goto', chain: "a' `b`" } },
      "nft add element ip kube-ipvs s '{ 80 : goto a???b? }'",
    ],
    [
      'add',
      { kind: 'chain', family: 'IPv4', name: 'c', rules: [{ statements: [{ kind: 'reject' }], comment: "it's" }] },
      `nft 'add chain ip kube-ipvs c; add rule ip kube-ipvs c reject comment "it'\\''s"'`,
    ],
  ]
  for (const [kind, item, text] of cases) it(text, () => assert.equal(operationText({ kind, item }), text))
})

describe('the text of a rule', () => {
  it('has marks as nft prints them', () => {
    const text = (mask: number, isNot?: true): string =>
      statementText({ kind: 'mark', mask, ...(isNot === undefined ? {} : { isNot }) }, 'IPv4')
    assert.equal(text(0x4000), 'meta mark & 0x00004000 == 0x00004000')
    assert.equal(text(0x4000, true), 'meta mark & 0x00004000 != 0x00004000')
    assert.equal(text(0x8000_0000), 'meta mark 0x80000000/1')
    assert.equal(text(0x8000_0000, true), 'meta mark != 0x80000000/1')
    assert.equal(text(0xc000_0000), 'meta mark 0xc0000000/2')
  })

  it('never ends a text that another program chose', () => {
    const foreign: NftStatement = { kind: 'foreign', expression: 'x"; flush ruleset' }
    const text = ruleText({ statements: [foreign], comment: 'a"\n; flush ruleset "b' }, 'IPv4')
    assert.equal(text, '(x?; flush ruleset) comment "a??; flush ruleset ?b"')
  })

  it('has a list of networks as nft keeps them', () => {
    const text = (cidrs: readonly string[]): string =>
      statementText({ kind: 'networks', field: 'saddr', cidrs }, 'IPv4')
    assert.equal(text(['192.0.2.7/32', '10.0.0.0/8']), 'ip saddr { 10.0.0.0/8, 192.0.2.7 }')
    assert.equal(text(['10.0.0.0/9', '10.128.0.0/9']), 'ip saddr 10.0.0.0/8')
  })
})

describe('the text of a table', () => {
  it('has its sets with their elements, then its chains', () => {
    const items: readonly NftItem[] = [
      { kind: 'table', family: 'IPv4', isOwned: true },
      { kind: 'element', family: 'IPv4', set: 'ports', value: '10.96.0.1 . tcp . 80' },
      { kind: 'element', family: 'IPv4', set: 'ports', value: '10.96.0.1 . udp . 53' },
      INPUT,
      PORTS,
      RANGES,
    ]
    assert.equal(
      tableText(items, 'IPv4'),
      `table ip kube-ipvs {
\tflags owner,persist

\tset ports {
\t\ttype ipv4_addr . inet_proto . inet_service
\t\telements = { 10.96.0.1 . tcp . 80,
\t\t\t     10.96.0.1 . udp . 53 }
\t}

\tchain filter-input {
\t\ttype filter hook input priority filter - 5; policy accept;
\t\tct state new ip daddr @vips reject
\t\tjump services comment "what remains"
\t}
}
`,
    )
    assert.equal(tableText(items, 'IPv6'), '')
  })
})
