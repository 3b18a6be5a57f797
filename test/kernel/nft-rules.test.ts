/**
 * Rules of nf_tables in the tables of iptables, read from the kernel: which of them iptables prints
 * as they are. The other direction is what matters: no rule counts as exact of which iptables
 * leaves something out.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import { deleteNftRules } from '../../src/nftables/removal.ts'
import { listNftChains, listNftRules, visitNftRules } from '../../src/nftables/rules.ts'
import type { NetlinkConnection } from '../../src/netlink/connection.ts'
import { freshNode } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const INPUT = { family: 'IPv4', table: 'filter', chain: 'INPUT' } as const

let netlink: NetlinkConnection
afterEach(() => netlink.close())
beforeEach(() => {
  freshNode()
  netlink = openNetfilter()
  sh('iptables-nft -N KUBE-X; nft add set ip filter s "{ type ipv4_addr; elements = { 192.0.2.1 }; }"')
  sh('iptables-nft -A INPUT -i lo -j ACCEPT')
})

/** What iptables prints of the second rule of INPUT; undefined: it refuses. */
function printed(): string | undefined {
  const { stdout, status } = spawnSync('iptables-nft-save', ['-t', 'filter'], { encoding: 'utf8' })
  const rules = stdout.split('\n').filter((line) => line.startsWith('-A INPUT'))
  return status === 0 && stdout.includes('COMMIT') ? (rules[1] ?? '') : undefined
}

describe('a rule that iptables made', needs('iptables-nft', 'nft'), () => {
  const RULES = [
    '-s 10.0.0.0/8 -d 192.0.2.1 -p tcp --dport 80 -j KUBE-X',
    '! -s 10.0.0.0/9 ! -i eth+ -p udp --sport 1:1024 -j DROP',
    '-p tcp --dport 1024:65535 ! --sport 7 -j ACCEPT',
    '-p tcp --tcp-flags SYN,ACK SYN -j RETURN',
    '-p sctp --dport 5 -g KUBE-X',
    '-p icmp --icmp-type 8 -j ACCEPT',
    '-m mark --mark 0x4000/0x4000 -j MARK --set-xmark 0x4000/0x0',
    '-m mark ! --mark 7 -m conntrack --ctstate NEW -m comment --comment "a b" -j KUBE-X',
    '-p udp -m addrtype --dst-type LOCAL -m limit --limit 5/sec -m multiport --dports 1,2,3 -j LOG',
    '-p tcp -m statistic --mode random --probability 0.5 -j REJECT',
  ]
  for (const rule of RULES)
    it(`is exact: ${rule}`, async () => {
      sh(`iptables-nft -F INPUT; iptables-nft -A INPUT ${rule}`)
      const [found, more] = await listNftRules(netlink, INPUT)
      assert.ok(found !== undefined && more === undefined)
      assert.equal(found.isExact, true)
      assert.equal(found.comment, rule.includes('--comment') ? 'a b' : '')
    })
})

