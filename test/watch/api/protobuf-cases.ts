/**
 * Objects through both encodings, and objects that Kubernetes itself encoded. protobuf-golden.jsonl
 * was written with Kubernetes' own encoders (k8s.io/api and apimachinery 0.36.0,
 * serializer/protobuf): each line has `json`, `event` for a frame of a watch, and the bytes as
 * `base64`.
 */
import { readFileSync } from 'node:fs'
import { encodeEnvelope, encodeEventFrame, encodeMessage } from '../../../dev/api-server/protobuf.ts'
import { API_VERSION, type Json, KIND_NAME } from '../../../dev/api-server/store.ts'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { decodeObject, decodeWatchEvent } from '../../../src/watch/api/encodings.ts'
import { ProtobufReader } from '../../../src/watch/api/protobuf.ts'
import { parse } from '../objects/parse.ts'

export interface Golden {
  readonly json: Json & { readonly kind: string; readonly apiVersion: string }
  readonly event?: string
  readonly bytes: Buffer
}

export function readGolden(): readonly Golden[] {
  const text = readFileSync(new URL('protobuf-golden.jsonl', import.meta.url), 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line) => {
      const { base64, ...rest } = JSON.parse(line)
      return { ...rest, bytes: Buffer.from(base64, 'base64') }
    })
}

/** Decodes an object, or a watch event behind the length of its frame. */
export function decode(bytes: Buffer, isFrame = false): unknown {
  const reader = new ProtobufReader()
  return isFrame ? decodeWatchEvent(reader, bytes, 4, bytes.length) : decodeObject(reader, bytes, 0, bytes.length)
}

export function encode({ json, event }: Omit<Golden, 'bytes'>): Buffer {
  const envelope = encodeEnvelope(json.apiVersion, json.kind, encodeMessage(json.kind, json))
  return event === undefined ? envelope : encodeEventFrame(event, envelope)
}

/** Encodes an object in protobuf, decodes it and parses the result. */
export function parseAsProtobuf(kind: ObjectKind, json: Json): ReturnType<typeof parse> {
  return parse(kind, decode(encode({ json: { ...json, kind: KIND_NAME[kind], apiVersion: API_VERSION[kind] } })))
}
