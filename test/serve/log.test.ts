import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { createRepeatFilter } from '../../src/serve/log-repeats.ts'
import { type LogSink, createLogSink } from '../../src/serve/log-sink.ts'
import { openLog } from '../../src/serve/log.ts'

/** A sink that stores its lines. */
function memorySink(droppedBefore = 0): LogSink & { readonly lines: string[] } {
  const lines: string[] = []
  let dropped = droppedBefore
  return {
    lines,
    write: (line) => void lines.push(line),
    takeDropped: () => {
      const count = dropped
      dropped = 0
      return count
    },
    flush: () => undefined,
  }
}

const messages = (lines: readonly string[]): string[] => lines.map((line) => JSON.parse(line).msg)

test('openLog writes before the call returns', async () => {
  const sink = memorySink()
  const log = await openLog({ format: 'json', verbosity: 2, sink, now: () => 1 })
  log.info('a', { n: 1 })
  const { caller, ...first } = JSON.parse(sink.lines[0] ?? '')
  assert.deepEqual(first, { ts: 1, msg: 'a', v: 0, n: 1 })
  assert.match(caller, /^serve\/log\.test\.ts:\d+$/)
  log.error('b')
  assert.deepEqual(Object.keys(JSON.parse(sink.lines[1] ?? '')), ['ts', 'caller', 'msg'])
})

test('openLog prints the lines that -v and --vmodule enable', async () => {
  const sink = memorySink()
  const log = await openLog({ format: 'json', verbosity: 2, sink })
  assert.deepEqual([log.v(0), log.v(2), log.v(3)], [true, true, false])
  log.verbose(2, 'two')
  log.verbose(3, 'three')
  log.print(1, 'FLAG: --v="2"')
  log.print(3, 'no')
  log.setVerbosity({ verbosity: 0, vmodule: [{ filePattern: 'log.test', verbosity: 3 }] })
  log.verbose(3, 'three')
  log.verbose(4, 'four')
  assert.deepEqual([log.v(3), log.v(4)], [true, false])
  log.setVerbosity({ verbosity: 0, vmodule: [{ filePattern: 'other', verbosity: 3 }] })
  log.verbose(1, 'one')
  assert.deepEqual(
    sink.lines.map((line) => [JSON.parse(line).msg, JSON.parse(line).v]),
    [
      ['two', 2],
      ['FLAG: --v="2"', 1],
      ['three', 3],
    ],
  )
})

test('openLog removes secrets from every line', async () => {
  const sink = memorySink()
  const log = await openLog({ format: 'text', verbosity: 0, sink })
  log.error('x', { headers: { authorization: 'Bearer c2VjcmV0LXRva2Vu' } })
  assert.doesNotMatch(sink.lines[0] ?? '', /c2Vj/)
})

test('openLog suppresses repeated lines and logs a summary', async () => {
  const sink = memorySink()
  let now = 0
  const log = await openLog({
    format: 'json',
    verbosity: 0,
    sink,
    now: () => now,
    repeats: { perWindow: 2, windowMs: 1_000, capacity: 8 },
  })
  for (let count = 0; count < 5; count++) log.warn('again', { count })
  // The same message from another place counts separately.
  log.warn('again')
  assert.deepEqual(messages(sink.lines), ['again', 'again', 'again'])
  now = 1_000
  log.info('other')
  assert.deepEqual(messages(sink.lines.slice(3)), ['Suppressed repeated line', 'other'])
  const summary = JSON.parse(sink.lines[3] ?? '')
  assert.ok(!('severity' in summary), 'it is information: the lines that passed have their own level')
  assert.deepEqual([summary.line, summary.times, summary.withinMs], ['again', 3, 1_000])

  for (let count = 0; count < 3; count++) log.info('last')
  log.close()
  assert.deepEqual(messages(sink.lines.slice(5)), ['last', 'last', 'Suppressed repeated line'])
})

