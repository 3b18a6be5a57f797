/** The daemon adds real servers in the order of its node, and a restart or a repair changes no order. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openNetlinkConnection } from '../../native/open.ts'
import { orderOfNode } from '../../src/ipvs/addition-order.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { diffVirtualServer } from '../../src/ipvs/diff.ts'
import { virtualServerKey } from '../../src/ipvs/types.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { freshNode } from '../support/kernel-state.ts'
import { node, service, slice } from '../support/manifests.ts'
import { makeRealServer, makeVirtualServer } from '../support/virtual-servers.ts'

const ENDPOINTS = Array.from({ length: 8 }, (_, index) => `10.244.0.${index + 1}`)
const VIRTUAL = makeVirtualServer(
  '10.96.0.1',
  ENDPOINTS.map((address) => makeRealServer(address, 1, 8080)),
)

/** What was added last is the head of the kernel's list. */
const listOf = (name: string): string[] =>
  diffVirtualServer(virtualServerKey(VIRTUAL), VIRTUAL, undefined, undefined, orderOfNode(name))
    .flatMap((op) => (op.kind === 'add-real-server' ? [op.realServer.address] : []))
    .toReversed()

let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

/** The real servers in the order of the kernel. */
async function inKernel(): Promise<string[]> {
  const ipvs = await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC))
  try {
    return (await ipvs.listDestinations(VIRTUAL)).map(({ realServer }) => realServer.address)
  } finally {
    ipvs.close()
  }
}

describe('the order of a node', () => {
  for (const name of ['node-1', 'node-2'])
    it(`is that of ${name} in the kernel, also after a restart`, async () => {
      bench = new Workbench({}, { hostnameOverride: name })
      bench.write('node.yaml', node(['10.0.2.15'], { metadata: { name } }))
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ENDPOINTS))
      const plan = await bench.command('diff')
      const printed = plan.stdout.split('\n').flatMap((line) => /-a .* -r ([\d.]+):/.exec(line)?.[1] ?? [])
      assert.deepEqual(printed, listOf(name).toReversed())
      const first = bench.start()
      await eventually(async () => assert.deepEqual(await inKernel(), listOf(name)))
      first.kill()
      await bench.ended(first)
      const { code } = await bench.command('', '--once')
      assert.equal(code, 0)
      assert.deepEqual(await inKernel(), listOf(name))
    })

  it('is not the same for both', () => assert.notDeepEqual(listOf('node-1'), listOf('node-2')))
})
