/** Numbers of linux/ip_vs.h and the walk over attributes, for the log of writes and the kernel of `--own-cost`. */

export const IPVS_COMMAND = {
  delService: 3,
  newDestination: 5,
  setDestination: 6,
  delDestination: 7,
  getDestinations: 8,
} as const

/** IPVS_CMD_ATTR_SERVICE and _DEST; of a service the address; the others of a destination. */
export const IPVS_ATTRIBUTE = {
  service: 1,
  destination: 2,
  serviceAddress: 3,
  address: 1,
  port: 2,
  weight: 4,
  activeConnections: 7,
  inactiveConnections: 8,
  persistentConnections: 9,
} as const

/** NLA_TYPE_MASK: the type without the mark of nested attributes. */
const TYPE_MASK = 0x3fff
const HEADER_BYTES = 4

/** The type of each attribute (struct nlattr) from `start` to `end`, and where its value starts and ends. */
export function* attributesOf(
  bytes: Uint8Array,
  start: number,
  end: number,
): Generator<readonly [type: number, from: number, to: number], void, undefined> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = start; at + HEADER_BYTES <= end; ) {
    const length = view.getUint16(at, true)
    yield [view.getUint16(at + 2, true) & TYPE_MASK, at + HEADER_BYTES, at + length]
    at += Math.max(HEADER_BYTES, (length + 3) & ~3)
  }
}
