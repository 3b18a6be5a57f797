/** Changes beside other work: which Services are probed, when a change arrived, the figures, and what is read from netlink messages. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fairness, fairnessOf, plainFairness, probedServices } from '../../dev/bench/fairness.ts'
import { formatFairness } from '../../dev/bench/fairness-report.ts'
import { formatSize, PLAIN } from '../../dev/bench/report.ts'
import { type BenchResult, type Measured, plainResult, summarise } from '../../dev/bench/result.ts'
import { WriteLog } from '../../dev/bench/writes/write-log.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import { answerTo, noCounts } from '../../dev/bench/own-cost/answers.ts'

describe('probedServices', () => {
  it('gives Services that no burst replaces and that are not in the removed namespace, distant ones after each other', () => {
    for (const services of [1_000, 10_000, 50_000]) {
      const probed = probedServices(services)
      const some = Array.from({ length: 300 }, () => probed.next().value)
      for (const service of some) {
        assert.ok(service >= 100 && service < services, `${service} of ${services}`)
        assert.notEqual(service % 10, 0)
      }
      assert.ok(new Set(some).size > 250)
    }
  })
  it('works for the smallest sizes', () => {
    for (const services of [1, 2, 20, 100, 201]) {
      const probed = probedServices(services)
      for (let index = 0; index < 50; index++) assert.ok(probed.next().value < services)
    }
  })
})

const LOOP = { eventLoopMaxMs: 9, eventLoopOwnMaxMs: 3 }

describe('fairnessOf', () => {
  it('takes the first arrival of the same slice after the write, and the whole way from the write', () => {
    const changes = [
      { key: 'a', writtenMs: 100, doneMs: 110 },
      { key: 'b', writtenMs: 120, doneMs: 124 },
      { key: 'a', writtenMs: 200, doneMs: 240 },
    ]
    const arrivals = [
      ['a', 50],
      ['a', 104],
      ['b', 121],
      ['c', 122],
      ['a', 230],
    ] as const
    const fairness = fairnessOf('burst', changes, arrivals, LOOP, [30, 10, 20])
    assert.deepEqual(
      [fairness.changes, fairness.arrivalP50Ms, fairness.arrivalMaxMs, fairness.writeP50Ms, fairness.writeMaxMs],
      [3, 6, 10, 10, 40],
    )
    assert.deepEqual([fairness.eventLoopMaxMs, fairness.eventLoopOwnMaxMs, fairness.workMs], [9, 3, 20])
  })

  it('leaves out changes that did not reach the kernel, and says null for what did not arrive', () => {
    const changes = [
      { key: 'a', writtenMs: 100, doneMs: undefined },
      { key: 'b', writtenMs: 100, doneMs: 101 },
    ]
    const fairness = fairnessOf('nothing', changes, [['a', 100]], LOOP, [])
    assert.deepEqual(
      [fairness.changes, fairness.arrivalP50Ms, fairness.writeP50Ms, fairness.workMs],
      [1, null, 1, null],
    )
  })
})

it('a report of changes beside other work fits a terminal and rounds its JSON', () => {
  const large: Fairness = {
    beside: 'namespace',
    changes: 12_345,
    arrivalP50Ms: 123.456,
    arrivalP99Ms: 12_345.678,
    arrivalMaxMs: 12_345.678,
    writeP50Ms: 1234.567,
    writeP99Ms: 12_345.678,
    writeMaxMs: 12_345.678,
    ...LOOP,
    workMs: null,
  }
  const [first = '', second = '', line = ''] = formatFairness([large])
  assert.ok(
    [first, second, line].every((one) => one.length === first.length && one.length <= 120),
    line,
  )
  assert.match(line, /^ {2}removal of a namespace +12345 +123\.46 .* -$/)
  assert.deepEqual(formatFairness([]), [])
  assert.equal(plainFairness(large)['arrivalP50Ms'], 123.46)
  assert.equal(plainFairness(large)['workMs'], null)
})

it('a result has the changes beside other work in its text and its JSON, and nothing of them when they were not measured', () => {
  const one: Fairness = {
    ...fairnessOf('burst', [{ key: 'a', writtenMs: 1, doneMs: 3.456 }], [['a', 2]], LOOP, [40]),
  }
  const resultOf = (measured: Measured): BenchResult =>
    summarise(
      { program: 'kube-ipvs', mode: 'ipvs', measured: [{ services: 100, endpoints: 5, ...measured }] },
      [],
      undefined,
    )
  const [without, having] = [resultOf({}), resultOf({ fairness: [one], idleWakeUpsPerSecond: 0.456, idleSeconds: 600 })]
  assert.equal(plainResult(without)['fairness'], undefined)
  assert.deepEqual(plainResult(having)['fairness'], [plainFairness(one)])
  assert.doesNotMatch(formatSize([without], PLAIN), /beside/)
  assert.match(
    formatSize([having], PLAIN),
    /One change beside other work, kube-ipvs in ipvs mode, in ms\n.*\n.*\n {2}a burst of 10 % +1 +1\.46 /,
  )
  assert.match(formatSize([having], PLAIN), /wake-ups of all threads a second +0\.46/)
})

describe('kernel of --own-cost', () => {
  const SERVICE = { family: 'IPv4', protocol: 'tcp', address: '10.96.0.1', port: 80 } as const
  const SERVER = {
    address: '10.128.0.7',
    port: 8080,
    weight: 1,
    forwarding: 'masquerade',
    upperThreshold: 0,
    lowerThreshold: 0,
  } as const

  it('logs when which real server was added and which virtual server removed, and lists what drains as idle', async () => {
    const log = new WriteLog(10)
    const answers: Uint8Array[] = []
    let nowMs = 5
    const netlink = new NetlinkConnection({
      portId: 1,
      send: (bytes) => {
        answerTo(NETLINK_GENERIC, bytes, answers, noCounts())
        log.add(bytes, nowMs++)
      },
      receive: () => answers.shift(),
      onReadable: () => undefined,
      close: () => undefined,
    })
    const ipvs = await IpvsConnection.open(netlink)
    log.take()
    const batch = ipvs.batch()
    batch.addDestination(SERVICE, SERVER)
    batch.addDestination(SERVICE, { ...SERVER, address: '10.128.0.8' })
    await batch.commit()
    assert.deepEqual(await ipvs.listDestinations(SERVICE), [])
    batch.editDestination(SERVICE, { ...SERVER, weight: 0 })
    await batch.commit()
    const [drained, ...others] = await ipvs.listDestinations(SERVICE)
    assert.deepEqual([drained?.realServer.address, drained?.realServer.weight, others.length], ['10.128.0.7', 0, 0])
    batch.deleteDestination(SERVICE, SERVER)
    await batch.commit()
    assert.deepEqual(await ipvs.listDestinations(SERVICE), [])
    batch.deleteService(SERVICE)
    await batch.commit()
    const virtualServer = 0x0a600001
    const entries = log.take()
    assert.deepEqual(
      entries.map((entry) => [entry.virtualServer, entry.realServer, entry.isRemoval]),
      [
        [virtualServer, 0x0a800007, false],
        [virtualServer, 0x0a800008, false],
        [virtualServer, 0x0a800007, true],
        [virtualServer, 0, true],
      ],
    )
    const [first, second, third, fourth] = entries.map(({ atMs }) => atMs)
    assert.ok(first !== undefined && first === second)
    assert.ok(third !== undefined && fourth !== undefined && second < third && third < fourth)
    assert.deepEqual(log.take(), [])
  })
})
