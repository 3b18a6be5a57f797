/** Which tables accept packets of established connections, read from rules as nft and iptables-nft write them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import { droppingChains } from '../../src/modes/ipvs/dropping-chains.ts'
import { tablesThatAcceptAnswers } from '../../src/nftables/accepted-answers.ts'
import { freshNode } from '../support/kernel-state.ts'
import { run, sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const signal = AbortSignal.timeout(60_000)
const BASE = 'chain c {\n type filter hook forward priority 0; policy drop;\n }'

test('a rule with no other condition than the state accepts answers', needs('nft'), async () => {
  freshNode()
  const rows: readonly [rule: string, accepts: boolean][] = [
    ['ct state established,related accept', true],
    ['ct state vmap { established : accept, related : accept, invalid : drop }', true],
    ['ct state { established, related } counter accept', true],
    ['ct state invalid drop', false],
    ['iifname "eth0" ct state established accept', false],
    ['ct mark 1 accept', false],
    ['accept', false],
    ['tcp dport 80 accept', false],
  ]
  const netlink = openNetfilter()
  try {
    for (const [rule, accepts] of rows) {
      run(['nft', '-f', '-'], `table inet t {\n ${BASE}\n}\nadd rule inet t c ${rule}\nadd table ip t\n`)
      const tables = (['inet', 'ip'] as const).map((family) => ({ family, table: 't' }))
      const found = await tablesThatAcceptAnswers(netlink, tables, { signal })
      assert.deepEqual([...found], accepts ? ['inet t'] : [], rule)
      assert.equal((await droppingChains(signal)).length, accepts ? 0 : 1, rule)
      sh('nft delete table inet t')
    }
  } finally {
    netlink.close()
  }
})

test(
  'rules of iptables-nft count as well, in the chains that ufw makes too',
  needs('iptables-nft', 'nft'),
  async () => {
    freshNode()
    sh('iptables-nft -P FORWARD DROP')
    const dropping = async () => (await droppingChains(signal)).map(({ table, isOfIptables }) => [table, isOfIptables])
    assert.deepEqual(await dropping(), [['ip filter', true]])
    sh('iptables-nft -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')
    assert.deepEqual(await dropping(), [['ip filter', true]])
    sh('iptables-nft -N ufw-before-forward && iptables-nft -A FORWARD -j ufw-before-forward')
    sh('iptables-nft -A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')
    assert.deepEqual(await dropping(), [])
  },
)
