/** The results of the experiment: medians, CSV, plots and the figures of its page. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type Experiment, csvOf, plotsOf, pointOf, withExperiment } from '../../dev/bench/experiment-result.ts'
import { writeExperiment } from '../../dev/bench/experiment.ts'
import { parseTraffic, type TrafficMeasured } from '../../dev/bench/traffic.ts'

const BOOT: TrafficMeasured = {
  rulesBefore: null,
  latencyP50Us: 89.04,
  latencyP99Us: 195.4,
  connectionsPerSecond: 6_099.25,
  changes: 20,
  changeP50Ms: 9.128,
  changeP99Ms: 16.75,
}
const PAGE = `# Page

<!-- figures: written by npm run bench -- --experiment -->
old
<!-- end of figures -->

After.
`
const EXPERIMENT: Experiment = {
  at: '2026-11-22T15:30:00.000Z',
  commit: { hash: '0123456789abcdef0123456789abcdef01234567', changed: false },
  kernel: { kind: 'uml', release: '7.2.13' },
  machine: { processors: 2, model: 'AMD EPYC', processor: 1, hasPriority: true },
  load: { average: [0.1, 0.2, 0.3], othersPercent: 0.5, stealPercent: 0 },
  calibration: null,
  trusted: true,
  reasons: [],
  method: [],
  options: {
    sizes: [1, 10_000],
    endpoints: 5,
    modes: ['ipvs', 'iptables'],
    repeats: 1,
    changes: 20,
    requests: 2_000,
    connections: 8_000,
    clients: 8,
  },
  points: [
    pointOf('ipvs', 1, [BOOT]),
    pointOf('ipvs', 10_000, [BOOT]),
    pointOf('iptables', 1, [{ ...BOOT, rulesBefore: 0 }]),
    pointOf('iptables', 10_000, [{ ...BOOT, rulesBefore: 5_000, latencyP50Us: 1_234.5 }]),
  ],
}

describe('parseTraffic', () => {
  it('reads one latency a line and the total', () =>
    assert.deepEqual(parseTraffic('89.5\n120.0\ntotal=250.5\n'), { latenciesUs: [89.5, 120], totalUs: 250.5 }))

  it('refuses an output without a total', () => assert.throws(() => parseTraffic('89.5\n'), /no total: 89\.5/))
})

describe('pointOf', () => {
  it('has the median of each number, rounded, and null where nothing was measured', () => {
    const boots = [5, 1, 3].map((ms) => ({ ...BOOT, changeP50Ms: ms }))
    const point = pointOf('ipvs', 1_000, boots)
    assert.deepEqual([point.boots, point.changeP50Ms, point.latencyP50Us, point.rulesBefore], [3, 3, 89, null])
  })
})

describe('csvOf', () => {
  it('has a heading, a line for each point and an empty field for what was not measured', () =>
    assert.equal(
      csvOf(EXPERIMENT.points.slice(1, 3)),
      `mode,services,boots,rulesBefore,latencyP50Us,latencyP99Us,connectionsPerSecond,changes,changeP50Ms,changeP99Ms
ipvs,10000,1,,89,195.4,6099.3,20,9.13,16.75
iptables,1,1,0,89,195.4,6099.3,20,9.13,16.75
`,
    ))
})

describe('plotsOf', () => {
  it('shows each figure for both modes', () => {
    const plots = plotsOf(EXPERIMENT.points)
    assert.deepEqual(Object.keys(plots), ['latency.svg', 'connections.svg', 'change.svg'])
    for (const [name, svg] of Object.entries(plots))
      for (const mode of ['ipvs mode', 'iptables mode']) assert.ok(svg.includes(mode), `${name} ${mode}`)
  })

  it('omits a mode that was not measured', () => {
    const { 'latency.svg': latency = '' } = plotsOf(EXPERIMENT.points.slice(0, 2))
    assert.doesNotMatch(latency, /iptables mode/)
  })
})

describe('withExperiment', () => {
  it('replaces the figures of an earlier run and nothing else', () => {
    const page = withExperiment(PAGE, EXPERIMENT)
    assert.match(page, /^# Page\n\n<!-- figures/)
    assert.match(page, /<!-- end of figures -->\n\nAfter\.\n$/)
    assert.doesNotMatch(page, /^old$/m)
    assert.match(page, /commit 0123456789ab, kernel uml 7\.2\.13/)
    assert.match(page, /^\| 10,000 \| iptables \| 5,000 \| 1,235 \| 195 \| 6,099 \| 9\.1 \| 16\.8 \|$/m)
    assert.equal(withExperiment(page, EXPERIMENT), page)
  })

  it('warns when the machine was too busy', () =>
    assert.match(
      withExperiment(PAGE, { ...EXPERIMENT, trusted: false, reasons: ['other work took 12.0 %'] }),
      /too busy for exact figures\*\*: other work took 12\.0 %\./,
    ))

  it('refuses a page without a place for them', () =>
    assert.throws(() => withExperiment('# Page', EXPERIMENT), /has no lines/))
})

describe('writeExperiment', () => {
  it('writes every file into the folder, and the figures into its page', () => {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-experiment-test-'))
    try {
      writeFileSync(join(folder, 'README.md'), PAGE)
      writeExperiment(EXPERIMENT, folder)
      assert.deepEqual(readdirSync(folder).toSorted(), [
        'README.md',
        'change.svg',
        'connections.svg',
        'experiment.csv',
        'experiment.json',
        'latency.svg',
      ])
      assert.deepEqual(JSON.parse(readFileSync(join(folder, 'experiment.json'), 'utf8')), EXPERIMENT)
      assert.match(readFileSync(join(folder, 'README.md'), 'utf8'), /\| 10,000 \| ipvs \| - \|/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
