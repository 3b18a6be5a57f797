/**
 * Both ways from an object to what the rest of the program gets of it, and objects that Kubernetes itself encoded.
 * What could break: protobuf-golden.jsonl was written with Kubernetes' own encoders (k8s.io/api and apimachinery 0.36.0,
 * serializer/protobuf): a line is `json`, `event` if it is a frame of a watch, and `base64` of the bytes.
 */
import { readFileSync } from 'node:fs'
import { encodeEnvelope, encodeEventFrame, encodeMessage } from '../../../dev/api-server/protobuf.ts'
import { API_VERSION, type Json, KIND_NAME } from '../../../dev/api-server/store.ts'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { decodeObject, decodeWatchEvent } from '../../../src/watch/api/protobuf-objects.ts'
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

/** What these bytes are: an object, or a watch event with its frame's length in front. */
export function decode(bytes: Buffer, isFrame = false): unknown {
  const reader = new ProtobufReader()
  return isFrame ? decodeWatchEvent(reader, bytes, 4, bytes.length) : decodeObject(reader, bytes, 0, bytes.length)
}

export function encode({ json, event }: Omit<Golden, 'bytes'>): Buffer {
  const envelope = encodeEnvelope(json.apiVersion, json.kind, encodeMessage(json.kind, json))
  return event === undefined ? envelope : encodeEventFrame(event, envelope)
}

/** An object of a kind through protobuf and its parser. */
export function parseAsProtobuf(kind: ObjectKind, json: Json): ReturnType<typeof parse> {
  return parse(kind, decode(encode({ json: { ...json, kind: KIND_NAME[kind], apiVersion: API_VERSION[kind] } })))
}
