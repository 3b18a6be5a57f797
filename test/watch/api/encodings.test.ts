import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  acceptHeader,
  encodingOf,
  FrameSplitter,
  LineSplitter,
  textWithoutManagedFields,
} from '../../../src/watch/api/encodings.ts'
import { encode, readGolden } from './protobuf-cases.ts'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const BOTH = `${PROTOBUF},application/json`

describe('acceptHeader', () => {
  for (const [contentType, acceptContentTypes, expected] of [
    [PROTOBUF, '', BOTH],
    ['application/json', '', 'application/json'],
    ['application/JSON; charset=utf-8', '', 'application/JSON; charset=utf-8'],
    ['application/yaml', '', 'application/json'],
    ['application/cbor', '', 'application/json'],
    [PROTOBUF, 'application/json', 'application/json'],
    ['application/json', PROTOBUF, BOTH],
    ['application/json', `application/json;q=0.5, ${PROTOBUF}`, `application/json;q=0.5,${PROTOBUF}`],
    [PROTOBUF, `application/yaml,*/*,${PROTOBUF}`, BOTH],
    [PROTOBUF, ',', 'application/json'],
  ] as const)
    it(`is ${expected} for ${contentType} and ${acceptContentTypes || 'no other'}`, () =>
      assert.equal(acceptHeader(contentType, acceptContentTypes), expected))
})

describe('encodingOf', () => {
  const [golden] = readGolden()
  assert.ok(golden)
  const bodies = { protobuf: encode({ json: golden.json }), JSON: Buffer.from(JSON.stringify(golden.json)) }

  for (const [contentType, body] of [
    [PROTOBUF, 'protobuf'],
    [`${PROTOBUF};stream=watch`, 'protobuf'],
    ['Application/VND.Kubernetes.Protobuf ; stream=watch', 'protobuf'],
    ['application/json', 'JSON'],
    ['application/json;stream=watch', 'JSON'],
    ['text/plain', 'JSON'],
    ['', 'JSON'],
  ] as const)
    it(`reads ${contentType || 'a body without a type'} as ${body}`, () => {
      const other = body === 'JSON' ? bodies.protobuf : bodies.JSON
      const encoding = encodingOf(contentType)
      assert.ok(encoding.parse(Buffer.from(bodies[body]), 'list'))
      assert.throws(() => encoding.parse(Buffer.from(other), 'list'), { code: 'api-bad-response' })
    })
})

describe('LineSplitter', () => {
  const STREAM = Buffer.from('{"type":"ADDED","name":"größe ☃"}\n\n{"type":"DELETED"}\n{"a":1}\n')
  const LINES = ['{"type":"ADDED","name":"größe ☃"}', '{"type":"DELETED"}', '{"a":1}']

  function split(chunks: readonly Buffer[], maxLineBytes = 1000): string[] {
    const splitter = new LineSplitter(maxLineBytes)
    return chunks.flatMap((chunk) => splitter.push(chunk)).map(String)
  }

  it('gives the same lines wherever the stream is cut once', () => {
    for (let cut = 0; cut <= STREAM.length; cut++)
      assert.deepEqual(split([STREAM.subarray(0, cut), STREAM.subarray(cut)]), LINES, `cut at ${cut}`)
  })

  it('gives the same lines byte by byte', () => {
    assert.deepEqual(split([...STREAM].map((byte) => Buffer.from([byte]))), LINES)
  })

  it('gives the same lines however the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(STREAM.length)), (cuts) => {
        const sorted = [0, ...cuts.toSorted((a, b) => a - b), STREAM.length]
        const chunks = sorted.map((end, index) => STREAM.subarray(sorted[index - 1] ?? 0, end))
        assert.deepEqual(split(chunks), LINES)
      }),
    )
  })

  it('counts the bytes of a line without an end', () => {
    const splitter = new LineSplitter(1000)
    assert.deepEqual(splitter.push(Buffer.from('abc\nde')).map(String), ['abc'])
    assert.equal(splitter.pendingBytes, 2)
    assert.deepEqual(splitter.push(Buffer.from('f\n')).map(String), ['def'])
    assert.equal(splitter.pendingBytes, 0)
  })

  it('refuses a line that is too long, whole or in several chunks', () => {
    const rows = [['12345\n'], ['12', '345\n'], ['123456'], ['123', '456']]
    for (const chunks of rows)
      assert.throws(
        () =>
          split(
            chunks.map((text) => Buffer.from(text)),
            4,
          ),
        { code: 'api-line-too-long' },
        chunks.join('|'),
      )
    assert.deepEqual(split([Buffer.from('1234\n12'), Buffer.from('34\n')], 4), ['1234', '1234'])
  })
})

