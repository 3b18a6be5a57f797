/**
 * Objects and watch events of the API in protobuf, to what their JSON would parse to, less the fields that nobody reads.
 * What could break: an object says itself what it is; the order of fields on the wire must not matter.
 * apimachinery/pkg/runtime/serializer/protobuf: the bytes `k8s\\0`, then a runtime Unknown with the object in it.
 */
import { ApiError } from './api-error.ts'
import { describe, isObject, type JsonObject } from '../objects/findings.ts'
import type { ProtobufReader } from './protobuf.ts'
import { type Message, Span } from './protobuf-message.ts'
import { BOOKMARK, MESSAGES, UNKNOWN, WATCH_EVENT } from './protobuf-schemas.ts'

/** `k8s` and a zero. */
const MAGIC = 0x6b_38_73_00
const MAGIC_BYTES = 4

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
  const { typeMeta, raw, contentEncoding } = reader.read(UNKNOWN, bytes, start + MAGIC_BYTES, end)
  if (contentEncoding !== undefined && contentEncoding !== '')
    throw new ApiError('api-bad-response', 'an object in an encoding of its own')
  if (!(raw instanceof Span)) throw new ApiError('api-bad-response', 'an object without content')
  return reader.read(as ?? messageOf(typeMeta), bytes, raw.start, raw.end)
}

/** The metav1 WatchEvent that lies from `start` to `end`. */
export function decodeWatchEvent(reader: ProtobufReader, bytes: Buffer, start: number, end: number): JsonObject {
  const { type, object } = reader.read(WATCH_EVENT, bytes, start, end)
  const raw = isObject(object) ? object['raw'] : undefined
  if (!(raw instanceof Span)) throw new ApiError('api-bad-response', 'a watch event without an object')
  const as = type === 'BOOKMARK' ? BOOKMARK : undefined
  return { type, object: decodeObject(reader, bytes, raw.start, raw.end, as) }
}

function messageOf(typeMeta: unknown): Message {
  const { apiVersion, kind } = isObject(typeMeta) ? typeMeta : {}
  const known = typeof kind === 'string' ? MESSAGES.get(kind) : undefined
  if (known === undefined || known.apiVersion !== apiVersion)
    throw new ApiError('api-bad-response', `an object of kind ${describe(kind)} of ${describe(apiVersion)}`)
  return known.message
}
