/** Which virtual servers the sets say are ours. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { SetRequests } from '../../../../src/ipset/connection.ts'
import { entryOf, hairpinEntries } from '../../../../src/ipset/render.ts'
import type { SetEntry } from '../../../../src/ipset/types.ts'
import { SetRemains } from '../../../../src/modes/ipvs/iptables-firewall/remains.ts'
import { membershipsOf } from '../../../../src/service/policy.ts'
import { IP_FAMILIES } from '../../../../src/values/protocol.ts'
import { frontendOf } from '../../../support/frontends.ts'

const signal = new AbortController().signal
const NODE = new Set(['10.0.2.15'])
const refuse = async (): Promise<never> => assert.fail('only lists')

/** A kernel whose sets have these entries. */
function kernel(entries: readonly SetEntry[]): SetRequests & { close(): void } {
  return {
    listEntries: async ({ name }) => entries.filter(({ set }) => set === name),
    listSets: refuse,
    getSet: refuse,
    create: refuse,
    destroy: refuse,
    rename: refuse,
    swap: refuse,
    transact: refuse,
    close: () => undefined,
  }
}

const owned = async (entries: readonly SetEntry[]) => new SetRemains(kernel(entries), IP_FAMILIES).owned(NODE, signal)

it('SetRemains.owned knows the virtual server of a frontend of each role again, and no other', async () => {
  const rows = [
    frontendOf({ roles: ['ClusterIP'] }, ['10.244.1.1']),
    frontendOf({ roles: ['ClusterIP'], address: 'fd00:10:96::1' }, ['fd00:10:244:1::1']),
    frontendOf({ roles: ['ExternalIP'], address: '198.51.100.7' }, ['10.244.1.1']),
    frontendOf({ roles: ['LoadBalancerVip'], address: '203.0.113.10' }, ['10.244.1.1']),
    frontendOf({ roles: ['NodePort'], address: '10.0.2.15', port: 30080, bind: false }, ['10.244.1.1']),
  ]
  for (const frontend of rows) {
    const isOwned = await owned([...hairpinEntries(frontend, 'node0'), ...membershipsOf(frontend).map(entryOf)])
    assert.deepEqual(
      rows.filter(({ key }) => isOwned(key)),
      [frontend],
    )
  }
})

it('SetRemains.owned takes a node port only at an address of the node, and nothing without sets', async () => {
  const nodePort = frontendOf({ roles: ['NodePort'], address: '10.0.2.15', port: 30080, bind: false }, ['10.244.1.1'])
  const isOwned = await owned(membershipsOf(nodePort).map(entryOf))
  assert.deepEqual(
    ['10.0.2.15:30080/tcp', '192.0.2.1:30080/tcp', '10.0.2.15:30080/udp'].map((key) => isOwned(key)),
    [true, false, false],
  )
  assert.equal((await owned([]))(nodePort.key), false)
})
