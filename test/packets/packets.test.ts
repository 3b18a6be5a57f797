/** The scenarios and packets of the oracle, and how it reads conntrack. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NODE } from '../support/cluster.ts'
import { manifestsOf } from './manifests.ts'
import { type Kind, KINDS, packetsOf } from './packets.ts'
import { packetsFor, trialsOf } from './run.ts'
import { EVERY_RULE, nodePort, SHARED_PORT } from './scenario.ts'
import { parseFlow } from './spy.ts'

const TRIALS = trialsOf(1, 40, 6, 200)

describe('trials', () => {
  it('know the port that is also a node port', () => {
    assert.equal(SHARED_PORT, nodePort(1, 0))
  })

  it('are the same for the same seed, and others for another', () => {
    assert.deepEqual(trialsOf(1, 3, 6, 200), TRIALS.slice(0, 3))
    assert.notDeepEqual(trialsOf(2, 3, 6, 200), TRIALS.slice(0, 3))
  })

  it('have every setting, every value of every field of Services, and every kind of packet', () => {
    const text = JSON.stringify(TRIALS.map(({ scenario }) => manifestsOf(scenario))) + JSON.stringify(TRIALS)
    const wanted = [
      ...['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'].map((type) => `"type":"${type}"`),
      '"clusterIPs":["None"]',
      '"internalTrafficPolicy":"Local"',
      '"externalTrafficPolicy":"Local"',
      '"sessionAffinity":"ClientIP"',
      '"loadBalancerSourceRanges":["10.0.2.112/29',
      '"allocateLoadBalancerNodePorts":false',
      '"healthCheckNodePort":3200',
      '"externalIPs":["192.0.2.',
      '"ipMode":"Proxy"',
      '"targetPort":"target-9090"',
      '"ipFamilyPolicy":"SingleStack"',
      ...['TCP', 'UDP', 'SCTP'].map((protocol) => `"protocol":"${protocol}"`),
      '"terminating":true',
      '"port":30010,"targetPort"',
      '"endpoints":[]',
      ...['NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'].map((mode) => `"detectLocalMode":"${mode}"`),
      '"configuration":{"clusterCIDR"',
      '"configuration":{"iptables"',
      '"masqueradeAll":true',
      '"masqueradeBit":5',
      '"nodePortAddresses":["primary"]',
      '"virtualAddresses":"routes"',
      '"virtualAddresses":"addresses"',
      '"forward":"DROP"',
      '"input":"DROP"',
      ...['client', 'other', 'a', 'b', 'c', 'node'].map((from) => `"from":"${from}"`),
      ...KINDS.map((kind) => `"kind":"${kind}"`),
    ]
    for (const part of wanted) assert.ok(text.includes(part), part)
  })

  it('have as many packets as asked, more of those to frontends', () => {
    const counts = new Map<Kind, number>()
    for (const { packets } of TRIALS) {
      assert.equal(packets.length, 200)
      assert.equal(new Set(packets.map((packet) => JSON.stringify(packet))).size, 200)
      for (const { kind } of packets) counts.set(kind, (counts.get(kind) ?? 0) + 1)
    }
    assert.ok((counts.get('LoadBalancer') ?? 0) > 3 * (counts.get('ping') ?? 0), JSON.stringify([...counts]))
  })

  it('are for the load balancer where its address and port are a node port of another Service', () => {
    const [first, ...others] = EVERY_RULE.services
    assert.ok(first !== undefined)
    const port = { protocol: 'udp', port: SHARED_PORT, targetPort: 8080, isNamed: false } as const
    const atNode = { ...first, ports: [port], ingress: 'node', sourceRanges: 'the client' } as const
    const packets = packetsOf({ ...EVERY_RULE, services: [{ ...first, ports: [port] }, atNode, ...others] })
    const there = packets.filter(
      ({ to }) => to.protocol === 'udp' && to.address === NODE.IPv4 && to.port === SHARED_PORT,
    )
    assert.ok(there.length > 0)
    for (const { kind, service } of there) assert.deepEqual([kind, service], ['LoadBalancer', 2])
  })

  it('may be limited to some packets', () => {
    const packets = packetsFor(EVERY_RULE, 1, 250, ({ family }) => family === 'IPv6')
    assert.equal(packets.length, 250)
    for (const { family, to } of packets) assert.ok(family === 'IPv6' && to.address.includes(':'), to.address)
    assert.ok(packetsOf(EVERY_RULE).length > 1000)
  })
})

describe('a connection of conntrack', () => {
  it('has its state, both directions and its mark, without what passes', () => {
    const { port, flow } = parseFlow(
      'tcp      6 8 CLOSE src=10.0.2.16 dst=10.96.0.2 sport=11012 dport=80 src=10.244.0.1 dst=10.244.0.254 sport=8080 dport=50825 [ASSURED] mark=16384 use=1',
    )
    assert.equal(port, 11_012)
    assert.deepEqual(flow, {
      text: 'tcp CLOSE 10.0.2.16 to 10.96.0.2 80 answered by 10.244.0.1 8080 to 10.244.0.254 at another port ASSURED',
      mark: 0x4000,
    })
  })

  it('without a state, and unanswered', () => {
    const { port, flow } = parseFlow(
      'udp      17 29 src=fd00::1 dst=fd00::2 sport=11013 dport=53 [UNREPLIED] src=fd00::2 dst=fd00::1 sport=53 dport=11013 mark=0 use=1',
    )
    assert.equal(port, 11_013)
    assert.equal(flow.text, 'udp fd00::1 to fd00::2 53 answered by fd00::2 53 to fd00::1 at the same port UNREPLIED')
    assert.equal(flow.mark, 0)
  })

  it('of a ping is told by its number', () => {
    const { port, flow } = parseFlow(
      'icmp     1 29 src=10.244.0.1 dst=10.244.0.2 type=8 code=0 id=4712 src=10.244.0.2 dst=10.244.0.1 type=0 code=0 id=4712 mark=0 use=1',
    )
    assert.equal(port, 4712)
    assert.equal(flow.text, 'icmp 10.244.0.1 to 10.244.0.2 answered by 10.244.0.2 to 10.244.0.1 at the same port')
  })
})
