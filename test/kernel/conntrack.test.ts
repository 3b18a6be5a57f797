/**
 * Flows on a real kernel: listing and deleting them, and stale UDP flows of virtual servers with a
 * client that keeps its port. The conntrack program is the judge. These tests own all flows and
 * virtual servers of their network namespace.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, beforeEach, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import { ConntrackConnection } from '../../src/conntrack/connection.ts'
import { StaleFlows } from '../../src/conntrack/stale-flows.ts'
import type { Flow, FlowFilter } from '../../src/conntrack/types.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import { kernelRelease } from '../../src/node/host.ts'
import { conntrackSettings, ipvsSysctls } from '../../src/node/kernel-settings.ts'
import { applySysctls } from '../../src/node/sysctl.ts'
import { formatEndpoint } from '../../src/values/address.ts'
import { endpoint, flowFrontend, parseFlow } from '../conntrack/flows.ts'
import { sh } from '../support/programs.ts'
import { NODE_ADDRESS, POD_PORT, UdpWorld } from '../support/udp-world.ts'
import { needs } from './needs.ts'

const signal = new AbortController().signal
const ALL = { limit: 100_000 }

/**
 * UDP flows as the conntrack program lists them, in the form of the recordings, sorted. `filter`:
 * more options for it.
 */
function flowLines(filter = ''): string[] {
  return ['ipv4', 'ipv6']
    .flatMap((family) => sh(`conntrack -L -p udp -f ${family} ${filter} 2>/dev/null`).split('\n'))
    .filter((line) => line.startsWith('udp'))
    .map((line) => ['udp', ...(line.match(/\b(src|dst|sport|dport)=\S+/g) ?? [])].join(' '))
    .sort()
}

/** Which endpoint answers each flow to a port: `CLIENT-PORT ADDRESS`, sorted. */
function answered(port: number): string[] {
  return flowLines(`--dport ${port}`)
    .map(parseFlow)
    .map(({ original, reply }) => `${original.sourcePort} ${reply.source}`)
    .sort()
}

/** Puts a flow into the table. `to` and `from` as ipvsadm has them. */
function insert(to: string, from: string, clientPort: number): void {
  const [, destination, port] = /^\[?([^\]]+?)\]?:(\d+)$/.exec(to) ?? []
  const [, source, sourcePort] = /^\[?([^\]]+?)\]?:(\d+)$/.exec(from) ?? []
  const client = to.startsWith('[') ? 'fd00:10:0:3::77' : '10.0.3.77'
  sh(`conntrack -I -p udp -t 600 -s ${client} -d ${destination} --sport ${clientPort} --dport ${port} \
    -r ${source} -q ${client} --reply-port-src ${sourcePort} --reply-port-dst ${clientPort}`)
}

