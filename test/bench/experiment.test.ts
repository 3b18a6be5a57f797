/** The cells of the experiment: their file, and the tables and charts that show them. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type Cell, cellOf, formatCells, parseCells, withCell } from '../../dev/bench/cell.ts'
import { figuresOf, plotsOf } from '../../dev/bench/experiment-result.ts'
import { runExperiment, writeExperiment } from '../../dev/bench/experiment.ts'
import { changeFigure } from '../../dev/bench/measure.ts'
import { namesIn } from '../../dev/bench/nft-reader.ts'
import { nftEndpoint, nftServiceChain } from '../../dev/bench/nftables-table.ts'
import { parseBenchOptions } from '../../dev/bench/options.ts'
import { withFigures } from '../../dev/bench/page.ts'
import { parseTraffic } from '../../dev/bench/traffic.ts'

const CELL: Cell = {
  series: 'kube-ipvs/routes',
  services: 1_000,
  endpoints: 5,
  at: '2026-11-22T21:00:00.000Z',
  commit: { hash: '0123456789abcdef0123456789abcdef01234567', changed: false },
  version: 'kube-ipvs 0.1.0',
  node: 'v24.21.0',
  kernel: { kind: 'uml', release: '7.2.13' },
  machine: { processors: 2, model: 'AMD EPYC', processor: 1, hasPriority: true },
  load: { average: [0.1, 0.2, 0.3], othersPercent: 0.5, stealPercent: 0 },
  calibration: {
    systemCallUs: 2.9,
    pageFaultUs: 6.7,
    processStartUs: 1_471,
    wakeUpUs: 7.2,
    arithmeticUs: 1_780,
  },
  limits: { coldStartSeconds: 300, changeSeconds: 120, changesSeconds: 30, betweenChangesMs: 20, idleSeconds: 40 },
  changes: 100,
  measured: {
    coldStartMs: 812,
    coldStartCpuMs: 560,
    changes: 100,
    changeP50Ms: 1.41,
    changeP99Ms: 6.1,
    idleCpuPercent: 0.05,
    rssMiB: 69.2,
    rssAnonMiB: 31.2,
    rssFileMiB: 38,
    pssMiB: 68.1,
    peakRssMiB: 92.5,
  },
  failure: null,
}
const SLOW: Cell = {
  ...CELL,
  series: 'kube-proxy/ipvs',
  services: 10_000,
  version: 'kube-proxy Kubernetes v1.36.3',
  measured: {
    coldStartMs: { moreThan: 300_000 },
    coldStartCpuMs: null,
    changes: 0,
    changeP50Ms: null,
    changeP99Ms: null,
    idleCpuPercent: null,
    rssMiB: null,
    rssAnonMiB: null,
    rssFileMiB: null,
    pssMiB: null,
    peakRssMiB: { moreThan: 151.5 },
  },
}
const FAILED: Cell = {
  ...CELL,
  series: 'kube-ipvs/iptables',
  measured: null,
  failure: 'the program ended:\nno | memory\nmore',
}
const CELLS = [CELL, SLOW, FAILED]
const TRAFFIC: Cell = {
  ...CELL,
  series: 'traffic/iptables',
  services: 10_000,
  measured: {
    rulesBefore: 5_000,
    latencyP50Us: 1_234.5,
    latencyP99Us: 1_950,
    connectionsPerSecond: 609.3,
    changes: 20,
    changeP50Ms: 9.13,
    changeP99Ms: 16.75,
  },
}
const PAGE = `# Page

<!-- figures: written by npm run bench -- --experiment -->
<!-- end of figures -->
`

describe('the file of cells', () => {
  it('has a line for each cell, which reads back the same', () => {
    const text = formatCells(CELLS)
    assert.equal(text.split('\n').length, 4)
    assert.deepEqual(parseCells(text, 'f'), CELLS)
  })

  it('keeps one cell of a name, the newest, by size and series', () => {
    const again = { ...CELL, at: '2026-11-23T00:00:00.000Z' }
    const cells = [SLOW, FAILED, CELL, again].reduce<Cell[]>((all, cell) => withCell(all, cell), [])
    assert.deepEqual(cells, [again, FAILED, SLOW])
    assert.equal(cellOf(cells, CELL)?.at, again.at)
    assert.equal(cellOf(cells, { ...CELL, endpoints: 6 }), undefined)
  })

  const refused: readonly [line: string, message: RegExp][] = [
    ['{', /^Error: f:2 is not JSON$/],
    ['[]', /f:2 is not a cell/],
    [JSON.stringify({ ...CELL, series: 'kube-proxy/other' }), /f:2 is not a cell/],
    [JSON.stringify({ ...CELL, measured: undefined }), /f:2 is not a cell/],
  ]
  for (const [line, message] of refused)
    it(`refuses ${line.slice(0, 40)}`, () =>
      assert.throws(() => parseCells(`${formatCells([CELL])}${line}\n`, 'f'), message))
})

describe('changeFigure', () => {
  it('is the percentile of the changes', () => assert.equal(changeFigure({ timesMs: [3, 1, 2] }, 0.5), 2))
  it('is null without a change', () => assert.equal(changeFigure({ timesMs: [] }, 0.5), null))
  it('is the limit where the percentile is the change that did not finish', () => {
    const timed = { timesMs: [5, 6, 7], unfinishedMs: 1_000 }
    assert.equal(changeFigure(timed, 0.5), 6)
    assert.deepEqual(changeFigure(timed, 0.99), { moreThan: 1_000 })
    assert.deepEqual(changeFigure({ timesMs: [], unfinishedMs: 1_000 }, 0.5), { moreThan: 1_000 })
  })
})

describe('the table of cells', () => {
  const text = figuresOf('cost', CELLS)

  it('has a row for each cell', () =>
    assert.match(
      text,
      /^\| 1,000 \| kube-ipvs\/routes \| 0\.81 \| 0\.56 \| 1\.4 \| 6\.1 \| 100 \| 0\.05 \| 69 \| 93 \|$/m,
    ))

  it('shows the limit of what did not finish', () =>
    assert.match(text, /^\| 10,000 \| kube-proxy\/ipvs \| > 300 \| - \| - \| - \| 0 \| - \| - \| > 152 \|$/m))

  it('lists what failed, with the reason in one line, and what was not measured', () => {
    assert.match(text, /^\| 1,000 \| kube-ipvs\/iptables \| failed \|/m)
    assert.match(text, /^- kube-ipvs\/iptables at 1,000 failed: the program ended: no \\\| memory$/m)
    assert.match(
      text,
      /^Not measured: at 100 all; at 1,000 kube-ipvs\/addresses, kube-proxy\/ipvs, .*; at 5,000 all; at 10,000 kube-ipvs.*; at 50,000 all\.$/m,
    )
    assert.doesNotMatch(text, /at 10,000 [^;]*kube-proxy\/ipvs/)
  })

  it('says when, where and with what the cells were measured', () => {
    assert.match(
      text,
      /kube-ipvs 0\.1\.0, kube-proxy Kubernetes v1\.36\.3 with Node v24\.21\.0, commits 0123456789ab, kernel uml 7\.2\.13/,
    )
    assert.match(text, /a system call took 2\.90 to 2\.90 µs/)
    assert.match(text, /quiet enough/)
    const noisy = { ...CELL, calibration: CELL.calibration && { ...CELL.calibration, arithmeticUs: 2_600 } }
    assert.match(
      figuresOf('cost', [noisy, SLOW]),
      /too busy for exact figures\*\*: arithmetic took from 1780\.0 to 2600\.0/,
    )
  })

  it('says that nothing is there', () => assert.equal(figuresOf('cost', [TRAFFIC]), 'Nothing is measured yet.'))

  it('shows processor time below the step of the clock as less than that step', () => {
    const measured = CELL.measured && { ...CELL.measured, idleCpuPercent: 0 }
    assert.match(figuresOf('cost', [{ ...CELL, measured }]), /\| < 0\.03 \| 69 \|/)
    const { 'over-size-idle.svg': idle = '' } = plotsOf([{ ...CELL, measured }])
    assert.match(idle, /less than 0\.025 at 1,000/)
  })
})

describe('the table of traffic', () => {
  it('has a row for each of its cells, and no others', () => {
    const text = figuresOf('traffic', [...CELLS, TRAFFIC])
    assert.match(text, /^\| 10,000 \| traffic\/iptables \| 5,000 \| 1,235 \| 1,950 \| 609 \| 9\.1 \| 16\.8 \|$/m)
    assert.match(text, /2000 requests, 8000 connections by 8 clients, 100 changes/)
    assert.doesNotMatch(text, /kube-ipvs\/routes/)
  })
})

describe('the charts of cells', () => {
  const plots = plotsOf(CELLS)

  it('are one for each figure', () =>
    assert.deepEqual(Object.keys(plots), [
      'over-size-cold-start.svg',
      'over-size-change-p50.svg',
      'over-size-change-p99.svg',
      'over-size-idle.svg',
      'over-size-memory.svg',
    ]))

  it('draw a cell that did not finish as a bound at its limit', () => {
    const { 'over-size-cold-start.svg': cold = '' } = plots
    assert.match(cold, /<title>kube-proxy, ipvs mode: more than 300 at 10,000<\/title>/)
    assert.match(cold, /Open marker: more \(or less\) than this limit\. No value: kube-ipvs\/iptables at 1,000\./)
  })

  it('name the cells without a value', () => {
    const { 'over-size-memory.svg': memory = '' } = plots
    assert.match(memory, /No value: kube-proxy\/ipvs at 10,000, kube-ipvs\/iptables at 1,000\./)
  })
})

describe('the charts of traffic', () => {
  it('show median and 99th percentile of a mode in one colour, and no mode that was not measured', () => {
    const { 'latency.svg': latency = '', ...others } = plotsOf([TRAFFIC])
    assert.deepEqual(Object.keys(others), ['connections.svg', 'change.svg'])
    assert.match(latency, /<title>iptables mode, median: 1,234\.5 at 10,000<\/title>/)
    assert.match(latency, /<polyline class="line look1 dashed"/)
    assert.doesNotMatch(latency, /ipvs mode, median|look0 dashed/)
  })
})

describe('withFigures', () => {
  it('replaces the figures of an earlier run and nothing else', () => {
    const page = withFigures(PAGE.replace('<!-- end', 'old\n\n<!-- end'), 'new')
    assert.equal(page, PAGE.replace('\n<!-- end', '\n\nnew\n\n<!-- end'))
    assert.equal(withFigures(page, 'new'), page)
  })

  it('refuses a page without a place for them', () => assert.throws(() => withFigures('# Page', ''), /has no lines/))
})

describe('parseTraffic', () => {
  it('reads one latency a line and the total', () =>
    assert.deepEqual(parseTraffic('89.5\n120.0\ntotal=250.5\n'), { latenciesUs: [89.5, 120], totalUs: 250.5 }))

  it('refuses an output without a total', () => assert.throws(() => parseTraffic('89.5\n'), /no total: 89\.5/))
})

describe('writeExperiment', () => {
  it('writes the charts and the figures of the page from the cells with as many endpoints', () => {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-experiment-test-'))
    try {
      writeFileSync(join(folder, 'over-size.md'), PAGE)
      const paths = writeExperiment([...CELLS, { ...CELL, endpoints: 7, services: 77 }], folder, 5)
      assert.deepEqual(paths.map((path) => path.slice(folder.length + 1)).toSorted(), readdirSync(folder).toSorted())
      const page = readFileSync(join(folder, 'over-size.md'), 'utf8')
      assert.match(page, /\| 10,000 \| kube-proxy\/ipvs \|/)
      assert.doesNotMatch(page, /\| 77 \|/)
      assert.match(readFileSync(join(folder, 'over-size-memory.svg'), 'utf8'), /kube-ipvs, routes: 69\.2 at 1,000/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe('runExperiment', () => {
  it('boots nothing when the file has every cell that is wanted, and draws them', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-experiment-test-'))
    try {
      writeFileSync(join(folder, 'experiment.jsonl'), formatCells([CELL]))
      const options = parseBenchOptions(
        `--experiment --services 1000 --series kube-ipvs/routes --directory ${folder}`.split(' '),
      )
      assert.ok('experiment' in options && options.experiment !== undefined)
      const paths = await runExperiment({
        options,
        plan: options.experiment,
        // A boot of this kernel would fail.
        choice: { kind: 'uml', kernel: '/nonexistent', memoryFolder: folder, memoryMiB: 1 },
        folder,
        bundled: folder,
        kubeProxy: undefined,
        signal: new AbortController().signal,
      })
      assert.equal(paths.length, 5)
      assert.equal(readFileSync(join(folder, 'experiment.jsonl'), 'utf8'), formatCells([CELL]))
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe('names and values of kube-proxy in nftables mode', () => {
  it('are those that kube-proxy 1.36.3 wrote', () => {
    assert.equal(nftServiceChain('bench-0/service-0:http'), 'service-CHHDSWVX-bench-0/service-0/tcp/http')
    assert.equal(nftServiceChain('bench-0/service-1:http'), 'service-5WIGSP5Z-bench-0/service-1/tcp/http')
    assert.equal(nftEndpoint(Buffer.from([10, 128, 0, 3, 0x1f, 0x90, 0, 0])), '10.128.0.3:8080')
  })

  it('are found wherever they stand in a message', () =>
    assert.deepEqual(namesIn('\u0001\0service-a/service-1\0\0x\0service-b', 'service-'), [
      'service-a/service-1',
      'service-b',
    ]))
})
