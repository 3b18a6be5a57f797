/**
 * Cuts a stream of bytes into lines, wherever the network cuts it.
 * What could break: a partial line is kept as the pieces it came in and joined once, so that a long line costs its length
 * and not its length squared.
 */
import { CodedError } from '../../values/errors.ts'

const NEWLINE = 10

export class LineSplitter {
  readonly #maxLineBytes: number
  #pieces: Buffer[] = []
  #bytes = 0

  /** A line of more than `maxLineBytes` is an error: no object that an API server accepts is that large. */
  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes
  }

  /** Complete lines that end in this chunk, without their newline; blank ones are left out. */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = []
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const line = this.#join(chunk.subarray(start, end))
      if (line.length > 0) lines.push(line)
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
    return lines
  }

  /** Bytes of a line whose end has not come. */
  get pendingBytes(): number {
    return this.#bytes
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length
    this.#check(this.#bytes)
    this.#pieces.push(piece)
  }

  #join(last: Buffer): Buffer {
    this.#check(this.#bytes + last.length)
    if (this.#bytes === 0) return last
    const line = Buffer.concat([...this.#pieces, last])
    this.#pieces = []
    this.#bytes = 0
    return line
  }

  #check(bytes: number): void {
    if (bytes > this.#maxLineBytes)
      throw new CodedError('api-line-too-long', `the API server sent a line of more than ${this.#maxLineBytes} bytes`)
  }
}
