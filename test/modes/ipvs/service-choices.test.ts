/** What Services choose by annotations, in the virtual servers of ipvs mode. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ASK_AGAIN_MS, ChosenSchedulers } from '../../../src/modes/ipvs/chosen-schedulers.ts'
import type { IpvsDataplane } from '../../../src/modes/ipvs/dataplane.ts'
import { AnnotationReader, type ServiceChoices } from '../../../src/service/annotations.ts'
import { type SchedulerName, SCHEDULERS } from '../../../src/values/schedulers.ts'
import { weightsOf } from '../../../src/service/service-port.ts'
import type { AddressFrontend } from '../../../src/service/frontends.ts'
import type { Service } from '../../../src/service/objects.ts'
import { contributionOf } from '../../support/contribution.ts'
import { frontendOf } from '../../support/frontends.ts'
import { service } from '../../support/objects.ts'
import { commandsOf } from '../../../src/sync/plan.ts'
import { MemoryWorld, rulesWritten, writesRules } from '../../support/memory-world.ts'
import { recordingLog } from '../../support/recording-log.ts'
import { parse } from '../../watch/objects/parse.ts'

const signal = new AbortController().signal
const KEY = '10.96.0.1:80/tcp'

interface Running {
  readonly memory: MemoryWorld
  readonly dataplane: IpvsDataplane
  readonly pass: () => Promise<void>
}

/** A process on a kernel whose rules are written. */
async function running(memory = new MemoryWorld(['IPv4', 'IPv6'])): Promise<Running> {
  const dataplane = memory.dataplane()
  const pass = async () => {
    await dataplane.pass({ signal, mayRemove: true })
    if (!writesRules(dataplane)) return
    await rulesWritten(dataplane)
    await dataplane.pass({ signal, mayRemove: true })
  }
  await pass()
  memory.journal.length = 0
  return { memory, dataplane, pass }
}

const choosing = (choices: ServiceChoices, change: Partial<Service> = {}, address = '10.96.0.1'): AddressFrontend =>
  frontendOf({ bind: false, address, service: service(change), servicePort: { choices } }, ['1.1.1.1'])
const scheduler = (name: (typeof SCHEDULERS)[number]): ServiceChoices => ({
  scheduler: { name, annotation: 'kube-ipvs.io/scheduler' },
})

