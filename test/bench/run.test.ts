/** A whole run: whether it is to be trusted, and how it is printed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Calibration } from '../../dev/bench/calibration.ts'
import type { Run } from '../../dev/bench/record.ts'
import { formatDuration, formatReport } from '../../dev/bench/report.ts'
import { digitsOf, FIELDS, type Measured, type Mode, summarise } from '../../dev/bench/result.ts'
import { reasonsAgainst } from '../../dev/bench/trust.ts'

const CALIBRATION: Calibration = {
  release: '7.2.13',
  systemCallUs: 3.4,
  processStartMs: 2.014,
  wakeUpUs: 8.8,
  arithmeticMs: 2.203,
}
const QUIET = { othersPercent: 0.4, stealPercent: 0 }

/** As large as numbers may well become. */
const MEASURED: Measured = {
  ...Object.fromEntries(FIELDS.map((field) => [field, digitsOf(field) === 0 ? 12_345_678 : 12_345.6])),
  coldStartApiBytes: 5_000_000_000,
  services: 10_000,
  endpoints: 5,
  coldStartMs: 2_000,
}

/** kube-proxy takes ten minutes. */
function runOf(modes: readonly Mode[], reasons: readonly string[] = []): Run {
  const twice = (ms: number): readonly Measured[] => [1, 1.02].map((by) => ({ ...MEASURED, coldStartMs: ms * by }))
  const results = modes.flatMap((mode) => {
    const floors = mode === 'ipvs' ? [500] : []
    const theirs = { program: 'kube-proxy', mode, measured: twice(600_000) } as const
    return [
      summarise({ program: 'kube-ipvs', mode, measured: twice(2_000) }, floors, theirs),
      summarise(theirs, floors, undefined),
    ]
  })
  return {
    at: '2026-11-22T10:46:36.000Z',
    commit: { hash: '0123456789abcdef0123456789abcdef01234567', changed: true },
    kernel: { kind: 'uml', release: '7.2.13' },
    machine: { processors: 2, model: 'AMD EPYC', processor: 1, hasPriority: true },
    load: { average: [0.1, 0.2, 0.3], ...QUIET },
    calibration: CALIBRATION,
    reasons,
    results,
  }
}

describe('formatReport', () => {
  const text = formatReport(runOf(['ipvs', 'iptables']))

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
    assert.match(text, /Calibration +system call.*\n +3\.40 µs +2\.01 ms +8\.80 µs +2\.20 ms/)
  })

  it('names the firewalls where one program is measured with both', () => {
    const results = (['iptables', 'nftables'] as const).map((firewall) =>
      summarise({ program: 'kube-ipvs', mode: 'ipvs', firewall, measured: [MEASURED, MEASURED] }, [500], undefined),
    )
    const heading = formatReport({ ...runOf([]), results })
      .split('\n')
      .find((line) => line.includes('nftables'))
    assert.match(heading ?? '', /^ +iptables +nftables$/)
  })

  it('omits what was not measured', () => {
    assert.doesNotMatch(formatReport(runOf([])), /cold start/)
  })

  it('states that results are not comparable when the machine was too busy, and why', () => {
    const busy = formatReport(runOf([], ['other work took 12.0 % of the processor']))
    assert.match(busy, /too busy: results are not comparable\.\n- other work took 12\.0 %/)
    assert.doesNotMatch(text, /too busy/)
  })
})

describe('formatDuration', () => {
  const rows: readonly [us: number, expected: string][] = [
    [0.055, '0.06 µs'],
    [12.34, '12.3 µs'],
    [999, '999 µs'],
    [7_265, '7.26 ms'],
  ]
  for (const [us, expected] of rows) it(`of ${us} is ${expected}`, () => assert.equal(formatDuration(us), expected))
})

describe('reasonsAgainst', () => {
  it('are empty on a quiet machine', () => assert.deepEqual(reasonsAgainst([QUIET], [CALIBRATION, CALIBRATION]), []))

  it('name other work and the hypervisor when they took the processor in most boots', () => {
    const busy = { othersPercent: 26.6, stealPercent: 9 }
    assert.deepEqual(reasonsAgainst([busy, QUIET, busy], []), [
      'other work took 26.6 % of the processor that was measured on',
      'the hypervisor took 9.0 % of the processor that was measured on',
    ])
    assert.deepEqual(reasonsAgainst([busy, QUIET, QUIET], []), [])
  })

  it('name a calibration that changed from boot to boot', () => {
    const slow = { ...CALIBRATION, systemCallUs: 12 }
    assert.deepEqual(reasonsAgainst([QUIET], [CALIBRATION, slow]), [
      'a system call took from 3.4 to 12.0 µs in the boots of this run',
    ])
  })
})
