import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FrameSplitter } from '../../../src/watch/api/frame-splitter.ts'

const FRAMES = ['ADDED', '', 'x', '\0\0\0\x02', 'größe ☃'.repeat(30)]
const STREAM = Buffer.concat(FRAMES.map(frame))

function frame(text: string): Buffer {
  const header = Buffer.alloc(4)
  header.writeUInt32BE(Buffer.byteLength(text))
  return Buffer.concat([header, Buffer.from(text)])
}

function split(chunks: readonly Buffer[], maxFrameBytes = 1000): string[] {
  const splitter = new FrameSplitter(maxFrameBytes)
  const frames: string[] = []
  for (const chunk of chunks)
    splitter.push(chunk, (bytes, start, end) => frames.push(bytes.toString('utf8', start, end)))
  return frames
}

describe('FrameSplitter', () => {
  it('gives the same frames wherever the stream is cut once', () => {
    for (let cut = 0; cut <= STREAM.length; cut++)
      assert.deepEqual(split([STREAM.subarray(0, cut), STREAM.subarray(cut)]), FRAMES, `cut at ${cut}`)
  })

  it('gives the same frames byte by byte', () => {
    assert.deepEqual(split([...STREAM].map((byte) => Buffer.from([byte]))), FRAMES)
  })

  it('gives the same frames however the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(STREAM.length)), (cuts) => {
        const sorted = [0, ...cuts.toSorted((a, b) => a - b), STREAM.length]
        const chunks = sorted.map((end, index) => STREAM.subarray(sorted[index - 1] ?? 0, end))
        assert.deepEqual(split(chunks), FRAMES)
      }),
    )
  })

  it('hands out a frame where it lies', () => {
    const splitter = new FrameSplitter(1000)
    const chunk = Buffer.concat([frame('a'), frame('bc')])
    const taken: unknown[] = []
    splitter.push(chunk, (bytes, start, end) => taken.push([bytes === chunk, start, end]))
    assert.deepEqual(taken, [
      [true, 4, 5],
      [true, 9, 11],
    ])
  })

  it('knows what is left of a frame without an end', () => {
    const splitter = new FrameSplitter(1000)
    const take = (): void => {}
    splitter.push(Buffer.concat([frame('abc'), Buffer.from([0, 0])]), take)
    assert.equal(splitter.pendingBytes, 2)
    splitter.push(Buffer.from([0, 2, 65]), take)
    assert.equal(splitter.pendingBytes, 5)
    splitter.push(Buffer.from([66]), take)
    assert.equal(splitter.pendingBytes, 0)
  })

  it('refuses a frame that is too long as soon as its length is there', () => {
    const rows = [[frame('12345')], [Buffer.from([0, 0, 0, 5])], [Buffer.from([0xff]), Buffer.from([0xff, 0xff, 0xff])]]
    for (const chunks of rows) assert.throws(() => split(chunks, 4), { code: 'api-line-too-long' })
    assert.deepEqual(split([frame('1234'), frame('1234')], 4), ['1234', '1234'])
  })
})
