/** The kernel of `npm run bench -- --own-cost`: the program's own codecs read its answers, and it counts what a start writes. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { answerTo, noCounts } from '../../dev/bench/own-cost/answers.ts'
import { IpsetConnection } from '../../src/ipset/connection.ts'
import { hasExtension, missingForNft } from '../../src/iptables/nft-support.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE } from '../../src/netlink/constants.ts'
import { RtnetlinkConnection } from '../../src/netlink/rtnetlink.ts'

const counts = noCounts()

function connect(protocol: number): NetlinkConnection {
  const answers: Uint8Array[] = []
  return new NetlinkConnection({
    portId: 1,
    send: (bytes) => answerTo(protocol, bytes, answers, counts),
    receive: () => answers.shift(),
    onReadable: () => undefined,
    close: () => undefined,
  })
}

const SERVICE = { family: 'IPv4', protocol: 'tcp', address: '10.0.0.1', port: 80 } as const
const LIMITS = { forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 } as const
const FIELDS = { ...SERVICE, scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmask: 0xffffffff, persistenceEngine: '' }

describe('kernel of --own-cost', () => {
  it('has IPVS without virtual servers, and counts the destinations that are added', async () => {
    const ipvs = await IpvsConnection.open(connect(NETLINK_GENERIC))
    assert.deepEqual(await ipvs.listServices(), [])
    assert.equal(await ipvs.getService(SERVICE), undefined)
    const before = counts.destinations
    const batch = ipvs.batch()
    batch.addService(FIELDS)
    for (const address of ['10.1.0.1', '10.1.0.2'])
      batch.addDestination(SERVICE, { address, port: 8080, weight: 1, ...LIMITS })
    assert.deepEqual(await batch.commit(), [undefined, undefined, undefined])
    assert.equal(counts.destinations - before, 2)
  })

  it('has the address of the node, no routes, and a device once it was made', async () => {
    const rtnetlink = new RtnetlinkConnection(connect(NETLINK_ROUTE))
    const [address, ...others] = await rtnetlink.listAddresses()
    assert.equal(address?.address, '172.18.0.2')
    assert.deepEqual([...others, ...(await rtnetlink.listRoutes())], [])
    assert.equal(await rtnetlink.getLink('kube-ipvs0'), undefined)
    await rtnetlink.createDummy('kube-ipvs0')
    assert.equal((await rtnetlink.getLink('kube-ipvs0'))?.kind, 'dummy')
  })

  it('has everything that rules need, and no sets', async () => {
    const netlink = connect(NETLINK_NETFILTER)
    assert.deepEqual(await missingForNft(netlink, ['IPv4', 'IPv6']), {})
    assert.equal(await hasExtension(netlink, { kind: 'match', name: 'set' }, 'IPv4'), true)
    const ipset = await IpsetConnection.open(connect(NETLINK_NETFILTER))
    assert.deepEqual(await ipset.listSets(), [])
    assert.deepEqual(await ipset.typeRevisions('hash:ip,port', 'IPv4'), { lowest: 0, highest: 9 })
  })
})
