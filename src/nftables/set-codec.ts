/**
 * Sets and verdict maps of the private table on the wire, and the anonymous sets of networks of its
 * rules. No set has a size: with one the kernel chooses a table that cannot grow.
 */
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_CREATE, NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterFamily } from '../netlink/nfnetlink-codec.ts'
import { ADDRESS_LENGTH } from '../values/address.ts'
import type { IpFamily } from '../values/protocol.ts'
import { fieldsOfType, keyLength, typeNumber } from './fields.ts'
import { addressBytes, endOfSpace, type Interval, intervalsOf, networksOf, numberOfBytes } from './networks.ts'
import { isAnonymous } from './statement-decoder.ts'
import type { AnonymousSet } from './statement-encoder.ts'
import { type NftSet, PRIVATE_TABLE } from './types.ts'
import { beginNft, NFTA_DATA_VALUE, NFTA_LIST_ELEM, nftAttributes } from './wire.ts'

const NFTA_SET_TABLE = 1
const NFTA_SET_NAME = 2
const NFTA_SET_FLAGS = 3
const NFTA_SET_KEY_TYPE = 4
const NFTA_SET_KEY_LEN = 5
const NFTA_SET_DATA_TYPE = 6
const NFTA_SET_DATA_LEN = 7
const NFTA_SET_DESC = 9
const NFTA_SET_ID = 10
const NFTA_SET_USERDATA = 13
const NFTA_SET_COUNT = 20
const NFTA_SET_DESC_SIZE = 1

/** NFT_SET_* */
const [ANONYMOUS, CONSTANT, INTERVAL, MAP] = [0x1, 0x2, 0x4, 0x8]
/** NFT_DATA_VERDICT */
const VERDICT_TYPE = 0xffff_ff00

const NFTA_SET_ELEM_LIST_SET = 2
const NFTA_SET_ELEM_LIST_ELEMENTS = 3
const NFTA_SET_ELEM_LIST_SET_ID = 4
const NFTA_SET_ELEM_KEY = 1
const NFTA_SET_ELEM_FLAGS = 3
const NFT_SET_ELEM_INTERVAL_END = 1

/** The type of an address alone (`ipv4_addr`, `ipv6_addr`). */
const ADDRESS: readonly ['saddr'] = ['saddr']

/**
 * Records of libnftnl by which nft prints a set: number, length, value. The order of bytes of the
 * key: 2 is big endian, 0 is that of a concatenation.
 */
function userdata(isSingle: boolean, rest: readonly number[] = []): Uint8Array {
  return Uint8Array.of(0, 4, isSingle ? 2 : 0, 0, 0, 0, ...rest)
}
/** The order of bytes of the data of a map: none, it is a verdict. */
const OF_MAP = [1, 4, 0, 0, 0, 0] as const
/** nft has merged what touches. */
const MERGED = [2, 4, 1, 0, 0, 0] as const

/** NFT_MSG_NEWSET */
export function encodeNewSet(batch: MessageBatch, set: NftSet): void {
  beginNft(batch, 'NEWSET', NLM_F_CREATE, set.family, PRIVATE_TABLE)
  batch.string(NFTA_SET_NAME, set.name)
  batch.u32be(NFTA_SET_FLAGS, set.isMap ? MAP : 0)
  batch.u32be(NFTA_SET_KEY_TYPE, typeNumber(set.fields, set.family))
  batch.u32be(NFTA_SET_KEY_LEN, keyLength(set.fields, set.family))
  if (set.isMap) {
    batch.u32be(NFTA_SET_DATA_TYPE, VERDICT_TYPE)
    batch.u32be(NFTA_SET_DATA_LEN, 0)
  }
  // Every set of a transaction needs one, but only those without a name are found by it.
  batch.u32be(NFTA_SET_ID, 0)
  batch.binary(NFTA_SET_USERDATA, userdata(set.fields.length === 1, set.isMap ? OF_MAP : []))
  batch.end()
}

