/** A terminal that is a pair of fake streams, with the signals of a fake process. */
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'

export const ENTER = '\x1b[?1049h'
export const LEAVE = '\x1b[?1049l'

class FakeOutput extends EventEmitter {
  readonly isTTY = true
  columns = 80
  rows = 24
  written = ''
  write(text: string): boolean {
    this.written += text
    return true
  }
  /** The lines of the last drawing, without colours. */
  get screen(): readonly string[] {
    const last = this.written.slice(this.written.lastIndexOf('\x1b[H') + 3)
    return last
      .split('\x1b')
      .map((part, index) => (index === 0 ? part : part.replace(/^\[[0-9;?]*[A-Za-z]/, '')))
      .join('')
      .split('\r\n')
  }
  resize(columns: number, rows: number): void {
    Object.assign(this, { columns, rows })
    this.emit('resize')
  }
}

class FakeInput extends EventEmitter {
  readonly raw: boolean[] = []
  isPaused = true
  setRawMode = (isRaw: boolean): unknown => this.raw.push(isRaw)
  setEncoding(): void {}
  resume(): void {
    this.isPaused = false
  }
  pause(): void {
    this.isPaused = true
  }
  type(text: string): void {
    this.emit('data', text)
  }
}

export class FakeTerminal {
  readonly input = new FakeInput()
  readonly output = new FakeOutput()
  readonly process = new EventEmitter()

  /** Asserts that the terminal is as it was before, and that nothing listens any more. */
  isLeft(): void {
    const { input, output, process } = this
    assert.equal(output.written.split(ENTER).length, output.written.split(LEAVE).length)
    assert.ok(output.written.endsWith(LEAVE))
    assert.ok(output.written.includes('\x1b[?25h'), 'the cursor is shown')
    assert.equal(input.raw.at(-1), false)
    assert.equal(input.isPaused, true)
    assert.equal(output.listenerCount('resize'), 0)
    assert.deepEqual([input.listenerCount('data'), input.listenerCount('end')], [0, 0])
    for (const event of process.eventNames()) assert.equal(process.listenerCount(event), 0)
  }
}