describe('a virtual server', () => {
  it('has what its Service chooses, and each change edits it in place', async () => {
    const { memory, dataplane, pass } = await running()
    const AFFINITY = { affinityTimeoutSeconds: 60 }
    const lengths = { affinityPrefixLength: { IPv4: 24, IPv6: 64 } }
    const SIX = { ...AFFINITY, clusterIps: { IPv6: 'fd00::1' } }
    const rows: readonly (readonly [AddressFrontend, string])[] = [
      [choosing({}), '-s rr'],
      [choosing(scheduler('wlc')), '-s wlc'],
      [choosing(scheduler('sh')), '-s sh -b flag-1'],
      [choosing(scheduler('mh')), '-s mh -b flag-1,flag-2'],
      [choosing({ ...scheduler('mh'), hashFlags: { fallback: true, port: false } }), '-s mh -b flag-1'],
      [choosing({ ...scheduler('mh'), hashFlags: { fallback: false, port: false } }), '-s mh'],
      [choosing(lengths), '-s rr'],
      [choosing(lengths, AFFINITY), '-s rr -p 60 -M 255.255.255.0'],
      [choosing({ affinityPrefixLength: { IPv4: 1, IPv6: 64 } }, AFFINITY), '-s rr -p 60 -M 128.0.0.0'],
      [choosing({ affinityPrefixLength: { IPv4: 32, IPv6: 64 } }, AFFINITY), '-s rr -p 60'],
      [choosing({}, AFFINITY), '-s rr -p 60'],
      [choosing(lengths, SIX, 'fd00::1'), '-s rr -p 60 -M 64'],
    ]
    const added = new Set<string>()
    for (const [frontend, expected] of rows) {
      memory.journal.length = 0
      dataplane.frontend(frontend.key, frontend)
      await pass()
      const server = memory.virtualServers.kernel.get(frontend.key)
      assert.ok(server)
      const fields = memory.virtualServers.kind.text({ kind: 'add-virtual-server', key: frontend.key, server })
      assert.equal(flagNames(fields.replace(/^.*? -s/, '-s')), flagNames(expected))
      if (added.has(frontend.key))
        assert.ok(!memory.journal.some((command) => / -[AD] /.test(command)), memory.journal.join('\n'))
      added.add(frontend.key)
    }
  })

  it('limits the connections of each real server in place', async () => {
    const { memory, dataplane, pass } = await running()
    for (const maxConnections of [undefined, 10, 20, undefined]) {
      dataplane.frontend(KEY, choosing(maxConnections === undefined ? {} : { maxConnections }))
      memory.journal.length = 0
      await pass()
      const [server] = memory.virtualServers.kernel.get(KEY)?.realServers ?? []
      assert.deepEqual([server?.upperThreshold, server?.lowerThreshold], [maxConnections ?? 0, 0])
      assert.ok(!memory.journal.some((command) => / -d /.test(command)))
    }
  })

  it('has the weights that its Service chooses with a scheduler that uses them, and each change is one edit in place', async () => {
    const { memory, dataplane, pass } = await running()
    const rows: readonly (readonly [SchedulerName | undefined, readonly number[] | undefined, readonly number[]])[] = [
      ['wrr', [5, 1, 300], [5, 1, 300]],
      ['wrr', [5, 2, 300], [5, 2, 300]],
      ['sh', [5, 2, 300], [4, 1, 251]],
      ['mh', [5, 2, 300], [5, 2, 300]],
      // The chosen scheduler is missing, and the one in force does not use weights.
      ['twos', [5, 2, 300], [1, 1, 1]],
      ['wlc', undefined, [1, 1, 1]],
      [undefined, undefined, [1, 1, 1]],
    ]
    memory.missingSchedulers.add('twos')
    for (const [name, weights, expected] of rows) {
      const choices = name === undefined ? {} : scheduler(name)
      const servicePort = { choices, ...(weights && { weights }) }
      const frontend = frontendOf({ bind: false, servicePort }, ['1.1.1.1', '2.2.2.2', '3.3.3.3'])
      memory.journal.length = 0
      dataplane.frontend(KEY, frontend)
      await pass()
      const found = memory.virtualServers.kernel.get(KEY)?.realServers.map(({ weight }) => weight)
      assert.deepEqual(found, expected, name)
      if (name === 'wrr' && weights?.[1] === 2) {
        assert.equal(memory.journal.length, 1)
        assert.match(memory.journal[0] ?? '', / -e .*2\.2\.2\.2:8080 .*-w 2/)
      } else assert.ok(name === 'wrr' || !memory.journal.some((command) => / -[ADad] /.test(command)))
    }
  })

  it('raises the weight of a new endpoint in steps, and `diff` accepts each of them', async () => {
    const { memory, dataplane, pass } = await running()
    const choices = { ...scheduler('wrr'), slowStartMs: 10_000 }
    const use = (addresses: readonly string[], servicePort: object = { choices }): void =>
      dataplane.frontend(KEY, frontendOf({ bind: false, servicePort }, addresses))
    const weights = () => memory.virtualServers.kernel.get(KEY)?.realServers.map(({ weight }) => weight)
    const diff = async (): Promise<readonly string[]> => {
      const other = memory.dataplane()
      const frontend = frontendOf({ bind: false, servicePort: { choices } }, ['1.1.1.1', '2.2.2.2'])
      other.frontend(KEY, frontend)
      return commandsOf(await other.plan(signal)).filter((command) => command.startsWith('ipvsadm'))
    }
    use(['1.1.1.1'])
    await pass()
    assert.deepEqual(weights(), [10])
    assert.equal(dataplane.nextDueMs(), undefined)
    memory.nowMs = 5000
    use(['1.1.1.1', '2.2.2.2'])
    await pass()
    assert.deepEqual([weights(), dataplane.servers.slowStarts.count], [[10, 1], 1])
    const seen: number[] = []
    memory.journal.length = 0
    for (let steps = 1; dataplane.nextDueMs() !== undefined; steps++) {
      memory.nowMs = dataplane.nextDueMs() ?? 0
      assert.equal(memory.nowMs, 5000 + steps * 1000)
      assert.deepEqual(await diff(), [])
      await pass()
      seen.push(weights()?.[1] ?? 0)
    }
    // The first step leaves the weight at 1.
    assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert.equal(memory.journal.length, 9)
    assert.ok(memory.journal.every((command) => / -e .*2\.2\.2\.2/.test(command)))
    assert.deepEqual([await diff(), dataplane.servers.slowStarts.count, dataplane.servers.slowStarts.begun], [[], 0, 1])

    // A difference in the other direction is one.
    const server = memory.virtualServers.kernel.get(KEY)
    assert.ok(server)
    const realServers = server.realServers.map((one) => ({ ...one, weight: 99 }))
    memory.virtualServers.kernel.set(KEY, { ...server, realServers })
    assert.equal((await diff()).length, 2)
    memory.virtualServers.kernel.set(KEY, server)

    // Without the annotation the weights are not scaled, and what starts has its weight at once.
    use(['1.1.1.1', '2.2.2.2', '3.3.3.3'])
    await pass()
    assert.deepEqual(weights(), [10, 10, 1])
    use(['1.1.1.1', '2.2.2.2', '3.3.3.3'], { choices: scheduler('wrr') })
    await pass()
    assert.deepEqual([weights(), dataplane.nextDueMs()], [[1, 1, 1], undefined])
  })

  it('gives an endpoint that does not answer no new connections, whatever else changes, and `diff` accepts it', async () => {
    const { memory, dataplane, pass } = await running()
    const choices = { ...scheduler('wrr'), slowStartMs: 10_000, outlierDetection: true }
    const addresses = ['1.1.1.1', '2.2.2.2', '3.3.3.3']
    const use = (weights?: readonly number[], some = addresses): void =>
      dataplane.frontend(KEY, frontendOf({ bind: false, servicePort: { choices, ...(weights && { weights }) } }, some))
    const weights = () => memory.virtualServers.kernel.get(KEY)?.realServers.map(({ weight }) => weight)
    const diff = async (more: ServiceChoices = choices): Promise<readonly string[]> => {
      const other = memory.dataplane()
      other.frontend(KEY, frontendOf({ bind: false, servicePort: { choices: more } }, addresses))
      return commandsOf(await other.plan(signal)).filter((command) => command.startsWith('ipvsadm'))
    }
    /** Copies every two seconds: 1.1.1.1 gets packets and sends none. */
    const read = (copies: number): void => {
      for (let copy = 1; copy <= copies; copy++) {
        memory.nowMs += 2000
        const all = memory.nowMs / 100
        const counters = new Map(
          addresses.map((address) => [
            `${address}:8080`,
            {
              connections: all,
              packetsIn: all * 4,
              packetsOut: address === '1.1.1.1' ? 0 : all * 4,
              bytesIn: 0,
              bytesOut: 0,
              active: 5,
              open: 5,
            },
          ]),
        )
        if (dataplane.servers.outliers.observe(KEY, counters, memory.nowMs)) dataplane.servers.rejudged(KEY)
      }
    }
    use()
    await pass()
    assert.deepEqual(weights(), [10, 10, 10])
    read(4)
    await pass()
    assert.deepEqual(weights(), [0, 10, 10])
    assert.equal(dataplane.drains.count, 0)
    memory.journal.length = 0
    // A pass, a resync, and a look by another process.
    dataplane.virtualServers.doubt('all')
    await pass()
    assert.deepEqual([memory.journal, await diff(), weights()], [[], [], [0, 10, 10]])
    assert.deepEqual(await diff({ ...scheduler('wrr'), slowStartMs: 10_000 }), [
      'ipvsadm -e -t 10.96.0.1:80 -r 1.1.1.1:8080 -m -w 10',
    ])
    // Weights by rules, and steps of a slow start: the weight 0 wins.
    use([5, 5, 7])
    await pass()
    assert.deepEqual(weights(), [0, 50, 70])
    use([5, 5, 7, 9], [...addresses, '4.4.4.4'])
    await pass()
    assert.deepEqual(weights(), [0, 50, 70, 1])
    memory.nowMs = (dataplane.nextDueMs() ?? 0) + 3000
    await pass()
    assert.deepEqual(weights()?.slice(0, 3), [0, 50, 70])
    assert.ok((weights()?.[3] ?? 0) > 1)
    // Another program raises the weight, and it is repaired.
    const server = memory.virtualServers.kernel.get(KEY)
    assert.ok(server)
    memory.virtualServers.kernel.set(KEY, {
      ...server,
      realServers: server.realServers.map((one) => ({ ...one, weight: 3 })),
    })
    dataplane.virtualServers.doubt([KEY])
    await pass()
    assert.deepEqual(weights()?.slice(0, 3), [0, 50, 70])
    // What the API removes is the API's: it drains. What it has left is not judged where the Service does not want it.
    for (const gone of ['2.2.2.2', '4.4.4.4']) memory.connections.set(`${gone}:8080`, { active: 1, inactive: 0 })
    use([5, 7], ['1.1.1.1', '3.3.3.3'])
    await pass()
    assert.deepEqual([dataplane.drains.count, dataplane.servers.outliers.count], [2, 1])
    dataplane.frontend(KEY, frontendOf({ bind: false, servicePort: { choices: scheduler('wrr') } }, addresses))
    await pass()
    assert.deepEqual([weights()?.slice(0, 3), dataplane.servers.outliers.size], [[1, 1, 1], 0])
    // A new process has forgotten it.
    const second = await running(memory)
    second.dataplane.frontend(KEY, frontendOf({ bind: false, servicePort: { choices } }, addresses))
    await second.pass()
    assert.deepEqual(weights()?.slice(0, 3), [10, 10, 10])
  })

  it('judges no endpoint with a scheduler that sends clients nowhere else, nor SCTP', async () => {
    const { dataplane } = await running()
    const isJudged = (servicePort: object): boolean => {
      dataplane.frontend(KEY, frontendOf({ bind: false, servicePort }, ['1.1.1.1', '2.2.2.2']))
      return dataplane.servers.outliers.isWatched(KEY)
    }
    const wants = { outlierDetection: true }
    const flags = (fallback: boolean) => ({ hashFlags: { fallback, port: false } })
    await dataplane.pass({ signal, mayRemove: true })
    assert.equal(isJudged({ choices: {} }), false)
    assert.equal(isJudged({ choices: wants }), true)
    assert.equal(isJudged({ choices: { outlierDetection: false } }), false)
    assert.equal(isJudged({ choices: wants, protocol: 'sctp' }), false)
    for (const name of ['sh', 'mh', 'dh'] as const) {
      const choices = { ...wants, ...scheduler(name) }
      isJudged({ choices })
      await dataplane.pass({ signal, mayRemove: true })
      assert.equal(isJudged({ choices }), name !== 'dh', name)
      if (name !== 'dh') assert.equal(isJudged({ choices: { ...choices, ...flags(false) } }), false)
    }
  })

  it('repairs an endpoint that starts to the weight of the moment', async () => {
    const { memory, dataplane, pass } = await running()
    const choices = { ...scheduler('wlc'), slowStartMs: 10_000 }
    for (const addresses of [['1.1.1.1'], ['1.1.1.1', '2.2.2.2']]) {
      dataplane.frontend(KEY, frontendOf({ bind: false, servicePort: { choices, weights: [2, 4] } }, addresses))
      await pass()
    }
    memory.nowMs = 5000
    await pass()
    const server = memory.virtualServers.kernel.get(KEY)
    assert.deepEqual(
      server?.realServers.map(({ weight }) => weight),
      [20, 20],
    )
    assert.ok(server)
    const realServers = server.realServers.map((one) => ({ ...one, weight: 1 }))
    memory.virtualServers.kernel.set(KEY, { ...server, realServers })
    dataplane.virtualServers.doubt([KEY])
    await pass()
    assert.deepEqual(
      memory.virtualServers.kernel.get(KEY)?.realServers.map(({ weight }) => weight),
      [20, 20],
    )
    assert.equal(dataplane.virtualServers.counts.repaired, 1)
  })

  it('gives a new process, and an endpoint that is alone, the full weight at once', async () => {
    const first = await running()
    const choices = { ...scheduler('wlc'), slowStartMs: 10_000 }
    const render = ({ dataplane }: Running, addresses: readonly string[]): void =>
      dataplane.frontend(KEY, frontendOf({ bind: false, servicePort: { choices } }, addresses))
    const weights = () => first.memory.virtualServers.kernel.get(KEY)?.realServers.map(({ weight }) => weight)
    render(first, [])
    await first.pass()
    render(first, ['1.1.1.1'])
    await first.pass()
    assert.deepEqual(weights(), [10])
    first.memory.connections.set('1.1.1.1:8080', { active: 1, inactive: 0 })
    // All of its endpoints are replaced: the old one drains.
    render(first, ['2.2.2.2'])
    await first.pass()
    assert.deepEqual(weights(), [0, 10])
    // The one that drained comes back.
    render(first, ['1.1.1.1', '2.2.2.2'])
    await first.pass()
    assert.deepEqual(weights(), [1, 10])
    const second = await running(first.memory)
    render(second, ['1.1.1.1', '2.2.2.2'])
    await second.pass()
    assert.deepEqual([weights(), second.dataplane.nextDueMs()], [[10, 10], undefined])
  })

  it('has the weights of the endpoints that a selection leaves', () => {
    const { servicePort, selection } = frontendOf({}, ['1.1.1.1', '2.2.2.2', '3.3.3.3'])
    const port = { ...servicePort, weights: [7, 8, 9] }
    assert.equal(weightsOf(port, selection), port.weights)
    const some = { ...selection, endpoints: selection.endpoints.filter((_, index) => index !== 1) }
    assert.deepEqual(weightsOf(port, some), [7, 9])
    assert.deepEqual(weightsOf(port, { ...selection, endpoints: [] }), [])
    assert.equal(weightsOf(servicePort, some), undefined)
  })

  it('ends drains at the deadline of its Service in force, which may change meanwhile', async () => {
    for (const [before, after, endMs] of [
      [{ drainDeadlineMs: 20_000 }, { drainDeadlineMs: 20_000 }, 20_000],
      [{}, { drainDeadlineMs: 40_000 }, 40_000],
      [{ drainDeadlineMs: 5000 }, { drainDeadlineMs: 60_000 }, 60_000],
      [{ drainDeadlineMs: 5000 }, {}, undefined],
      [{ drainDeadlineMs: 5000 }, { drainDeadlineMs: Number.POSITIVE_INFINITY }, undefined],
    ] as const) {
      const { memory, dataplane, pass } = await running()
      memory.connections.set('2.2.2.2:8080', { active: 1, inactive: 0 })
      const both = frontendOf({ bind: false, servicePort: { choices: before } }, ['1.1.1.1', '2.2.2.2'])
      for (const frontend of [both, choosing(before), choosing(after)]) {
        dataplane.frontend(KEY, frontend)
        await pass()
      }
      let endedMs: number | undefined
      while (endedMs === undefined && memory.nowMs < 120_000) {
        memory.nowMs = dataplane.nextDueMs() ?? 120_000
        await pass()
        if (memory.virtualServers.kernel.get(KEY)?.realServers.length === 1) endedMs = memory.nowMs
      }
      const isRight =
        endMs === undefined ? endedMs === undefined : (endedMs ?? 0) >= endMs && (endedMs ?? 0) <= endMs + 1000
      assert.ok(isRight, `${JSON.stringify(after)}: ${endedMs}`)
    }
  })

  it('never has a scheduler that is not allowed, whatever the annotations of any Service are', async () => {
    const { memory, dataplane, pass } = await running()
    const reader = new AnnotationReader('rr')
    const other = choosing({}, { name: 'other' }, '10.96.0.2')
    dataplane.frontend(other.key, other)
    await pass()
    const before = structuredClone(memory.virtualServers.kernel.get(other.key))
    const value = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 150 }),
      fc.constantFrom(...SCHEDULERS, 'port', '24', '9', '30s', 'same-zone=9', 'other=0'),
      fc.jsonValue(),
    )
    const names = [
      'scheduler',
      'scheduler-flags',
      'affinity-prefix-length',
      'drain-deadline',
      'max-connections',
      'weights',
      'slow-start',
    ]
    const annotations = fc.dictionary(fc.constantFrom(...names.map((name) => `kube-ipvs.io/${name}`)), value)
    await fc.assert(
      fc.asyncProperty(annotations, async (texts) => {
        memory.journal.length = 0
        const metadata = { name: 'web', namespace: 'demo', annotations: texts }
        const spec = { clusterIP: '10.96.0.1', ports: [{ port: 80 }], sessionAffinity: 'ClientIP' }
        const service = parse('services', { metadata, spec }).value as Service
        const node = {
          nodeName: 'node0',
          zone: '',
          nodeIps: {},
          localAddresses: new Set<string>(),
          nodePortAddresses: { IPv4: [], IPv6: [] },
        }
        const { frontends } = contributionOf(service, [], node, { annotations: reader })
        for (const [key, frontend] of frontends) dataplane.frontend(key, frontend)
        await pass()
        const server = memory.virtualServers.kernel.get(KEY)
        assert.ok(server && (SCHEDULERS as readonly string[]).includes(server.scheduler))
        assert.deepEqual(memory.virtualServers.kernel.get(other.key), before)
        assert.ok(!memory.journal.some((command) => command.includes('10.96.0.2')))
      }),
      { numRuns: 300 },
    )
    for (const name of memory.askedSchedulers) assert.ok((SCHEDULERS as readonly string[]).includes(name))
  })
})

