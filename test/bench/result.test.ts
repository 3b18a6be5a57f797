/** What the bench prints, and the numbers behind it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseFloor } from '../../dev/bench/floor.ts'
import { parseTable, sample } from '../../dev/bench/kernel-view.ts'
import { type BenchResult, formatJson, formatResults } from '../../dev/bench/result.ts'
import { percentile, slope } from '../../dev/bench/statistics.ts'

const RESULT: BenchResult = {
  changes: 200,
  services: 1_000,
  endpoints: 5,
  coldStartMs: 987.654,
  floorMs: 40.04,
  changeP50Ms: 2.3456,
  changeP99Ms: 10,
  burstMs: 30.5,
  idleCpuPercent: 0.1234,
  rssMiB: 99.99,
  peakRssMiB: 110,
  messagesPerChange: 4.001,
  processesPerChange: 0,
  eventLoopMaxMs: null,
  floorRatio: 24.667,
  datagramsPerChange: 4,
  coldStartMessages: 7_012,
  coldStartDatagrams: 60,
  coldStartProcesses: 12,
  burstMessages: 1_000,
  burstDatagrams: 20,
  burstProcesses: 0,
  idleMessages: 2_000,
  idleProcesses: 0,
  rssSlopeMiB: null,
}

describe('formatJson', () => {
  it('is one line with the promised fields first, in their order', () => {
    const line = formatJson(RESULT)
    assert.equal(
      line.slice(0, line.indexOf(',"floorRatio"')),
      '{"services":1000,"endpoints":5,"coldStartMs":988,"floorMs":40,"changeP50Ms":2.35,"changeP99Ms":10,"burstMs":31,"idleCpuPercent":0.12,"rssMiB":100,"peakRssMiB":110,"messagesPerChange":4,"processesPerChange":0,"eventLoopMaxMs":null',
    )
    assert.doesNotMatch(line, /\n/)
  })

  it('leaves no field out', () =>
    assert.deepEqual(Object.keys(JSON.parse(formatJson(RESULT))).sort(), Object.keys(RESULT).sort()))
})

describe('formatResults', () => {
  it('aligns its columns and shows what was not measured as a dash', () => {
    const lines = formatResults([RESULT, { ...RESULT, services: 10_000, floorMs: null, floorRatio: null }]).split('\n')
    assert.equal(new Set(lines.map((line) => line.length)).size, 1)
    assert.deepEqual(lines[2]?.trim().split(/\s+/).slice(0, 5), ['10000', '5', '988', '-', '-'])
  })

  it('has a column for the slope only when it was measured', () => {
    assert.doesNotMatch(formatResults([RESULT]), /slope/)
    assert.match(formatResults([{ ...RESULT, rssSlopeMiB: 0.25 }]), /slope MiB\n.* 0\.25$/)
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

describe('slope', () => {
  it('finds the line through points with noise', () =>
    assert.equal(
      slope([
        [0, 1],
        [1, 4],
        [2, 5],
        [3, 8],
      ])?.toFixed(2),
      '2.20',
    ))
  it('needs two different x', () => {
    assert.equal(slope([]), null)
    assert.equal(
      slope([
        [1, 1],
        [1, 2],
      ]),
      null,
    )
  })
})

describe('parseFloor', () => {
  it('takes the total', () =>
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
  it('takes all of a short list', () => assert.deepEqual(sample([1, 2, 3], 5), [1, 2, 3]))
  it('takes items evenly from a long one, the last among them', () =>
    assert.deepEqual(
      sample(
        Array.from({ length: 10 }, (_, index) => index),
        4,
      ),
      [2, 4, 7, 9],
    ))
})
