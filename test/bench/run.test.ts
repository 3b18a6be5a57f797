/** A whole run: whether it is to be trusted, how it is printed, kept in a file and compared with another. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { Calibration } from '../../dev/bench/calibration.ts'
import { agrees, compareRuns, formatComparison, largestDifference } from '../../dev/bench/compare.ts'
import { parseBenchOptions } from '../../dev/bench/options.ts'
import { appendRun, formatRun, type RecordedRun, readRuns, type Run } from '../../dev/bench/record.ts'
import { COLOURED, formatDuration, formatReport, PLAIN } from '../../dev/bench/report.ts'
import { digitsOf, FIELDS, type MeasuredNumbers, type Mode, summarise } from '../../dev/bench/result.ts'
import { reasonsAgainst } from '../../dev/bench/trust.ts'

const CALIBRATION: Calibration = {
  systemCallUs: 3.4,
  pageFaultUs: 8.61,
  processStartUs: 2_014,
  wakeUpUs: 8.8,
  arithmeticUs: 2_203,
}
const QUIET = { othersPercent: 0.4, stealPercent: 0 }

/** As large as numbers may well become. */
const MEASURED: MeasuredNumbers = {
  ...Object.fromEntries(FIELDS.map((field) => [field, digitsOf(field) === 0 ? 12_345_678 : 12_345.6])),
  coldStartApiBytes: 5_000_000_000,
  services: 10_000,
  endpoints: 5,
  coldStartMs: 2_000,
}

interface RunChange {
  readonly coldStartMs?: number
  readonly floors?: readonly number[]
  readonly modes?: readonly Mode[]
  readonly reasons?: readonly string[]
}

/** kube-proxy takes ten minutes. */
function runOf({ coldStartMs = 2_000, floors = [500], modes = ['ipvs'], reasons = [] }: RunChange = {}): Run {
  const options = parseBenchOptions([])
  assert.ok(!('error' in options))
  const twice = (ms: number): readonly MeasuredNumbers[] =>
    [1, 1.02].map((by) => ({ ...MEASURED, coldStartMs: ms * by }))
  const measured = twice(coldStartMs)
  const results = modes.flatMap((mode) => {
    const theirs = { program: 'kube-proxy', mode, measured: twice(600_000) } as const
    return [
      summarise({ program: 'kube-ipvs', mode, measured }, mode === 'ipvs' ? floors : [], theirs),
      summarise(theirs, mode === 'ipvs' ? floors : [], undefined),
    ]
  })
  return {
    at: '2026-11-22T10:46:36.000Z',
    commit: { hash: '0123456789abcdef0123456789abcdef01234567', changed: true },
    kernel: { kind: 'uml', release: '7.2.13' },
    machine: { processors: 2, model: 'AMD EPYC', processor: 1, hasPriority: true },
    load: { average: [0.1, 0.2, 0.3], ...QUIET },
    calibration: CALIBRATION,
    trusted: reasons.length === 0,
    reasons,
    options,
    results,
  }
}

const recorded = (run: Run): RecordedRun => JSON.parse(formatRun(run)) as RecordedRun // as readRuns does

describe('formatReport', () => {
  const text = formatReport(runOf({ modes: ['ipvs', 'iptables'] }), PLAIN)

  it('fits into 120 columns with two programs in two modes and large numbers', () => {
    for (const line of text.split('\n')) assert.ok(line.length <= 120, `${line.length}: ${line}`)
  })

  it('aligns the numbers of a column at the right', () => {
    const [heading = '', ...rows] = text.slice(text.indexOf('10,000 Services')).split('\n').slice(1)
    const end = heading.indexOf('kube-ipvs') + 'kube-ipvs'.length
    const start = rows.find((row) => row.includes('cold start, until'))
    assert.equal(start?.slice(0, end).endsWith('   2,000'), true, start)
    assert.equal(start?.[end], ' ')
  })

  it('shows the processor of the measurement, its calibration and the share of other work', () => {
    assert.match(text, /user-mode Linux 7\.2\.13, everything kept on processor 1 of 2/)
    assert.match(text, /other work took 0\.4 % of that processor/)
    assert.match(text, /Calibration +system call.*\n +3\.40 µs +8\.61 µs +2\.01 ms +8\.80 µs +2\.20 ms/)
  })

  it('omits what was not measured', () => {
    assert.doesNotMatch(formatReport({ ...runOf(), results: [] }, PLAIN), /cold start/)
  })

  it('uses colours only when they are requested', () => {
    const busy = runOf({ reasons: ['other work took 12.0 % of the processor that was measured on'] })
    assert.equal(formatReport(busy, PLAIN).includes('\u001b'), false)
    assert.equal(formatReport(busy, COLOURED).includes('\u001b[33m'), true)
  })

  it('states that results are not comparable when the machine was too busy, and why', () => {
    const busy = formatReport(runOf({ reasons: ['other work took 12.0 % of the processor'] }), PLAIN)
    assert.match(busy, /too busy: results are not comparable\.\n- other work took 12\.0 %/)
    assert.doesNotMatch(text, /too busy/)
  })
})

describe('formatDuration', () => {
  const rows: readonly [us: number | null, expected: string][] = [
    [null, '-'],
    [0.055, '0.06 µs'],
    [12.34, '12.3 µs'],
    [999, '999 µs'],
    [7_265, '7.26 ms'],
  ]
  for (const [us, expected] of rows) it(`of ${us} is ${expected}`, () => assert.equal(formatDuration(us), expected))
})

