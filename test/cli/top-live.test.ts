/** `top` in a terminal that is a pair of fake streams: keys, sizes, and how the terminal is left, however it ends. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { liveTop, type LiveSource } from '../../src/cli/top-live.ts'
import type { TopTable } from '../../src/cli/top-text.ts'
import { rowsOf } from '../../src/traffic/rows.ts'
import type { Rates } from '../../src/traffic/sample.ts'
import { until } from '../support/deadline.ts'
import { ENTER, FakeTerminal } from '../support/fake-terminal.ts'
import { place, rates, realServer } from '../traffic/samples.ts'

const RATES = rates({
  '10.96.0.1:80/tcp': place([4, 40, 50, 4000, 50_000], { '10.244.0.1:8080': realServer([4, 40, 50, 4000, 50_000]) }),
  '10.96.0.2:80/tcp': place([8, 1, 1, 1, 1], { '10.244.0.9:8080': realServer([8, 1, 1, 1, 1]) }),
})

class FakeSource implements LiveSource {
  readonly unnamed: string[] = []
  reads = 0
  fails: Error | undefined
  async read({ signal }: { readonly signal: AbortSignal }): Promise<Rates | undefined> {
    signal.throwIfAborted()
    if (this.fails !== undefined) throw this.fails
    return this.reads++ === 0 ? undefined : RATES
  }
  table(of: Rates, by: TopTable['by'], sort: TopTable['sort'], text: string): TopTable {
    const filter = text === '' ? {} : { text }
    return { rates: of, rows: rowsOf(of, by, () => undefined, filter), by, sort }
  }
}

function start(environment: Readonly<Record<string, string>> = {}) {
  const [terminal, source] = [new FakeTerminal(), new FakeSource()]
  const { input, output, process } = terminal
  const request = { sort: 'connections', by: 'service', filter: {}, intervalMs: 20 } as const
  const ended = liveTop({ source, request, input, output, process, environment })
  const shows = (what: RegExp) => until(`the screen shows ${what}`, () => output.screen.some((line) => what.test(line)))
  return { input, output, process, source, ended, shows, isLeft: () => terminal.isLeft() }
}

describe('top in a terminal', () => {
  it('shows rates from the second read on, follows keys, and leaves the terminal on q', async () => {
    const { input, output, source, ended, shows, isLeft } = start()
    assert.ok(output.written.startsWith(ENTER))
    assert.match(output.screen[0] ?? '', /^reading the counters/)
    await shows(/^10\.96\.0\.2:80\/tcp/)
    const first = (): string => output.screen.find((line) => /^10\.|^\[/.test(line)) ?? ''
    assert.match(first(), /^10\.96\.0\.2/)
    input.type('b')
    assert.match(first(), /^10\.96\.0\.1/, 'a key is drawn at once')
    input.type('g')
    assert.match(first(), /10\.244\.0\.1:8080/)
    input.type('/244.0.9\r')
    assert.match(first(), /10\.244\.0\.9:8080/)
    assert.ok(output.screen.includes('filter: 244.0.9'))
    input.type('h')
    assert.match(output.screen[0] ?? '', /^keys of kube-ipvs top/)
    input.type('x')
    const { reads } = source
    await until('it reads on', () => source.reads > reads + 2)
    input.type('q')
    assert.equal(await ended, 0)
    isLeft()
  })

  it('follows the size of the terminal, down to 20 columns and one line', async () => {
    const { input, output, ended, shows, isLeft } = start()
    await shows(/CONN\/S\*/)
    for (const [columns, rows] of [
      [20, 10],
      [1, 1],
      [300, 3],
    ] as const) {
      output.resize(columns, rows)
      assert.ok(output.screen.length <= rows)
      for (const line of output.screen) assert.ok(line.length <= columns, line)
    }
    input.type('\x03')
    assert.equal(await ended, 0)
    isLeft()
  })

  it('ends with the codes of signals', async () => {
    for (const [signal, code] of [
      ['SIGTERM', 143],
      ['SIGINT', 130],
      ['SIGHUP', 129],
    ] as const) {
      const { process, ended, isLeft } = start()
      process.emit(signal)
      assert.equal(await ended, code)
      isLeft()
    }
  })

  it('leaves the terminal when the kernel cannot be read, when the terminal goes, and when the process exits', async () => {
    const failing = start()
    failing.source.fails = new Error('EPERM')
    await assert.rejects(failing.ended, /EPERM/)
    failing.isLeft()
    for (const event of ['end', 'close']) {
      const { input, ended, isLeft } = start()
      input.emit(event)
      assert.equal(await ended, 0)
      isLeft()
    }
    const broken = start()
    broken.output.emit('error', new Error('EIO'))
    assert.equal(await broken.ended, 0)
    broken.isLeft()
    const exiting = start()
    exiting.process.emit('exit')
    exiting.isLeft()
    exiting.process.emit('SIGTERM')
    exiting.input.type('q')
    exiting.output.emit('error', new Error('EIO'))
    assert.equal(await exiting.ended, 1)
  })

  it('enters the terminal again after it was stopped, and draws no colours with NO_COLOR', async () => {
    const { input, output, process, ended, shows } = start({ NO_COLOR: '1' })
    await shows(/CONN/)
    process.emit('SIGCONT')
    assert.equal(output.written.split(ENTER).length, 3)
    assert.deepEqual(input.raw, [true, true])
    assert.ok(output.written.split('\x1b').every((part) => !/^\[[0-9;]*m/.test(part)))
    input.type('q')
    assert.equal(await ended, 0)
  })
})