describe('a scheduler that the kernel lacks', () => {
  const schedulerOf = ({ memory }: Running, key = KEY) => memory.virtualServers.kernel.get(key)?.scheduler

  it('leaves the default in force and is a problem of its Service, until the kernel has it', async () => {
    const world = await running()
    const { memory, dataplane, pass } = world
    memory.missingSchedulers.add('wlc')
    const both = [choosing(scheduler('wlc')), choosing(scheduler('wlc'), {}, '10.96.0.3')]
    for (const frontend of both) dataplane.frontend(frontend.key, frontend)
    await pass()
    assert.equal(schedulerOf(world), 'rr')
    const [problem, ...others] = memory.schedulerProblems.get('service demo/web') ?? []
    assert.deepEqual(others, [])
    assert.equal(problem?.code, 'scheduler-missing')
    assert.equal(problem.field, 'metadata.annotations[kube-ipvs.io/scheduler]')
    assert.match(
      problem.message,
      /^the kernel of this node has no scheduler "wlc", and "rr" stays in force: .*modprobe ip_vs_wlc/,
    )

    for (let change = 0; change < 5; change++) {
      for (const frontend of both) dataplane.frontend(frontend.key, frontend)
      await pass()
    }
    assert.deepEqual(memory.askedSchedulers, ['wlc'])
    assert.equal(dataplane.nextDueMs(), ASK_AGAIN_MS)

    memory.nowMs = ASK_AGAIN_MS
    await pass()
    assert.deepEqual([memory.askedSchedulers.length, schedulerOf(world)], [2, 'rr'])
    memory.missingSchedulers.clear()
    memory.nowMs = 2 * ASK_AGAIN_MS
    memory.journal.length = 0
    await pass()
    assert.deepEqual([schedulerOf(world), schedulerOf(world, '10.96.0.3:80/tcp')], ['wlc', 'wlc'])
    assert.equal(memory.journal.length, 2)
    assert.deepEqual(memory.schedulerProblems.get('service demo/web'), [])
    assert.equal(dataplane.nextDueMs(), undefined)
    assert.equal(memory.askedSchedulers.length, 3)
  })

  it('is no problem any more when the Service chooses another one or is deleted', async () => {
    for (const next of [choosing(scheduler('lc')), choosing({}), undefined]) {
      const { memory, dataplane, pass } = await running()
      memory.missingSchedulers.add('wlc')
      dataplane.frontend(KEY, choosing(scheduler('wlc')))
      await pass()
      assert.equal(memory.schedulerProblems.get('service demo/web')?.length, 1)
      dataplane.frontend(KEY, next)
      await pass()
      assert.deepEqual(memory.schedulerProblems.get('service demo/web'), [])
      assert.equal(dataplane.nextDueMs(), undefined)
    }
  })

  it('is asked for again no more when no Service chooses it, and another one keeps its time', async () => {
    const { memory, dataplane, pass } = await running()
    for (const name of ['fo', 'wlc'] as const) memory.missingSchedulers.add(name)
    const other = choosing(scheduler('wlc'), {}, '10.96.0.3')
    dataplane.frontend(KEY, choosing(scheduler('fo')))
    dataplane.frontend(other.key, other)
    await pass()
    dataplane.frontend(KEY, choosing({}))
    await pass()
    memory.nowMs = ASK_AGAIN_MS
    await pass()
    assert.deepEqual(memory.askedSchedulers, ['fo', 'wlc', 'wlc'])
    assert.equal(dataplane.nextDueMs(), 2 * ASK_AGAIN_MS)
  })

  it('does not give its flags to the default', async () => {
    const world = await running()
    world.memory.missingSchedulers.add('mh')
    world.dataplane.frontend(KEY, choosing({ ...scheduler('mh'), hashFlags: { fallback: true, port: true } }))
    await world.pass()
    const { scheduler: name, flags } = world.memory.virtualServers.kernel.get(KEY) ?? {}
    assert.deepEqual([name, flags], ['rr', 0])
  })

  it('is asked for before the first rendering, which then is the only one, whatever changes meanwhile', async () => {
    const { memory, dataplane, pass } = await running()
    memory.missingSchedulers.add('wlc')
    const frontends = [
      choosing(scheduler('lc')),
      choosing(scheduler('wlc'), {}, '10.96.0.2'),
      choosing({}, {}, '10.96.0.3'),
    ]
    for (const frontend of frontends) dataplane.frontend(frontend.key, frontend)
    assert.deepEqual([...dataplane.virtualServers.desiredKeys()], ['10.96.0.3:80/tcp'])
    // One is gone before the pass, and one has changed its mind.
    dataplane.frontend('10.96.0.3:80/tcp', choosing(scheduler('sed'), {}, '10.96.0.3'))
    dataplane.frontend('10.96.0.4:80/tcp', choosing(scheduler('sed'), {}, '10.96.0.4'))
    dataplane.frontend('10.96.0.4:80/tcp', undefined)
    await pass()
    const found = [...memory.virtualServers.kernel].map(([key, server]) => [key, server.scheduler])
    assert.deepEqual(found.toSorted(), [
      ['10.96.0.1:80/tcp', 'lc'],
      ['10.96.0.2:80/tcp', 'rr'],
      ['10.96.0.3:80/tcp', 'sed'],
    ])
    assert.ok(!memory.journal.some((command) => / -E /.test(command)))
  })

  it('is asked for once for many Services', async () => {
    const { memory, dataplane, pass } = await running()
    memory.missingSchedulers.add('wlc')
    for (let index = 1; index < 200; index++) {
      const name = index % 2 === 0 ? 'wlc' : 'lc'
      const frontend = choosing(scheduler(name), { name: `web${index}` }, `10.96.1.${index}`)
      dataplane.frontend(frontend.key, frontend)
    }
    await pass()
    assert.deepEqual(memory.askedSchedulers.toSorted(), ['lc', 'wlc'])
    assert.equal([...memory.schedulerProblems.values()].filter(({ length }) => length === 1).length, 99)
  })

  it('counts as missing while the kernel cannot be asked, with a warning', async () => {
    const log = recordingLog()
    let nowMs = 0
    let isBroken = true
    const schedulers = new ChosenSchedulers({
      configured: 'rr',
      hasScheduler: async () => {
        if (isBroken) throw new Error('no buffer space')
        return true
      },
      problems: { report: () => undefined },
      now: () => nowMs,
      log,
    })
    const frontend = choosing(scheduler('wlc'))
    assert.equal(schedulers.inForce(KEY, frontend), 'rr')
    assert.deepEqual(await schedulers.ask(signal), [])
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ['warn'],
    )
    isBroken = false
    assert.deepEqual(await schedulers.ask(signal), [])
    nowMs = ASK_AGAIN_MS
    assert.deepEqual(await schedulers.ask(signal), [frontend])
    assert.equal(schedulers.inForce(KEY, frontend), 'wlc')
  })
})

/** `ipvsadm` names the flags of `sh` and `mh` by their schedulers. */
function flagNames(command: string): string {
  return command.replaceAll(/[sm]h-fallback/g, 'flag-1').replaceAll(/[sm]h-port/g, 'flag-2')
}
