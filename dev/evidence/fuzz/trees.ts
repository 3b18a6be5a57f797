/**
 * Attributes of netlink and fields of protobuf as trees, so that a part can be changed and all
 * lengths around it are right again. What cannot be read as one is not a tree.
 */

export interface Node {
  /** Attribute: its type with flags. Field: its number and wire type. */
  tag: number
  /** Bytes before the children, such as the letters `k8s` before an object of Kubernetes. */
  prefix: Uint8Array
  /** Without children: the value. */
  value: Uint8Array
  children: Node[] | undefined
}

export interface TreeFormat {
  read(bytes: Uint8Array): Node | undefined
  write(root: Node): Uint8Array
}

const EMPTY = new Uint8Array()
const MAX_DEPTH = 24

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts))
}

const NLMSG_HDRLEN = 16
const NLA_HDRLEN = 4
const NLA_ALIGNMENT = 4

/** One message of netlink. @param headerBytes of the header of its family, between struct nlmsghdr and the attributes */
export function netlinkFormat(headerBytes: number): TreeFormat {
  const start = NLMSG_HDRLEN + headerBytes
  return {
    read(bytes) {
      if (bytes.length < start) return undefined
      const children = readAttributes(bytes.subarray(start), 0)
      return children && { tag: 0, prefix: bytes.slice(0, start), value: EMPTY, children }
    },
    write(root) {
      const bytes = joined([root.prefix, ...(root.children ?? []).map(writeAttribute)])
      new DataView(bytes.buffer).setUint32(0, bytes.length, true)
      return bytes
    },
  }
}

function readAttributes(bytes: Uint8Array, depth: number): Node[] | undefined {
  if (depth > MAX_DEPTH) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const nodes: Node[] = []
  for (let at = 0; at < bytes.length; ) {
    if (bytes.length - at < NLA_HDRLEN) return undefined
    const [length, tag] = [view.getUint16(at, true), view.getUint16(at + 2, true)]
    // Types above 255 are data that only looks like attributes.
    if (length < NLA_HDRLEN || at + length > bytes.length || (tag & 0x3fff) > 0xff) return undefined
    const value = bytes.slice(at + NLA_HDRLEN, at + length)
    const children = value.length < NLA_HDRLEN ? undefined : readAttributes(value, depth + 1)
    nodes.push({ tag, prefix: EMPTY, value, children })
    at += Math.ceil(length / NLA_ALIGNMENT) * NLA_ALIGNMENT
  }
  return nodes
}

function writeAttribute(node: Node): Uint8Array {
  const payload =
    node.children === undefined
      ? node.value
      : joined([node.prefix, ...node.children.map((child) => writeAttribute(child))])
  const length = NLA_HDRLEN + payload.length
  const bytes = new Uint8Array(Math.ceil(length / NLA_ALIGNMENT) * NLA_ALIGNMENT)
  const view = new DataView(bytes.buffer)
  view.setUint16(0, length & 0xffff, true)
  view.setUint16(2, node.tag, true)
  bytes.set(payload, NLA_HDRLEN)
  return bytes
}

const [VARINT, FIXED64, LENGTH, FIXED32] = [0, 1, 2, 5]
/** `k8s` and a zero: what follows is the envelope of an object. */
const MAGIC = Uint8Array.of(0x6b, 0x38, 0x73, 0)

export const PROTOBUF_FORMAT: TreeFormat = {
  read: (bytes) => readMessage(bytes, 0),
  write: (root) => writeFields(root),
}

function readMessage(bytes: Uint8Array, depth: number): Node | undefined {
  const isEnvelope = MAGIC.every((byte, index) => bytes[index] === byte)
  const children = readFields(isEnvelope ? bytes.subarray(MAGIC.length) : bytes, depth)
  return children && { tag: 0, prefix: isEnvelope ? MAGIC : EMPTY, value: bytes, children }
}

function readFields(bytes: Uint8Array, depth: number): Node[] | undefined {
  if (depth > MAX_DEPTH) return undefined
  const nodes: Node[] = []
  let at = 0
  const varint = (): number => {
    let [value, scale] = [0, 1]
    for (let count = 0; count < 10; count++) {
      const byte = bytes[at++] ?? 0
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 128
    }
    return value
  }
  while (at < bytes.length) {
    const tag = varint()
    const wire = tag & 7
    if (tag < 8 || tag > 0xffff) return undefined
    let start = at
    if (wire === VARINT) varint()
    else if (wire === FIXED64 || wire === FIXED32) at += wire === FIXED64 ? 8 : 4
    else if (wire === LENGTH) {
      const length = varint()
      start = at
      at += length
    } else return undefined
    if (at > bytes.length) return undefined
    const value = bytes.slice(start, at)
    const inner = wire === LENGTH && value.length > 1 ? readMessage(value, depth + 1) : undefined
    nodes.push({ tag, prefix: inner?.prefix ?? EMPTY, value, children: inner?.children })
  }
  return nodes
}

function varintBytes(value: number): Uint8Array {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80)
  return Uint8Array.from([...bytes, rest])
}

function writeFields(node: Node): Uint8Array {
  if (node.children === undefined) return node.value
  return joined([
    node.prefix,
    ...node.children.flatMap((child) => {
      const value = writeFields(child)
      const tag = varintBytes(child.tag)
      return (child.tag & 7) === LENGTH ? [tag, varintBytes(value.length), value] : [tag, value]
    }),
  ])
}