describe('reasonsAgainst', () => {
  const quiet = {
    disturbances: [QUIET],
    calibrations: [CALIBRATION, CALIBRATION],
    results: runOf().results,
  }

  it('are empty on a quiet machine', () => assert.deepEqual(reasonsAgainst(quiet), []))

  it('name other work and the hypervisor when they took the processor in most boots', () => {
    const busy = { othersPercent: 26.6, stealPercent: 9 }
    assert.deepEqual(reasonsAgainst({ ...quiet, disturbances: [busy, QUIET, busy] }), [
      'other work took 26.6 % of the processor that was measured on',
      'the hypervisor took 9.0 % of the processor that was measured on',
    ])
    assert.deepEqual(reasonsAgainst({ ...quiet, disturbances: [busy, QUIET, QUIET] }), [])
  })

  it('name a calibration that changed from boot to boot', () => {
    const slow = { ...CALIBRATION, systemCallUs: 12 }
    assert.deepEqual(reasonsAgainst({ ...quiet, calibrations: [CALIBRATION, slow] }), [
      'a system call took from 3.4 to 12.0 µs in the boots of this run',
    ])
  })

  it('name ratios whose median is uncertain by more than a tenth', () => {
    const measured = [1_000, 1_300, 1_100].map((coldStartMs) => ({ ...MEASURED, coldStartMs }))
    const results = [summarise({ program: 'kube-ipvs', mode: 'ipvs', measured }, [100], undefined)]
    assert.deepEqual(reasonsAgainst({ ...quiet, results }), [
      'the cold start of kube-ipvs by the floor is uncertain by 29 % (from 10.0 to 13.0) at 10000 Services in ipvs mode',
    ])
  })
})

describe('a file of runs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bench-test-'))
  after(() => rmSync(folder, { recursive: true }))

  it('gets one line for each run, with commit, kernel, calibration, options and results', () => {
    const file = join(folder, 'runs.json')
    appendRun(file, runOf())
    appendRun(file, runOf({ coldStartMs: 2_200 }))
    const [first, second, ...more] = readRuns(file)
    assert.equal(more.length, 0)
    assert.equal(first?.results[0]?.coldStartMs, 2_000)
    assert.equal(second?.results[0]?.coldStartMs, 2_200)
    assert.equal(first?.commit?.changed, true)
    assert.deepEqual(Object.keys(first ?? {}).toSorted(), Object.keys(runOf()).toSorted())
  })

  it('is refused with the number of the first invalid line', () => {
    const file = join(folder, 'other.json')
    writeFileSync(file, `${formatRun(runOf())}\n{"results":`)
    assert.throws(() => readRuns(file), /other\.json:2 is not JSON/)
    writeFileSync(file, '{"answer":42}\n')
    assert.throws(() => readRuns(file), /other\.json:1 is not a run of this bench/)
  })
})

describe('compareRuns', () => {
  const before = recorded(runOf())

  it('agrees when ratios differ by less than a tenth', () => {
    for (const coldStartMs of [1_840, 2_180]) {
      const ratios = compareRuns(before, recorded(runOf({ coldStartMs })))
      assert.equal(agrees(ratios), true, JSON.stringify(ratios))
    }
  })

  it('disagrees when the ratio to the floor is a fifth larger, and shows the difference', () => {
    const later = recorded(runOf({ floors: [400] }))
    assert.equal(Math.round((largestDifference(compareRuns(before, later)) ?? 0) * 100), 25)
    const { text, agree } = formatComparison(before, later)
    assert.equal(agree, false)
    assert.match(text, /cold start \/ floor, 10000 Services, ipvs mode, kube-ipvs +4\.00 +5\.00 +\+25\.0 %/)
    assert.match(text, /do not agree within 10 %: the largest difference is 25\.0 %\.$/)
  })

  it('disagrees when two programs both became slower', () => {
    // The times doubled on a slower machine, the ratio stayed.
    const slower = recorded(runOf({ coldStartMs: 4_000, floors: [1_000] }))
    const floorRatio = compareRuns(before, slower).find((ratio) => ratio.name.startsWith('cold start / floor'))
    assert.equal(floorRatio?.difference, 0)
  })

  it('compares times where there is neither a floor nor a kube-proxy', () => {
    const alone = (coldStartMs: number): RecordedRun =>
      recorded({
        ...runOf(),
        results: [
          summarise(
            { program: 'kube-ipvs', mode: 'iptables', measured: [{ ...MEASURED, floorRatio: null, coldStartMs }] },
            [],
            undefined,
          ),
        ],
      })
    assert.deepEqual(
      compareRuns(alone(1_000), alone(1_050)).map(({ name, before: first, after: second }) => [name, first, second]),
      [['cold start in ms, 10000 Services, iptables mode, kube-ipvs', 1_000, 1_050]],
    )
  })

  it('compares nothing in runs of different sizes', () => {
    const other = { ...before, results: before.results.map((result) => ({ ...result, services: 5 })) }
    const { text, agree } = formatComparison(before, other)
    assert.match(text, /no size, program and mode in common/)
    assert.equal(agree, false)
  })

  it('names a run that was measured on a busy machine', () => {
    const busy = recorded(runOf({ reasons: ['other work'] }))
    assert.match(formatComparison(before, busy).text, /One of the runs measured a machine that was too busy/)
  })
})
