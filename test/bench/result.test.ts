/** What the repetitions of a measurement make together, and the numbers behind it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseFloor } from '../../dev/bench/floor.ts'
import { parseTable } from '../../dev/bench/ipvs-table.ts'
import { FIELDS, formatJson, type Measured, type Repetitions, summarise } from '../../dev/bench/result.ts'
import { percentile } from '../../dev/bench/statistics.ts'
import { sample } from '../../dev/bench/table-view.ts'

const BOOT: Measured = {
  services: 1_000,
  endpoints: 5,
  coldStartMs: 987.654,
  changeP50Ms: 2.3456,
  changeP99Ms: 10,
  burstMs: 30.5,
  messagesPerChange: 4.001,
  processesPerChange: 0,
}
const WHOLE: Measured = { ...BOOT, idleCpuPercent: 0.1234, rssMiB: 99.99, peakRssMiB: 110, eventLoopMaxMs: null }

function repetitions(program: Repetitions['program'], coldStarts: readonly number[]): Repetitions {
  return {
    program,
    mode: 'ipvs',
    measured: coldStarts.map((coldStartMs, index) => ({ ...(index === 0 ? WHOLE : BOOT), coldStartMs })),
  }
}

describe('summarise', () => {
  it('gives the median of each number, with least and most when it was measured more than once', () => {
    const { numbers, spread, coldStarts } = summarise(
      repetitions('kube-ipvs', [300, 100, 200]),
      [10, 11, 30],
      undefined,
    )
    assert.equal(numbers.coldStartMs, 200)
    assert.deepEqual(spread.coldStartMs, [100, 300])
    assert.equal(numbers.rssMiB, 99.99)
    assert.equal(spread.rssMiB, undefined)
    assert.equal(coldStarts, 3)
  })

  it('divides each cold start by the median of all floors', () => {
    const { numbers, spread } = summarise(repetitions('kube-ipvs', [300, 100, 200]), [10, 11, 30], undefined)
    assert.equal(numbers.floorMs, 11)
    assert.equal(numbers.floorRatio, 200 / 11)
    assert.deepEqual(spread.floorRatio, [100 / 11, 300 / 11])
  })

  it('is null for what was not measured', () => {
    const { numbers, kubeProxyRatio } = summarise(repetitions('kube-ipvs', [300]), [], undefined)
    assert.equal(numbers.floorMs, null)
    assert.equal(numbers.floorRatio, null)
    assert.equal(numbers.eventLoopMaxMs, null)
    assert.equal(kubeProxyRatio, null)
  })

  it('divides the repetitions of kube-proxy by ours, and gives the median of the ratios', () => {
    // A slow moment of the machine was in the second repetition of both.
    const ours = repetitions('kube-ipvs', [100, 1000, 110])
    const theirs = repetitions('kube-proxy', [400, 4100, 450])
    const { kubeProxyRatio } = summarise(ours, [], theirs)
    assert.equal(kubeProxyRatio?.coldStartMs, 450 / 110)
    assert.equal(kubeProxyRatio?.rssMiB, 1)
    assert.equal(kubeProxyRatio?.coldStartCpuMs, undefined)
  })
})

describe('formatJson', () => {
  const line = formatJson(summarise(repetitions('kube-ipvs', [987.654]), [40.04], undefined))

  it('is one line with the promised fields first, in their order', () => {
    assert.equal(
      line.slice(0, line.indexOf(',"floorRatio"')),
      '{"services":1000,"endpoints":5,"coldStartMs":988,"floorMs":40,"changeP50Ms":2.35,"changeP99Ms":10,"burstMs":31,"idleCpuPercent":0.12,"rssMiB":100,"peakRssMiB":110,"messagesPerChange":4,"processesPerChange":0,"eventLoopMaxMs":null',
    )
    assert.doesNotMatch(line, /\n/)
  })

  it('has every field, and names the program and the mode', () => {
    const object = JSON.parse(line) as Record<string, unknown>
    for (const field of FIELDS) assert.ok(field in object, field)
    assert.equal(object['program'], 'kube-ipvs')
    assert.equal(object['mode'], 'ipvs')
  })
})

describe('percentile', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index)
  const rows: readonly [samples: readonly number[], share: number, expected: number | null][] = [
    [[], 0.5, null],
    [[7], 0.99, 7],
    [[1, 2], 0.5, 1],
    [hundred, 0.5, 50],
    [hundred, 0.99, 99],
    [hundred, 1, 100],
  ]
  for (const [samples, share, expected] of rows)
    it(`of ${samples.length} samples at ${share} is ${expected}`, () =>
      assert.equal(percentile(samples, share), expected))
})

describe('parseFloor', () => {
  it('reads the total', () =>
    assert.equal(parseFloor('floor n=10 m=5 ipvs=1.0ms addresses=2.0ms ipset=0.5ms total=3.5ms\n'), 3.5))
  it('is null for anything else', () => assert.equal(parseFloor('send: Operation not permitted'), null))
})

describe('parseTable', () => {
  it('gives the TCP virtual servers with the real servers that have a weight', () => {
    const text = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A60000A:0050 rr  
  -> 0A800001:1F90      Masq    1      0          0         
  -> 0A800002:1F90      Masq    0      3          0         
UDP  0A60000A:0035 rr  
  -> 0A800003:0035      Masq    1      0          0         
TCP  0A60000B:0050 rr  
`
    assert.deepEqual(
      parseTable(text),
      new Map([
        ['0A60000A:0050', new Set(['0A800001:1F90'])],
        ['0A60000B:0050', new Set()],
      ]),
    )
  })
})

describe('sample', () => {
  it('returns all of a short list', () => assert.deepEqual(sample([1, 2, 3], 5), [1, 2, 3]))
  it('returns evenly spaced items of a long list, with the last one', () =>
    assert.deepEqual(
      sample(
        Array.from({ length: 10 }, (_, index) => index),
        4,
      ),
      [2, 4, 7, 9],
    ))
})
