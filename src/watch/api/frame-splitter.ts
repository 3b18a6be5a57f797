/**
 * Cuts a stream of bytes into frames, wherever the network cuts it: four bytes of length, big-endian, in front of each
 * (apimachinery/pkg/util/framer).
 * What could break: a frame that came in one piece is handed out where it lies and not copied; one in several pieces is joined
 * once, so that a long one costs its length and not its length squared.
 */
import { CodedError } from '../../values/errors.ts'

const HEADER_BYTES = 4

/** Called with the buffer that holds a frame, and where it starts and ends in there. */
export type TakeFrame = (bytes: Buffer, start: number, end: number) => void

export class FrameSplitter {
  readonly #maxFrameBytes: number
  #pieces: Buffer[] = []
  #bytes = 0
  /** Bytes of the frame that is in pieces, once its header is there. */
  #frameBytes = 0

  /** A frame of more than `maxFrameBytes` is an error: no object that an API server accepts is that large. */
  constructor(maxFrameBytes: number) {
    this.#maxFrameBytes = maxFrameBytes
  }

  /** Hands out the frames that end in this chunk. */
  push(chunk: Buffer, take: TakeFrame): void {
    let bytes = chunk
    let at = 0
    if (this.#bytes >= HEADER_BYTES) {
      at = Math.min(this.#frameBytes - this.#bytes, chunk.length)
      this.#keep(chunk.subarray(0, at))
      if (this.#bytes < this.#frameBytes) return
      const frame = this.#join()
      take(frame, HEADER_BYTES, frame.length)
    } else if (this.#bytes > 0) {
      // Cut within a header, which is rare.
      this.#keep(chunk)
      bytes = this.#join()
    }
    while (bytes.length - at >= HEADER_BYTES) {
      this.#frameBytes = HEADER_BYTES + this.#check(bytes.readUInt32BE(at))
      if (this.#frameBytes > bytes.length - at) break
      take(bytes, at + HEADER_BYTES, at + this.#frameBytes)
      at += this.#frameBytes
    }
    if (at < bytes.length) this.#keep(bytes.subarray(at))
  }

  /** Bytes of a frame whose end has not come. */
  get pendingBytes(): number {
    return this.#bytes
  }

  #keep(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#bytes += piece.length
  }

  #join(): Buffer {
    const bytes = Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#bytes = 0
    return bytes
  }

  #check(bytes: number): number {
    if (bytes > this.#maxFrameBytes)
      throw new CodedError(
        'api-line-too-long',
        `the API server sent an event of more than ${this.#maxFrameBytes} bytes`,
      )
    return bytes
  }
}
