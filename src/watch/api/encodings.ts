/**
 * The two encodings of the API, protobuf (apimachinery/pkg/runtime/serializer/protobuf) and JSON:
 * whole bodies, and streams of watch events. Both give the form that the JSON has. The Content-Type
 * of the answer alone decides how it is read, not the Accept header of the request.
 */
import { CodedError } from '../../values/errors.ts'
import { ApiError } from './api-error.ts'
import type { Message } from './protobuf-message.ts'
import { ProtobufReader, Span } from './protobuf.ts'
import { BOOKMARK, MESSAGES, UNKNOWN, WATCH_EVENT } from './protobuf-objects.ts'
import { describe, isObject, type JsonObject } from '../objects/findings.ts'

export const JSON_TYPE = 'application/json'
export const PROTOBUF_TYPE = 'application/vnd.kubernetes.protobuf'

/** Longest event of a watch: etcd takes 1.5 MiB of protobuf, which is a few times as much JSON. */
const MAX_EVENT_BYTES = 16 * 1024 * 1024

/** Turns the bytes of a watch into its events. */
export interface EventStream {
  /**
   * Events (metav1 WatchEvent, in the form that their JSON has) that end in this chunk. May
   * overwrite the chunk. The array is the caller's.
   */
  push(chunk: Buffer): unknown[]
  /** Bytes of an event whose end has not arrived. */
  readonly pendingBytes: number
}

export interface Encoding {
  /** A whole body, in the form that its JSON has. `what` names it in the error `api-bad-response`. */
  parse(body: Buffer, what: string): unknown
  openStream(): EventStream
}

/** The encoding of an answer, by its Content-Type. Everything but protobuf is read as JSON. */
export function encodingOf(contentType: string): Encoding {
  return mediaTypeOf(contentType) === PROTOBUF_TYPE ? PROTOBUF : JSON_ENCODING
}

/**
 * The Accept header for `clientConnection.contentType` and `acceptContentTypes`. As in client-go
 * the second replaces the first unless it is empty, and JSON is always accepted. Types that we
 * cannot read are left out.
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

/** `k8s` and a zero. */
const MAGIC = 0x6b_38_73_00
const MAGIC_BYTES = 4

/**
 * Reads the object, list or Status in protobuf from `start` to `end`. Other kinds are
 * `api-bad-response`.
 * @param as the message to read instead of the one that the envelope names
 */
export function decodeObject(
  reader: ProtobufReader,
  bytes: Buffer,
  start: number,
  end: number,
  as?: Message,
): JsonObject {
  if (end - start < MAGIC_BYTES || bytes.readUInt32BE(start) !== MAGIC)
    throw new ApiError('api-bad-response', 'the answer is not a Kubernetes object in protobuf')
  const { typeMeta, raw, contentEncoding } = reader.read(UNKNOWN, bytes, start + MAGIC_BYTES, end)
  if (contentEncoding !== undefined && contentEncoding !== '')
    throw new ApiError('api-bad-response', 'a protobuf object with a contentEncoding')
  if (!(raw instanceof Span)) throw new ApiError('api-bad-response', 'a protobuf object without content')
  return reader.read(as ?? messageOf(typeMeta), bytes, raw.start, raw.end)
}

/** Reads the metav1 WatchEvent in protobuf from `start` to `end`. */
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
    throw new ApiError('api-bad-response', `an object of unexpected kind ${describe(kind)} of ${describe(apiVersion)}`)
  return known.message
}

function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ApiError('api-bad-response', `the ${what} is not JSON`, { cause: error })
  }
}

const NEWLINE = 10

/**
 * Cuts a stream of bytes into lines. Written here because node:readline has no limit for the length
 * of a line. A partial line is kept as the chunks it arrived in and joined once, so that its cost
 * grows with its length and not with the square of it.
 */
export class LineSplitter {
  readonly #maxLineBytes: number
  #pieces: Buffer[] = []
  #bytes = 0

  /** A line of more than `maxLineBytes` is an error: the API server accepts no object that large. */
  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes
  }

  /** The lines that end in this chunk, without their newline and without empty ones. */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = []
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const line = this.#join(chunk.subarray(start, end))
      if (line.length > 0) lines.push(line)
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
    return lines
  }

  /** Bytes of a line whose end has not arrived. */
  get pendingBytes(): number {
    return this.#bytes
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length
    this.#check(this.#bytes)
    this.#pieces.push(piece)
  }

  #join(last: Buffer): Buffer {
    this.#check(this.#bytes + last.length)
    if (this.#bytes === 0) return last
    const line = Buffer.concat([...this.#pieces, last])
    this.#pieces = []
    this.#bytes = 0
    return line
  }

  #check(bytes: number): void {
    if (bytes > this.#maxLineBytes)
      throw new CodedError('api-line-too-long', `the API server sent a line of more than ${this.#maxLineBytes} bytes`)
  }
}

const HEADER_BYTES = 4

/** Called with the buffer that holds a frame, and the frame's start and end in it. */
export type TakeFrame = (bytes: Buffer, start: number, end: number) => void

/**
 * Cuts a stream of bytes into frames, each behind four bytes of length, big-endian
 * (apimachinery/pkg/util/framer). A frame inside one chunk is handed out without a copy; one in
 * several chunks is joined once, as in LineSplitter.
 */
export class FrameSplitter {
  readonly #maxFrameBytes: number
  #pieces: Buffer[] = []
  #bytes = 0
  /** Bytes of the incomplete frame, once its header has arrived. */
  #frameBytes = 0

  /** A frame of more than `maxFrameBytes` is an error: the API server accepts no object that large. */
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
      // A chunk that ended within a header is rare, so the next one is copied whole.
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

  /** Bytes of a frame whose end has not arrived. */
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

const MANAGED_FIELDS = Buffer.from(',"managedFields":[')
/** The end of managedFields with the name after metadata in a Service or Node, and in an EndpointSlice. */
const MANAGED_FIELDS_ENDS = [Buffer.from(']},"spec":'), Buffer.from(']},"addressType":')]

/**
 * The text of an object or watch event without its first metadata.managedFields, which are about
 * half of what the API server sends, and the slowest half to parse because each name in them is a
 * property. They are cut only where the bytes cannot mean anything else: inside a JSON string a
 * quote has a backslash before it, so the end above never appears in one. An object with another
 * order of fields stays whole. Overwrites the bytes.
 */
export function textWithoutManagedFields(bytes: Buffer): string {
  const start = bytes.indexOf(MANAGED_FIELDS)
  if (start >= 0) {
    for (const marker of MANAGED_FIELDS_ENDS) {
      const end = bytes.indexOf(marker, start + MANAGED_FIELDS.length)
      if (end < 0) continue
      // The bracket at `end` closes the array and is cut as well. Moving the rest costs less than joining two texts.
      bytes.copyWithin(start, end + 1)
      return bytes.toString('utf8', 0, bytes.length - (end + 1 - start))
    }
  }
  return bytes.toString('utf8')
}
