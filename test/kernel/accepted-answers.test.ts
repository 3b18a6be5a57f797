/** Which chains accept packets of established connections, read from rules as nft and iptables-nft write them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { droppingChains, ruleToAdd } from '../../src/modes/ipvs/dropping-chains.ts'
import { deadline } from '../support/deadline.ts'
import { freshNode } from '../support/kernel-state.ts'
import { run, sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const signal = AbortSignal.timeout(deadline(60_000))
const base = (policy: string): string => `chain c {\n type filter hook forward priority 0; policy ${policy};\n }`
const NATIVE =
  'nft add table inet t && nft "add chain inet t c { type filter hook forward priority 0; }" && nft add rule inet t c reject'
const INPUT = 'chain i {\n type filter hook input priority 0; policy accept;\n }'

test(
  'a rule with no other condition than the state accepts answers, where the chain leads to it',
  needs('nft'),
  async () => {
    freshNode()
    const rows: readonly [rules: readonly string[], accepts: boolean][] = [
      [['c ct state established,related accept'], true],
      [['c ct state established accept'], true],
      [['c ct state != invalid accept'], true],
      [['c ct state vmap { established : accept, related : accept, invalid : drop }'], true],
      [['c ct state { established, related } counter accept'], true],
      [['s ct state established accept', 'c jump s'], true],
      [['s ct state established accept', 'c iifname vmap { "eth0" : jump s }'], true],
      [['s ct state established accept'], false],
      [['s ct state established accept', 'c ct state new jump s'], false],
      [['i ct state established,related accept'], false],
      [['c ct state new accept'], false],
      [['c ct state != established accept'], false],
      [['c ct state invalid drop'], false],
      [['c iifname "eth0" ct state established accept'], false],
      [['c ct mark 1 accept'], false],
      [['c accept'], true],
      [['c tcp dport 80 accept'], false],
      [['c drop', 'c ct state established accept'], false],
      [['c ct state { new, invalid } drop', 'c ct state established accept'], true],
      [['c tcp dport 80 reject', 'c ct state established accept'], true],
    ]
    // A rule at the end without conditions does what the policy would.
    const ended = rows.flatMap(([rules, accepts]) =>
      ['drop', 'counter reject', 'jump e'].map((end) => ['accept', [...rules, `c ${end}`], accepts] as const),
    )
    for (const [policy, rules, accepts] of [...rows.map((row) => ['drop', ...row] as const), ...ended]) {
      const added = rules.map((rule) => `add rule inet t ${rule}\n`).join('')
      const chains = `chain s {\n}\nchain e {\n drop\n}\n${base(policy)}\n${INPUT}`
      run(['nft', '-f', '-'], `table inet t {\n${chains}\n}\n${added}`)
      const dropping = (await droppingChains(signal)).map(({ chain }) => chain)
      assert.deepEqual(dropping, accepts ? [] : ['c'], rules.join('; '))
      sh('nft delete table inet t')
    }
  },
)

test('rules of iptables-nft count by the states that they name', needs('iptables-nft', 'nft'), async () => {
  const rows: readonly [rule: string, accepts: boolean][] = [
    ['FORWARD -m conntrack --ctstate RELATED,ESTABLISHED', true],
    ['FORWARD -m state --state RELATED,ESTABLISHED', true],
    ['FORWARD -m comment --comment answers -m conntrack ! --ctstate INVALID', true],
    ['FORWARD -m conntrack --ctstate NEW', false],
    ['FORWARD -m conntrack ! --ctstate ESTABLISHED', false],
    ['FORWARD -m conntrack --ctstate ESTABLISHED --ctdir ORIGINAL', false],
    ['INPUT -m state --state RELATED,ESTABLISHED', false],
    ['OUTPUT -m conntrack --ctstate DNAT', false],
  ]
  const drops = ['-P FORWARD DROP', '-A FORWARD -j REJECT', '-A FORWARD -m comment --comment rest -j DROP']
  for (const drop of drops)
    for (const [rule, accepts] of rows) {
      freshNode()
      sh(`iptables-nft ${drop} && iptables-nft -I ${rule} -j ACCEPT`)
      const dropping = (await droppingChains(signal)).map(({ chain }) => chain)
      assert.deepEqual(dropping, accepts ? [] : ['FORWARD'], `${drop}; ${rule}`)
    }
})

test(
  'the command that a problem names ends it, whether a policy drops or a rule, and chains of proxies and Docker do not',
  needs('iptables-nft', 'nft'),
  async () => {
    for (const drop of [
      'iptables-nft -P FORWARD DROP',
      'iptables-nft -A FORWARD -j REJECT',
      // A table of the same name stands in front of it.
      'iptables-nft -A FORWARD -j ACCEPT && ip6tables-nft -A FORWARD -j REJECT',
      NATIVE,
    ]) {
      freshNode()
      sh(drop)
      const [dropping, ...more] = await droppingChains(signal)
      assert.ok(dropping !== undefined && more.length === 0, drop)
      sh(ruleToAdd(dropping).replace('tables', 'tables-nft'))
      assert.deepEqual(await droppingChains(signal), [], drop)
    }
    freshNode()
    for (const chain of ['KUBE-FORWARD', 'DOCKER-USER', 'DOCKER-ISOLATION-STAGE-1', 'DOCKER-ISOLATION-STAGE-2'])
      sh(`iptables-nft -N ${chain} && iptables-nft -A FORWARD -m comment --comment x -j ${chain}`)
    sh(`iptables-nft -A KUBE-FORWARD -j DROP && iptables-nft -A DOCKER-USER -j RETURN
      iptables-nft -A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
      iptables-nft -A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP`)
    assert.deepEqual(await droppingChains(signal), [])
  },
)

test(
  'rules of a proxy do not count: they are removed once the nftables firewall serves',
  needs('iptables-nft', 'nft'),
  async () => {
    freshNode()
    sh('iptables-nft -P FORWARD DROP && iptables-nft -N KUBE-FORWARD && iptables-nft -A FORWARD -j KUBE-FORWARD')
    sh('iptables-nft -A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')
    const dropping = await droppingChains(signal)
    assert.deepEqual(
      dropping.map(({ table, chain }) => [table, chain]),
      [['ip filter', 'FORWARD']],
    )
  },
)

test('rules count in the chains that ufw makes, too', needs('iptables-nft', 'nft'), async () => {
  freshNode()
  sh('iptables-nft -P FORWARD DROP')
  const dropping = async () => (await droppingChains(signal)).map(({ table, isOfIptables }) => [table, isOfIptables])
  assert.deepEqual(await dropping(), [['ip filter', true]])
  sh('iptables-nft -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')
  assert.deepEqual(await dropping(), [['ip filter', true]])
  sh('iptables-nft -N ufw-before-forward && iptables-nft -A FORWARD -j ufw-before-forward')
  sh('iptables-nft -A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')
  assert.deepEqual(await dropping(), [])
})
