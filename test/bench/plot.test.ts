/** Line charts: well-formed SVG, scales, labels. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Chart, type Line, linearTicks, logTicks, svgOf } from '../../dev/bench/plot.ts'

const CHART: Chart = {
  title: 'Latency <of> "requests" & more',
  xLabel: 'Services present',
  yLabel: 'latency (µs)',
  xScale: 'linear',
  yScale: 'linear',
  note: '',
  lines: [
    {
      name: 'ipvs mode',
      look: 0,
      dashed: false,
      bounds: [],
      points: [
        [1, 100],
        [5_000, 110],
        [10_000, 100],
      ],
    },
    {
      name: 'iptables mode',
      look: 1,
      dashed: true,
      bounds: [],
      points: [
        [1, 100],
        [10_000, 400],
      ],
    },
  ],
}

const LINE: Line = { name: 'a', look: 0, dashed: false, points: [], bounds: [] }

/** Names of the elements in their order; fails when tags do not match or an attribute is not quoted. */
function elementsOf(svg: string): string[] {
  const open: string[] = []
  const names: string[] = []
  let rest = svg
  for (const [tag, closing, name = '', attributes = '', empty] of svg.matchAll(/<(\/?)([a-z]+)([^<>]*?)(\/?)>/gi)) {
    rest = rest.replace(tag, '')
    if (closing === '/') {
      assert.equal(open.pop(), name, tag)
      continue
    }
    assert.match(attributes, /^(\s[a-zA-Z0-9-]+="[^"<>&]*")*$/, tag)
    names.push(name)
    if (empty === '') open.push(name)
  }
  assert.deepEqual(open, [])
  assert.doesNotMatch(rest, /[<>]|&(?!(amp|lt|gt|quot);)/)
  return names
}

/** The points of the polyline that is drawn last, as numbers. */
function lastLine(svg: string): number[][] {
  const text = [...svg.matchAll(/points="([^"]*)"/g)].at(-1)?.[1] ?? ''
  return text.split(' ').map((point) => point.split(',').map(Number))
}

describe('svgOf', () => {
  const svg = svgOf(CHART)

  it('is well-formed, with the characters of texts escaped', () => {
    const elements = elementsOf(svg)
    assert.equal(elements[0], 'svg')
    assert.match(svg, /<title>Latency &lt;of&gt; &quot;requests&quot; &amp; more<\/title>/)
    assert.doesNotMatch(svg, /NaN|undefined|Infinity/)
  })

  it('labels both axes, every measured size, every tick and every line', () => {
    const texts = [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map(([, text]) => text)
    for (const text of ['Services present', 'latency (µs)', 'ipvs mode', 'iptables mode'])
      assert.ok(texts.includes(text), text)
    for (const text of ['1', '5,000', '10,000', '0', '100', '200', '300', '400']) assert.ok(texts.includes(text), text)
  })

  it('draws a marker for each point and in the legend, of another shape for each colour', () => {
    assert.equal(svg.match(/<path class="marker look0"/g)?.length, 3 + 1)
    assert.equal(svg.match(/<path class="marker look1"/g)?.length, 2 + 1)
    assert.match(svg, /<title>ipvs mode: 110 at 5,000<\/title>/)
  })

  it('has colours for light and for dark themes', () => assert.match(svg, /@media \(prefers-color-scheme: dark\)/))

  it('places points on the linear scale between 0 and the last tick', () => {
    const [[, first = 0] = [], [right, second] = []] = lastLine(svg)
    assert.equal(second, 96)
    assert.equal(right, 692)
    assert.equal(first, 376 - 280 / 4)
  })

  it('places points on the logarithmic scale by their power of ten', () => {
    const points = [1, 10, 100].map((value) => [value, value] as const)
    const log = svgOf({ ...CHART, yScale: 'log', lines: [{ ...LINE, points }] })
    assert.deepEqual(
      lastLine(log).map(([, y]) => y),
      [376, 236, 96],
    )
  })

  it('places sizes on the logarithmic scale by their power of ten', () => {
    const points = [100, 1_000, 10_000].map((value) => [value, 1] as const)
    const log = svgOf({ ...CHART, xScale: 'log', yScale: 'log', lines: [{ ...LINE, points }] })
    assert.deepEqual(
      lastLine(log).map(([x]) => x),
      [112, 388, 664],
    )
  })

  it('places the only size of a logarithmic scale in the middle', () => {
    const log = svgOf({ ...CHART, xScale: 'log', lines: [{ ...LINE, points: [[100, 1]] }] })
    assert.equal(lastLine(log)[0]?.[0], 388)
  })

  it('has another marker and another colour for each of six lines', () => {
    const looks = [0, 1, 2, 3, 4, 5]
    const all = svgOf({ ...CHART, lines: looks.map((look) => ({ ...LINE, name: `${look}`, look, points: [[1, 10]] })) })
    elementsOf(all)
    const shapes = looks.map((look) => new RegExp(`class="marker look${look}" [^>]*d="([^"]*)"`).exec(all)?.[1])
    assert.equal(new Set(shapes).size, 6)
    for (const look of looks) assert.equal(all.match(new RegExp(`\\.look${look} \\{ stroke: #`, 'g'))?.length, 2)
    // Three rows of the legend: the axis begins below them.
    assert.match(all, /d="M84,118V376H692"/)
  })

  it('draws a bound as an open marker with an arrow to the side of the value, and includes it in the scale', () => {
    const bounds = [
      { x: 10_000, y: 300, side: 'above' },
      { x: 5_000, y: 0.1, side: 'below' },
    ] as const
    const open = svgOf({
      ...CHART,
      yScale: 'log',
      lines: [{ ...LINE, look: 3, points: [[1, 10]], bounds }],
    })
    elementsOf(open)
    assert.match(open, /<title>a: more than 300 at 10,000<\/title>/)
    assert.match(open, /<title>a: less than 0\.1 at 5,000<\/title>/)
    assert.equal(open.match(/class="marker look3 open"/g)?.length, 2)
    for (const text of ['0.1', '1,000', '10,000']) assert.ok(open.includes(`>${text}<`), text)
    assert.match(open, /<title>a: more[^>]*<\/title><path class="line look3" [^>]*d="M0,-7V-17/)
    assert.match(open, /<title>a: less[^>]*<\/title><path class="line look3" [^>]*d="M0,7V17/)
  })

  it('writes millions short, so that they fit beside the axis', () => {
    const large = svgOf({ ...CHART, yScale: 'log', lines: [{ ...LINE, points: [[1, 120_000]] }] })
    const texts = [...large.matchAll(/text-anchor="end">([^<]*)</g)].map(([, text]) => text)
    assert.deepEqual(texts, ['100,000', '1 M'])
  })

  it('writes a long note in lines below the chart', () => {
    const noted = svgOf({ ...CHART, note: 'kube-proxy/ipvs at 10,000, '.repeat(8).trim() })
    elementsOf(noted)
    assert.match(noted, /viewBox="0 0 720 500"/)
  })

  it('is complete without any point', () => {
    for (const yScale of ['linear', 'log'] as const) {
      const empty = svgOf({ ...CHART, yScale, lines: [] })
      elementsOf(empty)
      assert.doesNotMatch(empty, /NaN|undefined|Infinity/)
    }
  })
})

describe('ticks', () => {
  const linear: readonly [most: number, expected: number[]][] = [
    [0, [0, 0.2, 0.4, 0.6, 0.8, 1]],
    [0.3, [0, 0.1, 0.2, 0.3]],
    [5, [0, 1, 2, 3, 4, 5]],
    [7, [0, 2, 4, 6, 8]],
    [6_347, [0, 2_000, 4_000, 6_000, 8_000]],
  ]
  for (const [most, expected] of linear)
    it(`of a linear axis to ${most} are ${expected.join(' ')}`, () => assert.deepEqual(linearTicks(most), expected))

  const log: readonly [values: number[], expected: number[]][] = [
    [[], [1, 10]],
    [[10], [10, 100]],
    [
      [0.5, 250],
      [0.1, 1, 10, 100, 1_000],
    ],
  ]
  for (const [values, expected] of log)
    it(`of a logarithmic axis of [${values.join(' ')}] are ${expected.join(' ')}`, () =>
      assert.deepEqual(logTicks(values), expected))
})
