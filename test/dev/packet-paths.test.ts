/** The drawings in docs/packet-paths are those that the tables of steps give; UPDATE_GOLDEN=1 rewrites them. */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { type Drawing, drawingSvg, headFits, wrap } from '../../dev/docs/flow-drawing.ts'
import { PACKET_PATHS } from '../../dev/docs/packet-paths.ts'

const FOLDER = new URL('../../docs/packet-paths/', import.meta.url)

test('the files in docs/packet-paths are the drawings of PACKET_PATHS', () => {
  const names = Object.keys(PACKET_PATHS).map((name) => `${name}.svg`)
  for (const [name, drawing] of Object.entries(PACKET_PATHS)) {
    const file = new URL(`${name}.svg`, FOLDER)
    const svg = drawingSvg(drawing)
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, svg)
    assert.equal(readFileSync(file, 'utf8'), svg, name)
  }
  assert.deepEqual(readdirSync(FOLDER).sort(), names.sort())
})

test('docs/packet-paths.md shows each drawing', () => {
  const text = readFileSync(new URL('../../docs/packet-paths.md', import.meta.url), 'utf8')
  for (const name of Object.keys(PACKET_PATHS)) assert.ok(text.includes(`](packet-paths/${name}.svg)`), name)
})

const DRAWING: Drawing = {
  title: 'Packets < & >',
  columns: [
    {
      title: 'There',
      steps: [
        { kind: 'end', title: 'Client', paragraphs: ['Asks `a "name"`, then waits.'] },
        { kind: 'filter', title: 'Refusal', place: 'filter INPUT', paragraphs: [{ ends: 'DROP', text: 'all of it' }] },
      ],
    },
  ],
}

test('drawingSvg closes every element, escapes texts, and puts the second step below the first', () => {
  const svg = drawingSvg(DRAWING)
  const open: string[] = []
  for (const [, closing, name = '', empty] of svg.matchAll(/<(\/?)([a-z]+)[^<>]*?(\/?)>/g)) {
    if (closing === '/') assert.equal(open.pop(), name)
    else if (empty !== '/') open.push(name)
  }
  assert.deepEqual(open, [])
  assert.match(svg, /Packets &lt; &amp; &gt;/)
  assert.match(svg, /<tspan class="code">a <\/tspan><tspan class="code">&quot;name&quot;<\/tspan>, then/)
  const [first = 0, second = 0] = Array.from(svg.matchAll(/<rect class="card" x="\d+" y="(\d+)"/g), ([, y]) =>
    Number(y),
  )
  assert.ok(second > first)
})

test('the title and the place of each step fit into one line', () => {
  const steps = Object.values(PACKET_PATHS).flatMap(({ columns }) => columns.flatMap((column) => column.steps))
  assert.ok(steps.length > 20)
  for (const step of steps) assert.ok(headFits(step), step.title)
  assert.equal(
    headFits({ kind: 'nat', title: 'The source becomes the Service', place: 'POSTROUTING', paragraphs: [] }),
    false,
  )
})

test('wrap keeps a name and the sign after it in one line', () => {
  const lines = wrap('one two `three`, four', 60).map((line) => line.map(({ text }) => text).join(''))
  assert.deepEqual(lines, ['one two ', 'three, ', 'four'])
})