test('openLog logs how many lines the sink dropped', async () => {
  const sink = memorySink(7)
  const log = await openLog({ format: 'json', verbosity: 0, sink })
  log.info('a')
  log.info('b')
  assert.equal(JSON.parse(sink.lines[0] ?? '').lines, 7)
  assert.equal(sink.lines.length, 3)
})

test('createRepeatFilter drops the oldest kind when it is full', () => {
  const filter = createRepeatFilter({ perWindow: 1, windowMs: 100, capacity: 2 })
  assert.ok(filter.admit('a', 0))
  assert.ok(!filter.admit('a', 1))
  assert.ok(filter.admit('b', 2))
  assert.deepEqual(filter.due(3), [])
  assert.ok(filter.admit('c', 4))
  assert.deepEqual(filter.due(5), [{ key: 'a', suppressed: 1, windowMs: 100 }])
  assert.ok(filter.admit('a', 6))
  assert.ok(!filter.admit('c', 103))
  assert.ok(filter.admit('c', 104))
})

/** A descriptor that accepts `room` bytes and then fails with EAGAIN. */
function pipe(room: number): { room: number; text: string; write(descriptor: number, bytes: Uint8Array): number } {
  return {
    room,
    text: '',
    write(_, bytes) {
      const part = bytes.subarray(0, this.room)
      if (part.length === 0) throw Object.assign(new Error('full'), { code: 'EAGAIN' })
      this.text += Buffer.from(part).toString()
      this.room -= part.length
      return part.length
    },
  }
}

test('createLogSink waits for a full pipe, then drops lines, but never a part of one', () => {
  const target = pipe(6)
  let sleptMs = 0
  const sink = createLogSink(2, {
    stallMs: 10,
    write: (descriptor, bytes) => target.write(descriptor, bytes),
    sleep: (milliseconds) => {
      sleptMs += milliseconds
    },
  })
  sink.write('one')
  sink.write('two')
  assert.deepEqual([target.text, sleptMs], ['one\ntw', 10])
  sink.write('three')
  assert.equal(sleptMs, 10, 'one stall causes one wait')
  target.room = 100
  sink.write('four')
  assert.equal(target.text, 'one\ntwo\nfour\n')
  assert.deepEqual([sink.takeDropped(), sink.takeDropped()], [1, 0])
})

test('createLogSink continues a line when the pipe drains during the wait', () => {
  const target = pipe(2)
  const sink = createLogSink(2, {
    write: (descriptor, bytes) => target.write(descriptor, bytes),
    sleep: () => {
      target.room = 2
    },
  })
  sink.write('slow reader')
  assert.deepEqual([target.text, sink.takeDropped()], ['slow reader\n', 0])
})

test('createLogSink ignores a closed pipe', () => {
  const sink = createLogSink(2, {
    write: () => {
      throw Object.assign(new Error('gone'), { code: 'EPIPE' })
    },
  })
  sink.write('a')
  assert.equal(sink.takeDropped(), 0)
})

const CHILD = `
import { openLog } from ${JSON.stringify(new URL('../../src/serve/log.ts', import.meta.url).href)}
process.stderr // makes a pipe non-blocking, as in the daemon
const log = await openLog({ format: 'json', verbosity: 0, repeats: { perWindow: 1e9, windowMs: 1, capacity: 2 } })
for (let n = 0; n < 5000; n++) log.info('line', { n, pad: 'x'.repeat(100) })
log.error('last')
process.exit(3)
`

test('openLog loses no line at process.exit', () => {
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', CHILD], { encoding: 'utf8', timeout: 20_000 })
  assert.equal(child.status, 3)
  const lines = child.stderr.trimEnd().split('\n')
  assert.equal(lines.length, 5_001)
  assert.equal(JSON.parse(lines[4_999] ?? '').n, 4_999)
  assert.equal(JSON.parse(lines.at(-1) ?? '').msg, 'last')
})

test('openLog does not wait for a reader that never reads', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD], {
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: 20_000,
  })
  assert.deepEqual(await once(child, 'exit'), [3, null])
  child.stderr.destroy()
})