describe('FrameSplitter', () => {
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

  it('hands out a frame of one chunk without a copy', () => {
    const splitter = new FrameSplitter(1000)
    const chunk = Buffer.concat([frame('a'), frame('bc')])
    const taken: unknown[] = []
    splitter.push(chunk, (bytes, start, end) => taken.push([bytes === chunk, start, end]))
    assert.deepEqual(taken, [
      [true, 4, 5],
      [true, 9, 11],
    ])
  })

  it('counts the bytes of a frame without an end', () => {
    const splitter = new FrameSplitter(1000)
    const take = (): void => {}
    splitter.push(Buffer.concat([frame('abc'), Buffer.from([0, 0])]), take)
    assert.equal(splitter.pendingBytes, 2)
    splitter.push(Buffer.from([0, 2, 65]), take)
    assert.equal(splitter.pendingBytes, 5)
    splitter.push(Buffer.from([66]), take)
    assert.equal(splitter.pendingBytes, 0)
  })

  it('refuses a frame that is too long as soon as its length has arrived', () => {
    const rows = [[frame('12345')], [Buffer.from([0, 0, 0, 5])], [Buffer.from([0xff]), Buffer.from([0xff, 0xff, 0xff])]]
    for (const chunks of rows) assert.throws(() => split(chunks, 4), { code: 'api-line-too-long' })
    assert.deepEqual(split([frame('1234'), frame('1234')], 4), ['1234', '1234'])
  })
})

const parsed = (object: unknown): unknown => JSON.parse(textWithoutManagedFields(Buffer.from(JSON.stringify(object))))

/** Texts that resemble the end of managedFields. */
const confusing = fc.oneof(
  fc.constantFrom(']},"spec":', ']},\\"spec\\":', '"]},', ',"managedFields":[', ']},"addressType":"IPv4"', '\\', '"'),
  fc.string(),
)
const managedFields = fc.array(
  fc.record(
    { manager: confusing, fieldsV1: fc.dictionary(confusing, fc.dictionary(confusing, fc.constant({}))) },
    { noNullPrototype: true },
  ),
)

describe('textWithoutManagedFields', () => {
  it('keeps every other field of a Service and of a slice', () => {
    fc.assert(
      fc.property(managedFields, confusing, confusing, fc.boolean(), (fields, name, value, isSlice) => {
        const rest = isSlice
          ? { addressType: 'IPv4', endpoints: [{ note: value }] }
          : { spec: { note: value, deep: [{ x: 1 }] } }
        const metadata = { name, annotations: { note: value } }
        const event = {
          type: 'ADDED',
          object: { kind: 'X', metadata: { ...metadata, managedFields: fields }, ...rest },
        }
        assert.deepEqual(parsed(event), { type: 'ADDED', object: { kind: 'X', metadata, ...rest } })
      }),
      { numRuns: 500 },
    )
  })

  it('keeps an object whole that has no managedFields, or another order of fields', () => {
    const objects = [
      { metadata: { name: 'a' }, spec: {} },
      { spec: {}, metadata: { name: 'a', managedFields: [{ fieldsV1: { 'f:spec': {} } }] } },
      { metadata: { managedFields: [{}], name: 'a' }, status: {} },
    ]
    for (const object of objects) assert.deepEqual(parsed(object), object)
  })
})
