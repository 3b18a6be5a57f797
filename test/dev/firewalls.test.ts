/** Which kernel tests run again with another firewall, and how a test process knows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { firewallOfRun, FURTHER_FIREWALLS, withFirewalls } from '../../dev/testing/firewalls.ts'
import { FIREWALLS } from '../support/firewalls.ts'

const FRONTENDS = 'test/kernel/traffic-frontends.test.ts'
const REFUSED = 'test/kernel/traffic-refused.test.ts'
const OTHER = 'test/kernel/status.test.ts'

test('all tests of traffic run again in a full run, also in a bare guest, and none of them in a quick one', () => {
  const files = [FRONTENDS, `${FRONTENDS}?bare`, REFUSED, OTHER]
  assert.deepEqual(withFirewalls(files, true, ['nftables']), [
    FRONTENDS,
    `${FRONTENDS}?firewall=nftables`,
    `${FRONTENDS}?bare`,
    REFUSED,
    `${REFUSED}?firewall=nftables`,
    `${REFUSED}?bare`,
    OTHER,
  ])
  assert.deepEqual(withFirewalls(files, false, ['nftables']), files)
  assert.deepEqual(withFirewalls(files, true, []), files)
})

test('a test process knows its firewall from the name of its file', () => {
  assert.equal(firewallOfRun(['node', 'dev/testing/batch.ts', `${REFUSED}?firewall=nftables`]), 'nftables')
  assert.equal(firewallOfRun(['node', 'dev/testing/batch.ts', `${REFUSED}?bare`]), 'nftables')
  assert.equal(firewallOfRun(['node', 'dev/testing/batch.ts', REFUSED]), undefined)
})

test('what runs again is what the packet oracle compares with iptables', () => {
  const names = FIREWALLS.map(({ name }) => name).filter((name) => !name.startsWith('iptables-'))
  assert.deepEqual(names, FURTHER_FIREWALLS)
})
