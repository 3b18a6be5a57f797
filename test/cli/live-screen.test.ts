import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { canDraw, keysOf, type LiveView, runLive } from '../../src/cli/live-screen.ts'
import { until } from '../support/deadline.ts'

/** A terminal that remembers what is written to it. */
class Terminal extends EventEmitter {
  readonly isTTY = true
  columns = 20
  rows = 4
  written = ''
  readonly modes: boolean[] = []
  isPaused = true
  write(text: string): void {
    this.written += text
  }
  setRawMode(raw: boolean): void {
    this.modes.push(raw)
  }
  resume(): void {
    this.isPaused = false
  }
  pause(): void {
    this.isPaused = true
  }
  /** The rows of the last drawing. */
  get shown(): string[] {
    const last = this.written.split('\x1b[H').at(-1) ?? ''
    return (
      last
        .split('\x1b[J')[0]
        ?.split('\r\n')
        .map((line) => line.replaceAll('\x1b[K', '')) ?? []
    )
  }
}

const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l'

function begin(view: Partial<LiveView>, periodMs = 60_000) {
  const input = new Terminal()
  const output = new Terminal()
  const abort = new AbortController()
  let refreshed = 0
  const all: LiveView = {
    refresh: async () => void refreshed++,
    lines: ({ columns }) => Array.from({ length: 10 }, (_, index) => `line ${index} of ${columns}`),
    ...view,
  }
  const ended = runLive(all, { periodMs, input, output, signal: abort.signal })
  return { input, output, abort, ended, refreshed: () => refreshed }
}

test('runLive draws what fits, scrolls, follows the size, and leaves the terminal as it was', async () => {
  const { input, output, ended } = begin({})
  await until('a drawing', () => output.shown.length === 4)
  assert.deepEqual(output.shown, ['line 0 of 20', 'line 1 of 20', 'line 2 of 20', 'lines 1-3 of 10'])
  assert.deepEqual([input.modes, input.isPaused], [[true], false])
  input.emit('data', Buffer.from('\x1b[Bj'))
  assert.deepEqual(output.shown[0], 'line 2 of 20')
  input.emit('data', 'G')
  assert.deepEqual(output.shown, ['line 7 of 20', 'line 8 of 20', 'line 9 of 20', 'lines 8-10 of 10'])
  input.emit('data', '\x1b[5~g\x1b[A')
  assert.deepEqual(output.shown[0], 'line 0 of 20')
  output.rows = 12
  output.columns = 7
  output.emit('resize')
  assert.deepEqual([output.shown.length, output.shown[9]], [10, 'line 9 of 7'])
  output.rows = 1
  output.emit('resize')
  assert.deepEqual(output.shown, ['line 0 of 7'])
  input.emit('data', 'q')
  await ended
  assert.ok(output.written.startsWith('\x1b[?1049h') && output.written.endsWith(LEAVE))
  assert.deepEqual([input.modes, input.isPaused], [[true, false], true])
  assert.deepEqual(
    [input.listenerCount('data'), output.listenerCount('resize'), output.listenerCount('error')],
    [0, 0, 0],
  )
})

test('runLive refreshes again and again, and passes other keys to the view', async () => {
  const keys: string[] = []
  const view = { key: (key: string) => keys.push(key) > 0 }
  const { input, output, ended, refreshed } = begin(view, 1)
  await until('three drawings', () => refreshed() >= 3)
  input.emit('data', 'sx')
  assert.deepEqual(keys, ['s', 'x'])
  input.emit('data', '\x03')
  await ended
  assert.ok(output.written.endsWith(LEAVE))
})

test('runLive restores the terminal when it is aborted, when reading fails and when the terminal is gone', async () => {
  const aborted = begin({})
  await until('a drawing', () => aborted.output.shown.length === 4)
  aborted.abort.abort()
  await aborted.ended
  assert.ok(aborted.output.written.endsWith(LEAVE))

  const failed = begin({ refresh: () => Promise.reject(new Error('no kernel')) })
  await assert.rejects(failed.ended, /no kernel/)
  assert.ok(failed.output.written.endsWith(LEAVE))
  assert.deepEqual(failed.input.modes, [true, false])

  // Something that is read does not answer.
  const hung = begin({ refresh: () => new Promise(() => undefined) })
  hung.input.emit('data', 'q')
  await hung.ended
  assert.ok(hung.output.written.endsWith(LEAVE))

  const gone = begin({})
  await until('a drawing', () => gone.output.shown.length === 4)
  gone.output.emit('error', new Error('EIO'))
  await gone.ended
})

test('keysOf separates keys that arrive together', () => {
  assert.deepEqual(keysOf('a\x1b[B\x1b[5~\x1bOAq'), ['a', '\x1b[B', '\x1b[5~', '\x1bOA', 'q'])
  assert.deepEqual(keysOf(''), [])
})

test('canDraw needs a terminal that is not dumb', () => {
  assert.equal(canDraw({ isTTY: true }, { TERM: 'xterm' }), true)
  assert.equal(canDraw({ isTTY: false }, { TERM: 'xterm' }), false)
  assert.equal(canDraw({ isTTY: true }, { TERM: 'dumb' }), false)
  assert.equal(canDraw({ isTTY: true }, {}), false)
})
