/**
 * The two encodings in which the API server answers, as a real one does: JSON with a line for each
 * event, protobuf with a frame for each. Each version of an object is encoded once: encoding it for
 * each watch would make the server the slow part of a measurement.
 */
import { encodeEnvelope, encodeEventFrame, encodeList, encodeMessage, frameOf } from './protobuf.ts'
import type { Sendable } from './store.ts'

export interface Wire {
  readonly contentType: string
  readonly streamContentType: string
  /** One object as a whole body. */
  body(object: Sendable): Buffer
  /** Items of a kind (`Service`) as a whole body. */
  list(apiVersion: string, kind: string, metadata: object, items: readonly Sendable[]): Buffer
  event(type: string, object: Sendable): Buffer
  /** A line of JSON, valid or not, in the form of this stream. */
  line(line: string): Buffer
}

export const JSON_WIRE: Wire = {
  contentType: 'application/json',
  streamContentType: 'application/json',
  body: ({ json }) => Buffer.from(json),
  list(apiVersion, kind, metadata, items) {
    const head = JSON.stringify({ kind: `${kind}List`, apiVersion, metadata })
    return Buffer.from(`${head.slice(0, -1)},"items":[${items.map(({ json }) => json).join(',')}]}\n`)
  },
  event: (type, { json }) => Buffer.from(`{"type":"${type}","object":${json}}\n`),
  line: (line) => Buffer.from(`${line}\n`),
}

const encoded = new WeakMap<Sendable, Buffer>()

/** The message of an object, without its envelope; encoded once. */
export function protobufOf(object: Sendable): Buffer {
  const known = encoded.get(object)
  if (known !== undefined) return known
  const bytes = encodeMessage(object.kind, JSON.parse(object.json))
  encoded.set(object, bytes)
  return bytes
}

const envelopeOf = (object: Sendable): Buffer => encodeEnvelope(object.apiVersion, object.kind, protobufOf(object))

export const PROTOBUF_WIRE: Wire = {
  contentType: 'application/vnd.kubernetes.protobuf',
  streamContentType: 'application/vnd.kubernetes.protobuf;stream=watch',
  body: envelopeOf,
  list: (apiVersion, kind, metadata, items) =>
    encodeEnvelope(apiVersion, `${kind}List`, encodeList(metadata, items.map(protobufOf))),
  event: (type, object) => encodeEventFrame(type, envelopeOf(object)),
  line: (line) => frameOf(Buffer.from(line)),
}

/** The encoding for an Accept header: the first that it names; undefined when it names none. */
export function wireFor(accept: string, speaksProtobuf: boolean): Wire | undefined {
  for (const type of accept.split(',').map((text) => text.split(';', 1)[0]?.trim())) {
    if (type === PROTOBUF_WIRE.contentType && speaksProtobuf) return PROTOBUF_WIRE
    if (type === JSON_WIRE.contentType || type === '*/*') return JSON_WIRE
  }
  return undefined
}
