/** Which chains of others may translate packets to Services before a firewall of ipvs mode does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { layoutOf } from '../../src/modes/ipvs/nftables-firewall/layout.ts'
import { mayTranslate, NAT_PRIORITY, USUAL_NAT_PRIORITY } from '../../src/nftables/nat-order.ts'

test('a chain behind those of the nftables firewall takes nothing from it, and any chain something from rules of iptables', () => {
  const rows: readonly (readonly [priority: number, nftables: boolean])[] = [
    [-300, true],
    [NAT_PRIORITY - 1, true],
    // Of two equal ones the kernel calls first which was made last.
    [NAT_PRIORITY, true],
    [NAT_PRIORITY + 1, false],
    [USUAL_NAT_PRIORITY, false],
    [300, false],
  ]
  for (const [priority, expected] of rows) {
    assert.equal(mayTranslate(priority, 'nftables'), expected, String(priority))
    assert.equal(mayTranslate(priority, 'iptables'), true)
  }
})

test('the chains that keep the destination of packets have this priority', () => {
  const settings = { localTraffic: undefined, masqueradeAll: false, masqueradeBit: 14, takesAll: true, refuses: true }
  const items = layoutOf({ ...settings, family: 'IPv4', isOwned: false })
  const priorities = items.flatMap((item) =>
    item.kind === 'chain' && item.hook?.type === 'nat' && item.hook.hook !== 'postrouting' ? [item.hook.priority] : [],
  )
  assert.deepEqual(priorities, [NAT_PRIORITY, NAT_PRIORITY])
})