describe('a rule that nft made', needs('iptables-nft', 'nft'), () => {
  /** Exact ones; and what iptables prints of them. */
  const EXACT: readonly (readonly [rule: string, printed: RegExp])[] = [
    ['tcp dport 80 drop', /-p tcp -m tcp --dport 80 -j DROP/],
    ['tcp dport 80-90 drop', /--dport 80:90 -j DROP/],
    ['ip saddr 192.0.2.0/24 accept', /-s 192\.0\.2\.0\/24 -j ACCEPT/],
    ['ip daddr != 192.0.2.1 iifname "eth*" counter jump KUBE-X', /! -d 192\.0\.2\.1\/32 -i eth\+ -j KUBE-X/],
    ['meta l4proto udp meta mark 5 return', /-p udp -m mark --mark 0x5 -j RETURN/],
    ['limit rate 5/second drop', /-m limit --limit 5\/sec -j DROP/],
    ['drop', /-A INPUT -j DROP/],
  ]
  for (const [rule, text] of EXACT)
    it(`is exact: ${rule}`, async () => {
      sh(`nft add rule ip filter INPUT '${rule}'`)
      const rules = await listNftRules(netlink, INPUT)
      assert.deepEqual(
        rules.map(({ isExact }) => isExact),
        [true, true],
      )
      assert.match(printed() ?? '', text)
    })

  const INEXACT = [
    'tcp dport { 80, 443 } drop',
    'ip saddr { 192.0.2.1, 192.0.2.9 } drop',
    'ip saddr @s drop',
    'ip saddr 192.0.2.1-192.0.2.9 drop',
    'ip saddr > 192.0.2.1 drop',
    'meta l4proto { tcp, udp } drop',
    'iifname { lo, eth9 } drop',
    'tcp sequence 500 drop',
    'icmp code 3 drop',
    'th dport 53 drop',
    'sctp dport 53 drop',
    'ip dscp 4 drop',
    'meta skuid 0 drop',
    'meta mark > 5 drop',
    'limit rate over 5/second drop',
    'limit rate 5 mbytes/second drop',
    'ct state established,related accept',
    'fib daddr type local drop',
    'udp dport vmap { 53 : drop }',
    'ip saddr vmap { 192.0.2.1 : drop }',
    'ip ttl set 5',
    'meta mark set 5',
    'reject',
    '@ll,0,16 80 drop',
  ]
  for (const rule of INEXACT)
    it(`is not exact: ${rule}`, async () => {
      sh(`nft add rule ip filter INPUT '${rule}'`)
      const rules = await listNftRules(netlink, INPUT)
      assert.deepEqual(
        rules.map(({ isExact }) => isExact),
        [true, false],
        printed(),
      )
      const [, found] = rules
      const verdict = /(drop|accept)$/.exec(rule)?.[1]
      assert.equal(found?.verdict?.kind, verdict)
    })
})

describe('rules of nf_tables', needs('iptables-nft', 'nft'), () => {
  it('are listed with their jumps, in order, and deleted by their handle', async () => {
    sh(
      'iptables-nft -I INPUT -m comment --comment "kube x" -j KUBE-X; nft insert rule ip filter INPUT ct state new goto KUBE-X',
    )
    const rules = await listNftRules(netlink, INPUT)
    assert.deepEqual(
      rules.map(({ verdict, isPlain, comment }) => [verdict?.kind, verdict?.chain, isPlain, comment]),
      [
        ['goto', 'KUBE-X', false, ''],
        ['jump', 'KUBE-X', true, 'kube x'],
        ['accept', '', false, ''],
      ],
    )
    await deleteNftRules(netlink, 'IPv4', rules.slice(0, 2))
    await deleteNftRules(netlink, 'IPv4', rules.slice(0, 1))
    assert.deepEqual(await listNftRules(netlink, INPUT), rules.slice(2))
  })

  it('of other chains, tables and families are left out, and a missing table or chain has none', async () => {
    sh('iptables-nft -A KUBE-X -j DROP; iptables-nft -t nat -A POSTROUTING -j ACCEPT; ip6tables-nft -A INPUT -j DROP')
    sh('nft add table inet filter; nft add chain inet filter INPUT; nft add rule inet filter INPUT drop')
    const verdicts: unknown[] = []
    await visitNftRules(netlink, { family: 'IPv4', table: 'filter' }, (rule) => {
      verdicts.push([rule.chain, rule.verdict?.kind])
    })
    assert.deepEqual(verdicts.sort(), [
      ['INPUT', 'accept'],
      ['KUBE-X', 'drop'],
    ])
    assert.deepEqual(await listNftRules(netlink, { ...INPUT, chain: 'NONE' }), [])
    assert.deepEqual(await listNftRules(netlink, { ...INPUT, table: 'mangle' }), [])
  })

  it('are in chains, of which some are base chains', async () => {
    const chains = await listNftChains(netlink, 'IPv4', 'filter')
    assert.deepEqual(chains.map(({ name, isBase }) => [name, isBase]).sort(), [
      ['INPUT', true],
      ['KUBE-X', false],
    ])
    assert.deepEqual(await listNftChains(netlink, 'IPv6', 'filter'), [])
  })
})
