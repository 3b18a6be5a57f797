/**
 * Objects and watch events of the API in protobuf, to what their JSON would parse to, less the fields that nobody reads.
 * What could break: an object says itself what it is; the order of fields on the wire must not matter.
 * apimachinery/pkg/runtime/serializer/protobuf: the bytes `k8s\0`, then a runtime Unknown with the object in it.
 */
import { ApiError } from './api-error.ts'
import { describe, type JsonObject } from './findings.ts'
import type { ProtobufReader } from './protobuf.ts'
import type { Message } from './protobuf-message.ts'
import { BOOKMARK, MESSAGES, TYPE_META } from './protobuf-schemas.ts'

/** `k8s` and a zero. */
const MAGIC = 0x6b_38_73_00
const MAGIC_BYTES = 4

/** Tags of fields that have a length: number × 8 + 2. */
const UNKNOWN_TYPE_META = 10
const UNKNOWN_RAW = 18
const UNKNOWN_CONTENT_ENCODING = 26
const EVENT_TYPE = 10
const EVENT_OBJECT = 18
const RAW_EXTENSION_RAW = 10

/**
 * The object that lies from `start` to `end`: one, a list of them, a Status. `as` is read instead of what it says that it is.
 * Anything else is `api-bad-response`.
 */
export function decodeObject(
  reader: ProtobufReader,
  bytes: Buffer,
  start: number,
  end: number,
  as?: Message,
): JsonObject {
  if (end - start < MAGIC_BYTES || bytes.readUInt32BE(start) !== MAGIC)
    throw new ApiError('api-bad-response', 'what came as protobuf is not an object of the API')
  reader.bytes = bytes
  reader.at = start + MAGIC_BYTES
  let typeMeta: JsonObject = {}
  let rawStart = -1
  let rawEnd = end
  while (reader.at < end) {
    const tag = reader.tag(end)
    if (tag === UNKNOWN_TYPE_META) typeMeta = reader.message(TYPE_META, reader.enter(end))
    else if (tag === UNKNOWN_RAW) {
      rawEnd = reader.enter(end)
      rawStart = reader.at
      reader.at = rawEnd
    } else if (tag === UNKNOWN_CONTENT_ENCODING) {
      if (reader.enter(end) > reader.at) throw new ApiError('api-bad-response', 'an object in an encoding of its own')
    } else reader.skip(tag, end)
  }
  if (rawStart < 0) throw new ApiError('api-bad-response', 'an object without content')
  reader.at = rawStart
  return reader.message(as ?? messageOf(typeMeta), rawEnd)
}

/** The metav1 WatchEvent that lies from `start` to `end`. */
export function decodeWatchEvent(reader: ProtobufReader, bytes: Buffer, start: number, end: number): JsonObject {
  reader.bytes = bytes
  reader.at = start
  let type = ''
  let objectStart = end
  let objectEnd = end
  while (reader.at < end) {
    const tag = reader.tag(end)
    if (tag === EVENT_TYPE) type = reader.word(reader.enter(end))
    else if (tag === EVENT_OBJECT) {
      const extensionEnd = reader.enter(end)
      while (reader.at < extensionEnd) {
        const inner = reader.tag(extensionEnd)
        if (inner === RAW_EXTENSION_RAW) {
          objectEnd = reader.enter(extensionEnd)
          objectStart = reader.at
          reader.at = objectEnd
        } else reader.skip(inner, extensionEnd)
      }
    } else reader.skip(tag, end)
  }
  return {
    type,
    object: decodeObject(reader, bytes, objectStart, objectEnd, type === 'BOOKMARK' ? BOOKMARK : undefined),
  }
}

function messageOf({ apiVersion, kind }: JsonObject): Message {
  const known = typeof kind === 'string' ? MESSAGES.get(kind) : undefined
  if (known === undefined || known.apiVersion !== apiVersion)
    throw new ApiError('api-bad-response', `an object of kind ${describe(kind)} of ${describe(apiVersion)}`)
  return known.message
}