/** NFT_MSG_DELSET; EBUSY while a rule refers to it. */
export function encodeDeleteSet(batch: MessageBatch, family: IpFamily, name: string): void {
  beginNft(batch, 'DELSET', 0, family, PRIVATE_TABLE)
  batch.string(NFTA_SET_NAME, name)
  batch.end()
}

/** Intervals in one message, whose list of elements ends below 64 KiB: a border has at most 36 bytes. */
const INTERVALS_TOGETHER = 500

/** The most messages that `encodeNetworks` adds for so many networks. */
export function messagesOfNetworks(count: number): number {
  return 1 + Math.max(1, Math.ceil(count / INTERVALS_TOGETHER))
}

/** The anonymous set of a rule that follows in the same transaction, and its elements. */
export function encodeNetworks(
  batch: MessageBatch,
  family: IpFamily,
  { name, id }: AnonymousSet,
  cidrs: readonly string[],
): void {
  const intervals = intervalsOf(cidrs, family)
  beginNft(batch, 'NEWSET', NLM_F_CREATE, family, PRIVATE_TABLE)
  batch.string(NFTA_SET_NAME, name)
  batch.u32be(NFTA_SET_FLAGS, ANONYMOUS | CONSTANT | INTERVAL)
  batch.u32be(NFTA_SET_KEY_TYPE, typeNumber(ADDRESS, family))
  batch.u32be(NFTA_SET_KEY_LEN, ADDRESS_LENGTH[family])
  batch.u32be(NFTA_SET_ID, id)
  const description = batch.nest(NFTA_SET_DESC)
  batch.u32be(NFTA_SET_DESC_SIZE, intervals.length * 2 + 1)
  batch.endNest(description)
  batch.binary(NFTA_SET_USERDATA, userdata(true, MERGED))
  batch.end()

  for (let from = 0; from < intervals.length; from += INTERVALS_TOGETHER) {
    beginNft(batch, 'NEWSETELEM', NLM_F_CREATE, family, PRIVATE_TABLE)
    batch.string(NFTA_SET_ELEM_LIST_SET, name)
    batch.u32be(NFTA_SET_ELEM_LIST_SET_ID, id)
    const list = batch.nest(NFTA_SET_ELEM_LIST_ELEMENTS)
    // As nft does: the addresses before the first interval are an interval that is not in the set.
    if (from === 0 && intervals[0]?.from !== 0n) encodeBorder(batch, 0n, family, true)
    for (const interval of intervals.slice(from, from + INTERVALS_TOGETHER)) {
      encodeBorder(batch, interval.from, family, false)
      if (interval.to !== endOfSpace(family)) encodeBorder(batch, interval.to, family, true)
    }
    batch.endNest(list)
    batch.end()
  }
}

function encodeBorder(batch: MessageBatch, address: bigint, family: IpFamily, isEnd: boolean): void {
  const element = batch.nest(NFTA_LIST_ELEM)
  if (isEnd) batch.u32be(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END)
  const key = batch.nest(NFTA_SET_ELEM_KEY)
  batch.binary(NFTA_DATA_VALUE, addressBytes(address, family))
  batch.endNest(key)
  batch.endNest(element)
}

/** NFT_MSG_GETSET of the private table. */
export function encodeGetSets(batch: MessageBatch, family: IpFamily): void {
  beginNft(batch, 'GETSET', NLM_F_DUMP, family, PRIVATE_TABLE)
  batch.end()
}

/** NFT_MSG_GETSET of one set; ENOENT when there is none. */
export function encodeGetSet(batch: MessageBatch, family: IpFamily, name: string): void {
  beginNft(batch, 'GETSET', 0, family, PRIVATE_TABLE)
  batch.string(NFTA_SET_NAME, name)
  batch.end()
}

/** A set that was read; one of networks that belongs to a rule has no name of its own. */
export type ListedSet = NftSet | { readonly kind: 'networks'; readonly name: string }

