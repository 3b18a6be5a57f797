/**
 * Annotations of Services on the kernel: each changes the virtual server in place, and established
 * connections through it continue. A wrong value keeps the default and concerns no other Service.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ADDRESSES, clientAddress, Cluster, type Pod } from '../support/cluster.ts'
import type { Workbench } from '../support/daemon.ts'
import { type Manifest, node } from '../support/manifests.ts'
import { ipvsadm, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually, until } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, KINDS, settled } from '../support/every-kind.ts'
import { rowsOfRun } from '../support/extent.ts'
import { LiveConnections } from '../support/live-connections.ts'

const PLACES = KINDS.flatMap((kind) => FAMILIES.map((family) => frontend(1, kind, family, 'tcp')))
const AFFINITY = { sessionAffinity: 'ClientIP' }

/** The objects of `everyKind`, the Service with these annotations. */
function annotated(objects: readonly Manifest[], annotations: Readonly<Record<string, string>>): readonly Manifest[] {
  return objects.map((object) => {
    if (object['kind'] !== 'Service') return object
    return { ...object, metadata: { ...(object['metadata'] as object), annotations } }
  })
}

/** The same objects with a zone for each endpoint: of each pod that is named. */
function inZones(objects: readonly Manifest[], zones: Readonly<Record<string, string>>): readonly Manifest[] {
  const zoneOf = (address: string): string | undefined =>
    Object.entries(zones).find(([pod]) => Object.values(ADDRESSES[pod as Pod]).includes(address))?.[1]
  return objects.map((object) => {
    const { endpoints } = object as { readonly endpoints?: readonly { readonly addresses: readonly string[] }[] }
    if (endpoints === undefined) return object
    return { ...object, endpoints: endpoints.map((one) => ({ ...one, zone: zoneOf(one.addresses[0] ?? '') })) }
  })
}

/** The different weights that each pod has in the virtual servers of TCP of a Service. */
function weightsOfPods(number: number): Readonly<Record<string, readonly number[]>> {
  const [port, last] = [`:3000${number} `, new RegExp(`[.:]${number}\\]?:80 `)]
  const found: Record<string, Set<number>> = {}
  for (const line of virtualServers()) {
    if (!line.startsWith('-a -t') || !(line.includes(port) || last.test(line.replace(/ -r .*/, ' ')))) continue
    const [, address = '', weight = ''] = /-r \[?([0-9a-f.:]+?)\]?:8080 .*-w (\d+)/.exec(line) ?? []
    const pod = Object.entries(ADDRESSES).find(([, both]) => Object.values(both).includes(address))?.[0] ?? address
    ;(found[pod] ??= new Set()).add(Number(weight))
  }
  return Object.fromEntries(Object.entries(found).map(([pod, weights]) => [pod, [...weights]]))
}

/** The lines of `ipvsadm -S -n` of the virtual servers of a Service, without the addresses: each different one once. */
const linesOf = (number: number): readonly string[] => {
  const [port, last] = [`:3000${number} `, new RegExp(`[.:]${number}\\]?:80 `)]
  const own = virtualServers().filter((line) => line.startsWith('-A -t') && (line.includes(port) || last.test(line)))
  return [...new Set(own.map((line) => line.replace(/^-A -t \S+ /, '')))].sort()
}

