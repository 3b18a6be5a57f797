/**
 * The two encodings of the API: protobuf, which is small and quick to read, and JSON, which every server speaks.
 * What could break: what was asked for is a wish. The answer's content type alone says how it is read.
 */
import { ApiError } from './api-error.ts'
import { FrameSplitter } from './frame-splitter.ts'
import { LineSplitter } from './line-splitter.ts'
import { textWithoutManagedFields } from './managed-fields.ts'
import { ProtobufReader } from './protobuf.ts'
import { decodeObject, decodeWatchEvent } from './protobuf-objects.ts'

export const JSON_TYPE = 'application/json'
export const PROTOBUF_TYPE = 'application/vnd.kubernetes.protobuf'

/** Longest event of a watch: etcd takes 1.5 MiB of protobuf, and JSON is a few times that. */
const MAX_EVENT_BYTES = 16 * 1024 * 1024

/** A watch's bytes to its events. */
export interface EventStream {
  /** Events (metav1 WatchEvent, as its JSON parses) that end in this chunk. The bytes may be used up. */
  push(chunk: Buffer): readonly unknown[]
  /** Bytes of an event whose end has not come. */
  readonly pendingBytes: number
}

export interface Encoding {
  /** A whole body, as its JSON parses. `what` names it in the error `api-bad-response`. */
  parse(body: Buffer, what: string): unknown
  openStream(): EventStream
}

/** The encoding of an answer, by its Content-Type. What is not protobuf is read as JSON, whatever it says. */
export function encodingOf(contentType: string): Encoding {
  return mediaTypeOf(contentType) === PROTOBUF_TYPE ? PROTOBUF : JSON_ENCODING
}

/**
 * The Accept header for `clientConnection.contentType` and `acceptContentTypes`. As in client-go the second counts if it is
 * given, and there is always something to fall back to; what we cannot read we do not ask for.
 */
export function acceptHeader(contentType: string, acceptContentTypes: string): string {
  const types = (acceptContentTypes || contentType).split(',').map((type) => type.trim())
  const readable = types.filter((type) => [JSON_TYPE, PROTOBUF_TYPE].includes(mediaTypeOf(type)))
  if (!readable.some((type) => mediaTypeOf(type) === JSON_TYPE)) readable.push(JSON_TYPE)
  return readable.join(',')
}

function mediaTypeOf(contentType: string): string {
  return (contentType.split(';', 1)[0] ?? '').trim().toLowerCase()
}

const JSON_ENCODING: Encoding = {
  parse: (body, what) => parseJson(body.toString('utf8'), what),
  openStream() {
    const splitter = new LineSplitter(MAX_EVENT_BYTES)
    return {
      push: (chunk) => splitter.push(chunk).map((line) => parseJson(textWithoutManagedFields(line), 'watch event')),
      get pendingBytes() {
        return splitter.pendingBytes
      },
    }
  },
}

const PROTOBUF: Encoding = {
  parse: (body) => decodeObject(new ProtobufReader(), body, 0, body.length),
  openStream() {
    const splitter = new FrameSplitter(MAX_EVENT_BYTES)
    const reader = new ProtobufReader()
    return {
      push(chunk) {
        const events: unknown[] = []
        splitter.push(chunk, (bytes, start, end) => events.push(decodeWatchEvent(reader, bytes, start, end)))
        return events
      },
      get pendingBytes() {
        return splitter.pendingBytes
      },
    }
  },
}

function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ApiError('api-bad-response', `what came for a ${what} is not JSON`, { cause: error })
  }
}
