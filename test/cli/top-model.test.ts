import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keysOf } from '../../src/cli/keys.ts'
import { press, type TopChoices, topChoices } from '../../src/cli/top-model.ts'

const EXTENT = { rows: 30, height: 10 }
const START = topChoices('connections', 'service')

/** The choices after these bytes of a terminal. */
function after(bytes: string, from: TopChoices = START, extent = EXTENT): TopChoices | 'quit' {
  let choices: TopChoices | 'quit' = from
  for (const key of keysOf(bytes)) if (choices !== 'quit') choices = press(choices, key, extent)
  return choices
}

test('keysOf names what a terminal sends', () => {
  const names = keysOf('a\x1b[A\x1b[6~\x1bOH\r\x7f\x03\x1b').map((key) => (key.name === 'text' ? key.text : key.name))
  assert.deepEqual(names, ['a', 'up', 'page-down', 'home', 'enter', 'backspace', 'interrupt', 'escape'])
  assert.deepEqual(keysOf('\x1b[1;5C\x00'), [{ name: 'unknown' }, { name: 'unknown' }])
  assert.deepEqual(keysOf('é😀'), [
    { name: 'text', text: 'é' },
    { name: 'text', text: '😀' },
  ])
})

test('press sorts, groups, quits and shows help', () => {
  for (const [letter, sort] of [
    ['c', 'connections'],
    ['p', 'packets'],
    ['b', 'bytes'],
    ['a', 'active'],
    ['n', 'name'],
  ] as const)
    assert.deepEqual(after(letter, { ...START, scroll: 5 }), { ...START, sort })
  assert.deepEqual(after('g'), { ...START, by: 'real-server' })
  assert.deepEqual(after('gg'), START)
  assert.equal(after('q'), 'quit')
  assert.equal(after('\x03'), 'quit')
  assert.deepEqual(after('h'), { ...START, help: true })
  assert.deepEqual(after('hq'), START, 'any key leaves the help')
  assert.equal(after('h\x03'), 'quit')
  assert.deepEqual(after('z'), START)
})

test('press takes a text after a slash, in which letters are no commands', () => {
  assert.deepEqual(after('/qx'), { ...START, typed: 'qx' })
  assert.deepEqual(after('/qx\x7fb\r'), { ...START, text: 'qb' })
  assert.deepEqual(after('/q\x1b', { ...START, text: 'old' }), START)
  assert.deepEqual(after('\x1b', { ...START, text: 'old' }), START)
  assert.equal(after('/q\x03'), 'quit')
  const long = after(`/${'x'.repeat(300)}`)
  assert.equal(long === 'quit' ? '' : long.typed?.length, 100)
})

test('press scrolls within the rows', () => {
  const scrolled = (bytes: string, scroll = 0): number => {
    const choices = after(bytes, { ...START, scroll })
    return choices === 'quit' ? -1 : choices.scroll
  }
  assert.equal(scrolled('\x1b[B\x1b[B\x1b[A'), 1)
  assert.equal(scrolled('\x1b[A'), 0)
  assert.equal(scrolled('\x1b[6~'), 10)
  assert.equal(scrolled('\x1b[F'), 20)
  assert.equal(scrolled('\x1b[F\x1b[B'), 20)
  assert.equal(scrolled('\x1b[5~', 500), 10, 'from where the rows end')
  assert.equal(scrolled('\x1b[H', 7), 0)
})
