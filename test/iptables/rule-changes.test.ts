import assert from 'node:assert/strict'
import { test } from 'node:test'
import { concernsUs } from '../../src/iptables/rule-changes.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import type { NftChange } from '../../src/nftables/rule.ts'

test('concernsUs accepts changes of our chains, and deletions in chains with our jumps', () => {
  const rows: readonly (readonly [kind: NftChange['kind'], table: string, chain: string, expected: boolean])[] = [
    ['rule-added', 'nat', 'KUBE-SERVICES', true],
    ['rule-deleted', 'filter', 'KUBE-FORWARD', true],
    ['chain-deleted', 'nat', 'KUBE-MARK-MASQ', true],
    ['chain-added', 'nat', 'KUBE-MARK-MASQ', true],
    ['rule-added', 'nat', 'KUBE-FORWARD', false],
    ['rule-added', 'filter', 'INPUT', false],
    ['rule-deleted', 'filter', 'INPUT', true],
    ['chain-deleted', 'filter', 'INPUT', true],
    ['rule-deleted', 'nat', 'POSTROUTING', true],
    ['rule-deleted', 'nat', 'INPUT', false],
    ['rule-deleted', 'filter', 'DOCKER', false],
    ['rule-deleted', 'mangle', 'INPUT', false],
    ['table-deleted', 'nat', '', true],
    ['table-deleted', 'mangle', '', true],
  ]
  for (const [kind, table, chain, expected] of rows)
    assert.equal(
      concernsUs({ kind, table, chain, family: 'IPv4', portId: 1 }, IPVS_LAYOUT),
      expected,
      `${kind} ${table} ${chain}`,
    )
})
