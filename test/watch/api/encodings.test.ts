import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { acceptHeader, encodingOf } from '../../../src/watch/api/encodings.ts'
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
    it(`is ${expected} for ${contentType} and ${acceptContentTypes || 'nothing'}`, () =>
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
    it(`reads ${contentType || 'what says nothing'} as ${body}`, () => {
      const other = body === 'JSON' ? bodies.protobuf : bodies.JSON
      const encoding = encodingOf(contentType)
      assert.ok(encoding.parse(Buffer.from(bodies[body]), 'list'))
      assert.throws(() => encoding.parse(Buffer.from(other), 'list'), { code: 'api-bad-response' })
    })
})