/** A set of a dump; undefined for one of another table. */
export function decodeSet(message: ReceivedMessage): ListedSet | undefined {
  const family = netfilterFamily(message)
  const attributes = nftAttributes(message, 'NEWSET')
  let [table, name] = ['', '']
  let [flags, type, length, dataType, size] = [0, 0, 0, 0, 0]
  while (attributes.next())
    switch (attributes.type) {
      case NFTA_SET_TABLE:
        table = attributes.string()
        break
      case NFTA_SET_NAME:
        name = attributes.string()
        break
      case NFTA_SET_FLAGS:
        flags = attributes.u32be()
        break
      case NFTA_SET_KEY_TYPE:
        type = attributes.u32be()
        break
      case NFTA_SET_KEY_LEN:
        length = attributes.u32be()
        break
      case NFTA_SET_DATA_TYPE:
        dataType = attributes.u32be()
        break
      case NFTA_SET_DESC: {
        const description = attributes.nested()
        while (description.next()) if (description.type === NFTA_SET_DESC_SIZE) size = description.u32be()
        break
      }
      default:
    }
  if (family === undefined || table !== PRIVATE_TABLE || name === '') return undefined
  if ((flags & ANONYMOUS) !== 0 || isAnonymous(name)) return { kind: 'networks', name }
  const fields = fieldsOfType(type, length, family)
  const isMap = flags === MAP
  // A key could not tell where a name with blanks ends.
  const isOurs =
    fields !== undefined && size === 0 && !name.includes(' ') && (isMap ? dataType === VERDICT_TYPE : flags === 0)
  const set = { kind: 'set', family, name, fields: fields ?? [], isMap } as const
  return isOurs ? set : { ...set, isForeign: true }
}

/** How many elements a set has, from an answer about it; undefined from kernels before 6.16. */
export function decodeCount(message: ReceivedMessage): number | undefined {
  const attributes = nftAttributes(message, 'NEWSET')
  while (attributes.next()) if (attributes.type === NFTA_SET_COUNT) return attributes.u32be()
  return undefined
}

/** Puts the borders of an anonymous set together; they come in any order. */
export class NetworksDecoder {
  readonly #family: IpFamily
  readonly #borders: { readonly at: bigint; readonly isEnd: boolean }[] = []
  #isForeign = false

  constructor(family: IpFamily) {
    this.#family = family
  }

  /** Reads one message of a dump of the set's elements. */
  read(message: ReceivedMessage): void {
    const attributes = nftAttributes(message, 'NEWSETELEM')
    while (attributes.next()) {
      if (attributes.type !== NFTA_SET_ELEM_LIST_ELEMENTS) continue
      const list = attributes.nested()
      while (list.next()) {
        let key: bigint | undefined
        let flags = 0
        const element = list.nested()
        while (element.next())
          if (element.type === NFTA_SET_ELEM_FLAGS) flags = element.u32be()
          else if (element.type === NFTA_SET_ELEM_KEY) {
            const data = element.nested()
            // Sets of other programs' rules are read too: of ports, or of protocols.
            while (data.next())
              if (data.type === NFTA_DATA_VALUE && data.length === ADDRESS_LENGTH[this.#family])
                key = numberOfBytes(data.bytes, data.offset, this.#family)
          }
        if (key === undefined) this.#isForeign = true
        else this.#borders.push({ at: key, isEnd: (flags & NFT_SET_ELEM_INTERVAL_END) !== 0 })
      }
    }
  }

  /** The networks; undefined when it is no set of intervals of addresses. */
  networks(): readonly string[] | undefined {
    if (this.#isForeign) return undefined
    // At one address an end is before a start.
    const sorted = this.#borders.toSorted((a, b) =>
      a.at === b.at ? Number(b.isEnd) - Number(a.isEnd) : a.at < b.at ? -1 : 1,
    )
    const intervals: Interval[] = []
    let from: bigint | undefined
    for (const { at, isEnd } of sorted) {
      if (from !== undefined) intervals.push({ from, to: at })
      from = isEnd ? undefined : at
    }
    if (from !== undefined) intervals.push({ from, to: endOfSpace(this.#family) })
    return intervals.length === 0 ? undefined : networksOf(intervals, this.#family)
  }
}
