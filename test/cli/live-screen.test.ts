import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canDraw } from '../../src/cli/key-screen.ts'
import { runLive, type ScrolledText, scrolledText } from '../../src/cli/live-screen.ts'
import { until } from '../support/deadline.ts'
import { ENTER, FakeTerminal } from '../support/fake-terminal.ts'

/** Ten lines on a terminal of 20 columns and 4 rows. */
function begin(view: Partial<ScrolledText> = {}, periodMs = 60_000) {
  const terminal = new FakeTerminal()
  const { input, output, process } = terminal
  output.resize(20, 4)
  let refreshed = 0
  const all: ScrolledText = {
    refresh: async () => void refreshed++,
    lines: (columns) => Array.from({ length: 10 }, (_, index) => `line ${index} of ${columns}`),
    ...view,
  }
  const ended = runLive(scrolledText(all, periodMs), { input, output, process })
  const drawn = () => until('a drawing', () => output.screen.length === 4)
  return { terminal, input, output, process, ended, drawn, refreshed: () => refreshed }
}

test('runLive draws what fits, scrolls, follows the size, and leaves the terminal as it was', async () => {
  const { terminal, input, output, ended, drawn } = begin()
  await drawn()
  assert.deepEqual(output.screen, ['line 0 of 20', 'line 1 of 20', 'line 2 of 20', 'lines 1-3 of 10'])
  input.type('\x1b[Bj')
  assert.equal(output.screen[0], 'line 2 of 20')
  input.type('G')
  assert.deepEqual(output.screen, ['line 7 of 20', 'line 8 of 20', 'line 9 of 20', 'lines 8-10 of 10'])
  input.type('\x1b[5~')
  assert.equal(output.screen[0], 'line 4 of 20')
  input.type('g\x1b[A')
  assert.equal(output.screen[0], 'line 0 of 20')
  input.type(' ')
  assert.equal(output.screen[0], 'line 3 of 20')
  output.resize(7, 12)
  assert.deepEqual([output.screen.length, output.screen[9]], [10, 'line 9 of 7'])
  output.resize(7, 1)
  assert.deepEqual(output.screen, ['line 0 of 7'])
  input.type('x')
  input.type('q')
  assert.equal(await ended, 0)
  assert.ok(output.written.startsWith(ENTER))
  terminal.isLeft()
})

test('runLive reads again and again until Ctrl-C or a signal', async () => {
  for (const [end, code] of [
    [({ input }: FakeTerminal) => input.type('\x03'), 0],
    [({ process }: FakeTerminal) => process.emit('SIGTERM'), 143],
  ] as const) {
    const { terminal, ended, refreshed } = begin({}, 1)
    await until('three readings', () => refreshed() >= 3)
    end(terminal)
    assert.equal(await ended, code)
    terminal.isLeft()
  }
})

test('runLive draws nothing before something was read', async () => {
  const { terminal, input, output, ended } = begin({ refresh: () => new Promise(() => undefined) })
  output.resize(10, 3)
  input.type('j')
  assert.ok(!output.written.includes('line'))
  // A key ends the screen also while something that is read does not answer.
  input.type('q')
  assert.equal(await ended, 0)
  terminal.isLeft()
})

test('runLive leaves the terminal when reading fails and when the terminal is gone', async () => {
  const failed = begin({ refresh: () => Promise.reject(new Error('no kernel')) })
  await assert.rejects(failed.ended, /no kernel/)
  failed.terminal.isLeft()

  const gone = begin()
  await gone.drawn()
  gone.output.emit('error', new Error('EIO'))
  assert.equal(await gone.ended, 0)
})

test('canDraw needs a terminal that is not dumb', () => {
  assert.equal(canDraw({ isTTY: true }, { TERM: 'xterm' }), true)
  assert.equal(canDraw({ isTTY: false }, { TERM: 'xterm' }), false)
  assert.equal(canDraw({ isTTY: true }, { TERM: 'dumb' }), false)
  assert.equal(canDraw({ isTTY: true }, {}), false)
})
