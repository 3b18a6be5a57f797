/** What the bench reads from the kernel and from other programs. */
import { parseProcessorList } from '../../dev/kernel/processors.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { medianCalibration, parseCalibration } from '../../dev/bench/calibration.ts'
import { namesIn } from '../../dev/bench/iptables-table.ts'
import { childTicks, disturbanceBetween, idlestProcessor, parseProcessorTicks } from '../../dev/bench/machine.ts'
import { probeReason } from '../../dev/bench/probe.ts'
import { parseCost, parseMemory, parseProcessNumber, processesBetween } from '../../dev/bench/program-cost.ts'
import { parseTraffic } from '../../dev/bench/traffic.ts'

describe('parseCalibration', () => {
  const calibration = { release: '7.2.13', systemCallUs: 3.4, processStartMs: 2, wakeUpUs: 8.9, arithmeticMs: 2.2 }

  it('reads the line wherever it stands in the output', () =>
    assert.deepEqual(parseCalibration(`x\ncalibration=${JSON.stringify(calibration)}\ny\n`), calibration))
  it('is undefined when the line is missing', () => assert.equal(parseCalibration('x\n'), undefined))
  it('is printed by the file itself', () => {
    const output = execFileSync(process.execPath, [join(import.meta.dirname, '../../dev/bench/calibration.ts')])
    const { systemCallUs = 0, arithmeticMs = 0 } = parseCalibration(output.toString()) ?? {}
    assert.ok(systemCallUs > 0 && arithmeticMs > 0, output.toString())
  })

  it('gives the median of several boots, figure by figure', () => {
    const all = [calibration, { ...calibration, systemCallUs: 9 }, { ...calibration, arithmeticMs: 1 }]
    assert.deepEqual(medianCalibration(all), calibration)
    assert.equal(medianCalibration([]), undefined)
  })
})

describe('parseTraffic', () => {
  it('reads one latency a line and the total', () =>
    assert.deepEqual(parseTraffic('89.5\n120.0\ntotal=250.5\n'), { latenciesUs: [89.5, 120], totalUs: 250.5 }))
  it('refuses an output without a total', () => assert.throws(() => parseTraffic('89.5\n'), /no total: 89\.5/))
})

describe('namesIn', () => {
  it('finds names wherever they stand in a message', () =>
    assert.deepEqual(namesIn('\u0001\0service-a/service-1\0\0x\0service-b', 'service-'), [
      'service-a/service-1',
      'service-b',
    ]))
})

describe('parseProcessorTicks', () => {
  const stat = `cpu  10 1 20 300 40 5 6 7 8 0
cpu0 4 0 10 150 20 2 3 3 4 0
cpu1 6 1 10 150 20 3 3 4 4 0
intr 12345
`
  it('counts each processor, and separately the time of the hypervisor', () =>
    assert.deepEqual(
      parseProcessorTicks(stat),
      new Map([
        [0, { total: 192, busy: 19, steal: 3 }],
        [1, { total: 197, busy: 23, steal: 4 }],
      ]),
    ))
})

describe('parseProcessorList', () => {
  it('reads single numbers and ranges', () => assert.deepEqual(parseProcessorList('0-2,5\n'), [0, 1, 2, 5]))
  it('is empty for an empty text', () => assert.deepEqual(parseProcessorList('\n'), []))
})

describe('idlestProcessor', () => {
  const rest = { total: 100, busy: 10, steal: 0 }
  const before = new Map([0, 1, 2].map((processor) => [processor, rest]))
  const after = (...busy: number[]): Map<number, typeof rest> =>
    new Map(busy.map((more, processor) => [processor, { total: 200, busy: 10 + more, steal: 0 }]))

  it('is the processor with the least work', () =>
    assert.equal(idlestProcessor(before, after(50, 3, 60), [0, 1, 2]), 1))
  it('is the last of several with equally little work', () =>
    assert.equal(idlestProcessor(before, after(0, 0, 60), [0, 1, 2]), 1))
  it('is one that this process may use', () => assert.equal(idlestProcessor(before, after(50, 3, 60), [0, 2]), 0))
  it('is undefined when none is allowed', () => assert.equal(idlestProcessor(before, before, []), undefined))
})

describe('disturbanceBetween', () => {
  const look = (
    busy: number,
    steal: number,
    total: number,
    ownTicks: number,
  ): Parameters<typeof disturbanceBetween>[0] => ({
    ticks: { total, busy, steal },
    ownTicks,
  })
  it('is the time that was neither idle nor the bench, and the time of the hypervisor', () =>
    assert.deepEqual(disturbanceBetween(look(100, 0, 1000, 50), look(600, 20, 2000, 500)), {
      othersPercent: 5,
      stealPercent: 2,
    }))
  it('is never negative', () =>
    assert.equal(disturbanceBetween(look(0, 0, 0, 0), look(10, 0, 100, 12)).othersPercent, 0))
})

describe('childTicks', () => {
  it('adds user and system time of children that have ended, for any name of the program', () =>
    assert.equal(childTicks('42 (a) b) S 1 42 42 0 -1 0 5 6 7 8 9 10 11 12 20 0 1 0 100'), 23))
})

describe('parseCost', () => {
  const stat = '42 (a) b (c) S 1 42 42 0 -1 0 500 60 7 8 30 20 5 6 20 0 1 0 100'
  const threads = [
    'Name:\tkube-ipvs\nvoluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t2\n',
    'Name:\tlibuv-worker\nvoluntary_ctxt_switches:\t60\nnonvoluntary_ctxt_switches:\t0\n',
    '', // it has ended meanwhile
  ]
  it('adds children that have ended, and the waits of all threads', () =>
    assert.deepEqual(parseCost(stat, threads), { cpuMs: 610, minorFaults: 560, waits: 70 }))
})

describe('parseMemory', () => {
  const status = 'VmHWM:\t   81920 kB\nVmRSS:\t   71680 kB\nRssAnon:\t   26624 kB\nRssFile:\t   45056 kB\n'
  it('distinguishes anonymous memory from all', () =>
    assert.deepEqual(parseMemory(status, 'Pss:                2048 kB\nPss_Anon: 1 kB\n'), {
      rssMiB: 70,
      rssAnonMiB: 26,
      peakRssMiB: 80,
      pssMiB: 2,
    }))
  it('has no PSS where the kernel reports none', () => assert.equal(parseMemory(status, '').pssMiB, null))
})

describe('processesBetween', () => {
  it('counts from the last field of /proc/loadavg', () =>
    assert.equal(parseProcessNumber('4.45 4.75 4.56 6/226 25261\n'), 25261))
  it('is the difference of two numbers', () => assert.equal(processesBetween(100, 142), 42))
  it('continues when the numbers have started again', () => assert.ok(processesBetween(32_000, 500) > 1_000))
})

describe('probeReason', () => {
  it('is the first line with text, without its full stop', () =>
    assert.equal(
      probeReason("# Warning: iptables-legacy tables present\n\niptables: Couldn't load match `statistic'.\nTry -h.\n"),
      "iptables: Couldn't load match `statistic'",
    ))
  it('names namespaces when there was no output', () =>
    assert.equal(probeReason(''), 'its network namespaces cannot be used'))
})