describe('annotations of a Service', () => {
  let cluster: Cluster
  let bench: Workbench
  const live = new LiveConnections()
  const use = (annotations: Readonly<Record<string, string>>, spec = {}): void =>
    bench.write('web.yaml', ...annotated(everyKind(1, ['a', 'c'], spec), annotations))
  before(async () => {
    cluster = Cluster.start()
    bench = bothFamilies()
    use({})
    bench.write('other.yaml', ...everyKind(2, ['a', 'c']))
    bench.start()
    await settled(2, 2)
    for (const place of PLACES) await live.open(cluster, 'client', place)
    await live.check()
  })
  after(async () => {
    live.close()
    await bench.close()
    cluster.stop()
  })

  /**
   * Asserts that the virtual servers of the Service become these, that connections continue, and
   * that the other Service stays.
   */
  const become = async (...lines: readonly string[]): Promise<void> => {
    await eventually(() => assert.deepEqual(linesOf(1), lines))
    await live.check()
    assert.deepEqual(linesOf(2), ['-s rr'])
  }

  it('choose any scheduler of the kernel, in place', async () => {
    // The next test has sh and mh.
    const all = ['wlc', 'lc', 'sed', 'wrr', 'nq', 'fo', 'dh', 'lblc', 'lblcr', 'ovf', 'twos']
    for (const scheduler of rowsOfRun(all, (one) => one === 'wlc' || one === 'twos')) {
      use({ 'kube-ipvs.io/scheduler': scheduler })
      await become(`-s ${scheduler}`)
    }
    const outcomes = await Promise.all(PLACES.map((place) => cluster.ask('client', place)))
    for (const outcome of outcomes) assert.match(outcome, /^[ac] node$/)
  })

  it('choose the flags of a scheduler, in the words of kube-router too', async () => {
    use({ 'kube-ipvs.io/scheduler': 'mh' })
    await become('-s mh -b mh-fallback,mh-port')
    use({ 'kube-ipvs.io/scheduler': 'mh', 'kube-ipvs.io/scheduler-flags': 'fallback' })
    await become('-s mh -b mh-fallback')
    use({ 'kube-router.io/service.scheduler': 'mh', 'kube-router.io/service.schedflags': 'flag-1,flag-2' })
    await become('-s mh -b mh-fallback,mh-port')
    use({ 'kube-ipvs.io/scheduler': 'sh', 'kube-router.io/service.schedflags': 'sh-port' })
    await become('-s sh -b sh-port')
  })

  it('keep the default when they are wrong, with one problem each', async () => {
    use({ 'kube-ipvs.io/scheduler': 'wlc' })
    await become('-s wlc')
    const from = bench.log.length
    use({ 'kube-ipvs.io/scheduler': '../evil\n', 'kube-ipvs.io/max-connections': '-1' })
    await become('-s rr')
    const problems = bench.log
      .slice(from)
      .split('\n')
      .filter((line) => line.includes('invalid-annotation'))
    assert.equal(problems.length, 2, problems.join('\n'))
    const events = bench.log
      .slice(from)
      .match(/"Event occurred" object="demo\/every-kind-1" .*reason="InvalidAnnotation"/g)
    assert.equal(events?.length, 2)
    assert.match(problems.join('\n'), /metadata\.annotations\[kube-ipvs\.io\/scheduler\].*must be one of rr, wrr/)
  })

  it('keep clients of one subnet on one endpoint', async () => {
    use({}, AFFINITY)
    await become('-s rr -p 10800')
    use({ 'kube-ipvs.io/affinity-prefix-length': '24,64' }, AFFINITY)
    await become('-s rr -p 10800 -M 255.255.255.0', '-s rr -p 10800 -M 64')
    for (const family of FAMILIES) {
      const place = frontend(1, 'ClusterIP', family, 'tcp')
      const ask = (index: number) => cluster.ask('client', place, { address: clientAddress(index)[family] })
      const found = new Set(await Promise.all([0, 1, 2, 3, 4, 5].map(ask)))
      assert.equal(found.size, 1, `${family}: ${[...found].join(', ')}`)
    }
  })

  it('limit the connections of each endpoint, without ending any', async () => {
    use({ 'kube-ipvs.io/max-connections': '40' })
    await eventually(() => assert.equal(limits('40/0'), 20))
    await live.check()
    use({})
    await eventually(() => assert.equal(limits('0/0'), 40))
    await live.check()
  })

  it('refuse new connections when every endpoint has as many as it may have, and no connection that is open', async () => {
    bench.write('full.yaml', ...annotated(everyKind(3, ['a', 'c']), { 'kube-ipvs.io/max-connections': '2' }))
    await eventually(() => assert.equal(limits('2/0'), 20))
    // Addresses are bound after their virtual servers are there.
    await settled(3, 2)
    const held = new LiveConnections()
    try {
      for (const family of FAMILIES) {
        const place = frontend(3, 'ClusterIP', family, 'tcp')
        for (let index = 0; index < 4; index++) await held.open(cluster, 'client', place)
        assert.equal(await cluster.ask('client', place), 'refused', family)
      }
      await held.check()
      bench.write('full.yaml', ...everyKind(3, ['a', 'c']))
      await eventually(async () => {
        for (const family of FAMILIES)
          assert.match(await cluster.ask('client', frontend(3, 'ClusterIP', family, 'tcp')), /^[ac] node$/)
      })
      await held.check()
    } finally {
      held.close()
      bench.remove('full.yaml')
    }
  })

  it('weigh endpoints by zone, in place, and share new connections accordingly', async () => {
    const zones = { a: 'zone-a', c: 'zone-c' }
    const weigh = (rules: string, scheduler = 'wrr'): void => {
      const chosen = { 'kube-ipvs.io/scheduler': scheduler, 'kube-ipvs.io/weights': rules }
      bench.write('web.yaml', ...inZones(annotated(everyKind(1, ['a', 'c']), chosen), zones))
    }
    const weights = (a: number, c: number) => eventually(() => assert.deepEqual(weightsOfPods(1), { a: [a], c: [c] }))
    weigh('zone:zone-a=3,other=1')
    await become('-s wrr')
    await weights(3, 1)
    for (const family of FAMILIES) {
      const place = frontend(1, 'ClusterIP', family, 'tcp')
      const pods: string[] = []
      for (let index = 0; index < 8; index++) pods.push((await cluster.ask('client', place)).slice(0, 1))
      // Weighted round robin is exact over each 4 connections.
      assert.equal(pods.filter((pod) => pod === 'a').length, 6, pods.join(''))
    }
    const others = ['wlc', 'sed', 'nq', 'mh', 'lblc', 'lblcr', 'fo', 'ovf', 'twos']
    for (const scheduler of rowsOfRun(others, (one) => one === 'wlc' || one === 'mh')) {
      weigh('zone:zone-c=65535,zone:zone-a=2', scheduler)
      await become(scheduler === 'mh' ? '-s mh -b mh-fallback,mh-port' : `-s ${scheduler}`)
      await weights(2, 65_535)
    }
    weigh('zone:zone-c=65535', 'sh')
    await weights(1, 255)
    weigh('other=7', 'wlc')
    await weights(7, 7)
    // The zone of this node is not known: the manifests have no label for it.
    weigh('same-zone=9,zone:zone-c=2', 'wlc')
    await weights(1, 2)
    // An edit by another program is repaired to the chosen weight.
    sh('ipvsadm -e -t 10.96.0.1:80 -r 10.244.1.1:8080 -m -w 99')
    await weights(1, 2)
    use({ 'kube-ipvs.io/scheduler': 'rr', 'kube-ipvs.io/weights': 'other=5' })
    await become('-s rr')
    await weights(1, 1)
  })

  it('weigh endpoints by a label of their node, and follow its changes', async () => {
    const chosen = { 'kube-ipvs.io/scheduler': 'wlc', 'kube-ipvs.io/weights': 'node-label:pool=gold=6,other=2' }
    const label = (pool: string): void =>
      bench.write('nodes.yaml', node([], { metadata: { name: 'node1', labels: { pool } } }))
    use(chosen)
    await eventually(() => assert.deepEqual(weightsOfPods(1), { a: [2], c: [2] }))
    label('gold')
    await eventually(() => assert.deepEqual(weightsOfPods(1), { a: [2], c: [6] }))
    assert.equal((await bench.command('diff')).code, 0)
    label('silver')
    await eventually(() => assert.deepEqual(weightsOfPods(1), { a: [2], c: [2] }))
    await live.check()
    bench.remove('nodes.yaml')
  })

  it('raise the weight of a new endpoint step by step, and its virtual servers keep their connections', async () => {
    const chosen = { 'kube-ipvs.io/scheduler': 'wlc', 'kube-ipvs.io/slow-start': '5s' }
    bench.write('slow.yaml', ...annotated(everyKind(4, ['a']), chosen))
    await eventually(() => assert.deepEqual(weightsOfPods(4), { a: [10] }))
    const held = new LiveConnections()
    try {
      await held.open(cluster, 'client', frontend(4, 'ClusterIP', 'IPv4', 'tcp'))
      const writtenMs = performance.now()
      bench.write('slow.yaml', ...annotated(everyKind(4, ['a', 'c']), chosen))
      const seen: number[] = []
      await until(
        'the full weight',
        () => {
          // Its virtual servers take their steps one after the other.
          const weight = Math.min(...(weightsOfPods(4)['c'] ?? []))
          if (Number.isFinite(weight) && weight !== seen.at(-1)) seen.push(weight)
          return weight === 10
        },
        60_000,
      )
      assert.ok(performance.now() - writtenMs >= 5000)
      assert.equal(seen[0], 1)
      assert.ok(seen.length >= 4, seen.join())
      assert.deepEqual(
        seen,
        seen.toSorted((a, b) => a - b),
      )
      await held.check()
      await eventually(() => assert.deepEqual(weightsOfPods(4), { a: [10], c: [10] }))
      assert.equal((await bench.command('diff')).code, 0)
    } finally {
      held.close()
      bench.remove('slow.yaml')
    }
  })

  it('are no difference for `kube-ipvs diff`', async () => {
    const chosen = {
      'kube-ipvs.io/scheduler': 'wlc',
      'kube-ipvs.io/max-connections': '40',
      'kube-ipvs.io/weights': 'other=3',
    }
    use(chosen)
    await become('-s wlc')
    await eventually(() => assert.equal(limits('40/0'), 20))
    await eventually(() => assert.deepEqual(weightsOfPods(1), { a: [3], c: [3] }))
    assert.equal((await bench.command('diff')).code, 0)
  })

  it('end the drain of a removed endpoint at the deadline, and no sooner', async () => {
    live.close()
    const socket = await cluster.connect('client', frontend(1, 'ClusterIP', 'IPv4', 'tcp'))
    let pod = ''
    let endMs: number | undefined
    socket.on('data', (data) => (pod = String(data)))
    socket.on('error', () => undefined)
    socket.on('close', () => (endMs = performance.now()))
    const writing = setInterval(() => socket.write('?\n'), 200)
    try {
      await until('an answer', () => pod !== '')
      const removedMs = performance.now()
      const stays = pod.startsWith('a') ? 'c' : 'a'
      bench.write('web.yaml', ...annotated(everyKind(1, [stays]), { 'kube-ipvs.io/drain-deadline': '6s' }))
      await until('the end of the connection', () => endMs !== undefined, 60_000)
      assert.ok((endMs ?? 0) - removedMs >= 6000)
    } finally {
      clearInterval(writing)
      socket.destroy()
    }
  })
})

/** The TCP real servers with these thresholds. */
function limits(thresholds: string): number {
  const [upper, lower] = thresholds.split('/')
  const lines = ipvsadm('-L', '-n', '--thresholds').split('\n')
  let isTcp = false
  return lines.filter((line) => {
    if (/^[A-Z]+ /.test(line)) isTcp = line.startsWith('TCP')
    const [, , high, low] = /^\s*->\s+(\S+)\s+(\d+)\s+(\d+)/.exec(line) ?? []
    return isTcp && high === upper && low === lower
  }).length
}