describe('conntrack', needs('nft', 'program:conntrack'), () => {
  let conntrack: ConntrackConnection
  let world: UdpWorld
  before(async () => {
    world = await UdpWorld.start()
    conntrack = await ConntrackConnection.open(openNetfilter())
  })
  beforeEach(() => {
    // Here we remove the flows of removed real servers, not IPVS.
    sh(
      'ipvsadm -C; sysctl -q -w net.ipv4.vs.expire_nodest_conn=0; conntrack -F 2>/dev/null; ip link delete kube-ipvs0 2>/dev/null; true',
    )
  })
  after(() => {
    conntrack.close()
    world.stop()
  })

  /** Keys as the program knows them, with the endpoints that each keeps. */
  function staleFlows(frontends: Readonly<Record<string, readonly string[] | undefined>>, limit?: number): StaleFlows {
    const stale = new StaleFlows({ conntrack, isSettled: () => true, ...(limit === undefined ? {} : { limit }) })
    for (const [key, kept] of Object.entries(frontends))
      stale.suspect(key, kept === undefined ? undefined : flowFrontend(...kept.map((place) => endpoint(place))))
    return stale
  }

  /** A virtual server with these real servers at the pods' port, and its address on kube-ipvs0. */
  function virtualServer(address: string, port: number, ...pods: string[]): void {
    const key = formatEndpoint(address, port)
    sh(
      `ip link add kube-ipvs0 type dummy 2>/dev/null; ip address replace ${address} dev kube-ipvs0; ipvsadm -A -u ${key} -s rr`,
    )
    for (const pod of pods) sh(`ipvsadm -a -u ${key} -r ${formatEndpoint(pod, POD_PORT)} -m`)
  }

  it('the kernel lists the flows that match a filter, in both families', async () => {
    const places = [
      ['10.96.0.10:53', '10.244.0.1:5353'],
      ['10.96.0.10:54', '10.244.0.1:5353'],
      ['10.96.0.11:53', '10.244.0.2:5353'],
      ['[fd00:10:96::a]:53', '[fd00:10:244::1]:5353'],
      ['[fd00:10:96::a]:54', '[fd00:10:244::1]:5353'],
      ['[fd00:10:96::b]:53', '[fd00:10:244::2]:5353'],
    ] as const
    places.forEach(([to, from], index) => insert(to, from, 40_001 + index))
    sh(
      'conntrack -I -p tcp -t 600 -s 10.0.3.77 -d 10.96.0.10 --sport 1 --dport 53 -r 10.244.0.1 -q 10.0.3.77 --reply-port-src 53 --reply-port-dst 1 --state ESTABLISHED',
    )
    const everything = new Set(flowLines())
    assert.equal(everything.size, 6)
    for (const [family, addresses] of [
      ['IPv4', ['10.96.0.10', '10.96.0.11', '10.96.0.12']],
      ['IPv6', ['fd00:10:96::a', 'fd00:10:96::b', 'fd00:10:96::c']],
    ] as const)
      for (const destination of [undefined, ...addresses])
        for (const destinationPort of [undefined, 53, 54, 55]) {
          const filter: FlowFilter = {
            family,
            protocol: 'udp',
            ...(destination === undefined ? {} : { destination }),
            ...(destinationPort === undefined ? {} : { destinationPort }),
          }
          const wanted = [...everything]
            .map(parseFlow)
            .filter((flow) => flow.family === family)
            .filter(({ original }) => destination === undefined || original.destination === destination)
            .filter(({ original }) => destinationPort === undefined || original.destinationPort === destinationPort)
          const found = await conntrack.findFlows(filter, () => true, ALL)
          const key = ({ original, reply }: Flow): string =>
            JSON.stringify([original.destination, original.destinationPort, reply.source, reply.sourcePort])
          assert.deepEqual(found.map(key).sort(), wanted.map(key).sort(), JSON.stringify(filter))
        }
  })

  it('a flow is deleted by its tuple and id alone', async () => {
    insert('10.96.0.10:53', '10.244.0.1:5353', 40_001)
    insert('[fd00:10:96::a]:53', '[fd00:10:244::1]:5353', 40_001)
    insert('10.96.0.10:53', '10.244.0.1:5353', 40_002)
    const all = [
      ...(await conntrack.findFlows({ family: 'IPv4', protocol: 'udp' }, () => true, ALL)),
      ...(await conntrack.findFlows({ family: 'IPv6', protocol: 'udp' }, () => true, ALL)),
    ]
    assert.equal(all.length, 3)
    const first = all.filter(({ original }) => original.sourcePort === 40_001)
    const others = all.map((flow) => ({ ...flow, id: (flow.id ^ 1) >>> 0 }))
    const { deleted, vanished, failed } = await conntrack.deleteFlows([...others, ...first, ...first], signal)
    assert.deepEqual([deleted, vanished, failed], [2, 5, 0])
    assert.deepEqual(answered(53), ['40002 10.244.0.1'])
  })

  it('tableSize counts the flows', async () => {
    const before = await conntrack.tableSize()
    insert('10.96.0.10:53', '10.244.0.1:5353', 40_001)
    const { flows, limit } = await conntrack.tableSize()
    assert.equal(flows, before.flows + 1)
    assert.equal(limit, Number(readFileSync('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8')))
  })

  for (const [family, vip, [a, b]] of [
    ['IPv4', '10.96.0.10', ['10.244.0.1', '10.244.0.2']],
    ['IPv6', 'fd00:10:96::a', ['fd00:10:244::1', 'fd00:10:244::2']],
  ] as const) {
    const key = `${formatEndpoint(vip, 53)}/udp`

    it(`${family}: the flows of a removed real server are deleted, and no others`, async () => {
      virtualServer(vip, 53, a, b)
      virtualServer(vip, 54, a, b)
      const answers = await world.ask(vip, 53, 20_000, 40)
      await world.ask(vip, 54, 20_000, 4)
      assert.deepEqual(new Set(answers.values()), new Set([a, b]))
      // The flow names its real server, under its own port.
      assert.deepEqual(answered(53), [...answers].map(([port, pod]) => `${port} ${pod}`).sort())
      const others = answered(54)
      sh(`ipvsadm -d -u ${formatEndpoint(vip, 53)} -r ${formatEndpoint(b, POD_PORT)}`)
      const toB = [...answers.values()].filter((pod) => pod === b).length
      const stale = staleFlows({ [key]: [formatEndpoint(a, POD_PORT)] })
      assert.deepEqual(await stale.remove(signal), { frontends: 1, deleted: toB, error: undefined })
      assert.deepEqual(
        answered(53),
        [...answers]
          .filter(([, pod]) => pod === a)
          .map(([port]) => `${port} ${a}`)
          .sort(),
      )
      assert.deepEqual(answered(54), others)
    })

    it(`${family}: a client that keeps its port is answered by a remaining endpoint`, async () => {
      sh('sysctl -q -w net.ipv4.vs.expire_nodest_conn=1')
      virtualServer(vip, 53, b)
      assert.deepEqual([...(await world.ask(vip, 53, 20_000)).values()], [b])
      sh(`ipvsadm -a -u ${formatEndpoint(vip, 53)} -r ${formatEndpoint(a, POD_PORT)} -m
        ipvsadm -d -u ${formatEndpoint(vip, 53)} -r ${formatEndpoint(b, POD_PORT)}`)
      await staleFlows({ [key]: [formatEndpoint(a, POD_PORT)] }).remove(signal)
      assert.deepEqual([...(await world.ask(vip, 53, 20_000)).values()], [a])
      assert.deepEqual(answered(53), [`20000 ${a}`])
    })

    it(`${family}: flows older than the first endpoint do not keep clients from it`, async () => {
      // No node has the address: the datagram is lost, and the flow belongs to no virtual server.
      sh(`ip route replace ${vip} dev sink`)
      assert.deepEqual([...(await world.ask(vip, 53, 20_000)).values()], [null])
      sh(`ip route delete ${vip} dev sink`)
      assert.deepEqual(answered(53), [`20000 ${vip}`])
      virtualServer(vip, 53, a)
      assert.equal((await staleFlows({ [key]: [formatEndpoint(a, POD_PORT)] }).remove(signal)).deleted, 1)
      assert.deepEqual([...(await world.ask(vip, 53, 20_000)).values()], [a])
      assert.deepEqual(answered(53), [`20000 ${a}`])
    })

    it(`${family}: the translated flows of a removed frontend are deleted`, async () => {
      virtualServer(vip, 53, a, b)
      await world.ask(vip, 53, 20_000, 10)
      insert(formatEndpoint(vip, 53), formatEndpoint(vip, 53), 30_000)
      sh(`ipvsadm -D -u ${formatEndpoint(vip, 53)}`)
      assert.equal((await staleFlows({ [key]: undefined }).remove(signal)).deleted, 10)
      assert.deepEqual(answered(53), [`30000 ${vip}`])
    })
  }

  it('a flow to a node port is one to an address of the node', async () => {
    virtualServer(NODE_ADDRESS, 30_053, '10.244.0.1', '10.244.0.2')
    const answers = await world.ask(NODE_ADDRESS, 30_053, 20_000, 10)
    insert('192.0.2.9:30053', '192.0.2.9:30053', 30_000)
    insert('192.0.2.9:30053', '10.244.9.9:5353', 30_001)
    sh(`ipvsadm -d -u ${NODE_ADDRESS}:30053 -r 10.244.0.2:${POD_PORT}`)
    await staleFlows({ [`${NODE_ADDRESS}:30053/udp`]: [`10.244.0.1:${POD_PORT}`] }).remove(signal)
    const kept = [...answers].filter(([, pod]) => pod === '10.244.0.1').map(([port, pod]) => `${port} ${pod}`)
    assert.deepEqual(answered(30_053), [...kept, '30000 192.0.2.9', '30001 10.244.9.9'].sort())
  })

  it('thousands of stale flows among 20,000 others are deleted in portions, and the others stay', async () => {
    virtualServer('10.96.0.10', 53, '10.244.0.1', '10.244.0.2')
    const answers = await world.ask('10.96.0.10', 53, 20_000, 3000)
    await world.spray(20_000)
    const others = (await conntrack.tableSize()).flows - 3000
    assert.ok(others >= 20_000, `${others} other flows`)
    sh(`ipvsadm -d -u 10.96.0.10:53 -r 10.244.0.2:${POD_PORT}`)
    const toB = [...answers.values()].filter((pod) => pod === '10.244.0.2').length
    assert.ok(toB > 1000)

    // The kernel filters: it does not send the other flows.
    const before = { ...conntrack.counters }
    const frontends = { '10.96.0.10:53/udp': [`10.244.0.1:${POD_PORT}`] }
    const found = await conntrack.findFlows(
      { family: 'IPv4', protocol: 'udp', destination: '10.96.0.10', destinationPort: 53 },
      () => false,
      ALL,
    )
    assert.deepEqual(found, [])
    const datagrams = conntrack.counters.datagramsReceived - before.datagramsReceived
    assert.ok(datagrams < 200, `${datagrams} datagrams for 3000 flows`)

    // Another frontend at another address and port makes the dump one of all UDP flows.
    const stale = staleFlows({ ...frontends, '10.96.0.99:99/udp': [] }, 400)
    const report = await stale.remove(signal)
    assert.deepEqual([report.deleted, report.error], [toB, undefined])
    assert.equal((await conntrack.tableSize()).flows, others + 3000 - toB)
    assert.deepEqual(
      answered(53),
      [...answers]
        .filter(([, pod]) => pod === '10.244.0.1')
        .map(([port, pod]) => `${port} ${pod}`)
        .sort(),
    )
  })

  it('settings are written, and one that the kernel refuses is reported', () => {
    const { conntrack: defaults } = defaultConfiguration()
    const limit = Number(readFileSync('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8'))
    const settings = [
      ...conntrackSettings({ ...defaults, maxPerCore: 1, min: limit + 1, udpTimeoutMs: 45_000, tcpBeLiberal: true }, 1),
      ...ipvsSysctls(true, kernelRelease()),
    ].filter(({ path }) => !path.endsWith('/hashsize'))
    // The limit is that of the whole kernel, and this is not its first network namespace.
    const names = (problems: readonly { readonly field?: string }[]) => problems.map(({ field }) => field)
    assert.deepEqual(names(applySysctls(settings)), ['net/netfilter/nf_conntrack_max'])
    const unlike = settings.filter(({ path, value }) => Number(readFileSync(path, 'utf8')) !== value)
    assert.deepEqual(
      unlike.map(({ path }) => path),
      ['/proc/sys/net/netfilter/nf_conntrack_max'],
    )
    assert.equal(readFileSync('/proc/sys/net/netfilter/nf_conntrack_udp_timeout', 'utf8'), '45\n')
  })
})
