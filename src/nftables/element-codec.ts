/**
 * Elements of sets and verdict maps on the wire. One message has those of one set; an attribute ends
 * below 64 KiB, and the list of elements is one.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_CREATE, NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import type { IpFamily } from '../values/protocol.ts'
import { decodeVerdict, encodeVerdict } from './expression-codec.ts'
import { encodeKey, type EncodedKey, keyLength, readKey } from './fields.ts'
import { CATCH_ALL, type NftElement, type NftSet, PRIVATE_TABLE } from './types.ts'
import { beginNft, NFTA_DATA_VALUE, NFTA_LIST_ELEM, nftAttributes } from './wire.ts'

const NFTA_SET_ELEM_LIST_SET = 2
const NFTA_SET_ELEM_LIST_ELEMENTS = 3
const NFTA_SET_ELEM_KEY = 1
const NFTA_SET_ELEM_DATA = 2
const NFTA_SET_ELEM_FLAGS = 3
const NFTA_SET_ELEM_EXPR = 7
const NFTA_SET_ELEM_EXPRESSIONS = 11
/** Of an element without a key, from Linux 5.13 on. */
const NFT_SET_ELEM_CATCHALL = 2

/** The most elements of a set in one message: none is longer than 60 bytes. */
export const MAX_ELEMENTS = 500
/** The most elements of a map in one message: with the name of a chain, one is up to 332 bytes long. */
export const MAX_MAP_ELEMENTS = 190

/**
 * NFT_MSG_NEWSETELEM or NFT_MSG_DELSETELEM, with at most MAX_ELEMENTS elements of one set, or MAX_MAP_ELEMENTS of a map. An element
 * that is there already with the same verdict is success, one with another verdict is EBUSY; one
 * that is to be deleted and is not there is ENOENT. Nothing is added when it throws.
 */
export function encodeElements(
  batch: MessageBatch,
  message: 'NEWSETELEM' | 'DELSETELEM',
  family: IpFamily,
  set: string,
  elements: readonly NftElement[],
): void {
  beginNft(batch, message, message === 'NEWSETELEM' ? NLM_F_CREATE : 0, family, PRIVATE_TABLE)
  batch.string(NFTA_SET_ELEM_LIST_SET, set)
  const list = batch.nest(NFTA_SET_ELEM_LIST_ELEMENTS)
  for (const { value, action } of elements)
    encodeElement(batch, family, value, message === 'NEWSETELEM' ? action : undefined)
  batch.endNest(list)
  batch.end()
}

function encodeElement(batch: MessageBatch, family: IpFamily, value: string, action: NftElement['action']): void {
  const element = batch.nest(NFTA_LIST_ELEM)
  if (value === CATCH_ALL) batch.u32be(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_CATCHALL)
  else {
    const key = batch.nest(NFTA_SET_ELEM_KEY)
    const encoded = encodeKey(value, family)
    batch.written(NFTA_DATA_VALUE, encoded.length, copyKey, encoded)
    batch.endNest(key)
  }
  if (action !== undefined) {
    const data = batch.nest(NFTA_SET_ELEM_DATA)
    encodeVerdict(batch, action)
    batch.endNest(data)
  }
  batch.endNest(element)
}

function copyKey({ bytes, length }: EncodedKey, into: Uint8Array, offset: number): number {
  for (let index = 0; index < length; index++) into[offset + index] = bytes[index] ?? 0
  return length
}

/** NFT_MSG_GETSETELEM: all elements of a set; ENOENT when there is no such set. */
export function encodeGetElements(batch: MessageBatch, family: IpFamily, set: string): void {
  beginNft(batch, 'GETSETELEM', NLM_F_DUMP, family, PRIVATE_TABLE)
  batch.string(NFTA_SET_ELEM_LIST_SET, set)
  batch.end()
}

/** NFT_MSG_GETSETELEM: one element; ENOENT when it is not there. */
export function encodeGetElement(batch: MessageBatch, family: IpFamily, set: string, value: string): void {
  beginNft(batch, 'GETSETELEM', 0, family, PRIVATE_TABLE)
  batch.string(NFTA_SET_ELEM_LIST_SET, set)
  const list = batch.nest(NFTA_SET_ELEM_LIST_ELEMENTS)
  encodeElement(batch, family, value, undefined)
  batch.endNest(list)
  batch.end()
}

/** Calls `visit` for each element of one message about a set. */
export function decodeElements(message: ReceivedMessage, set: NftSet, visit: (element: NftElement) => void): void {
  const attributes = nftAttributes(message, 'NEWSETELEM')
  while (attributes.next()) {
    if (attributes.type !== NFTA_SET_ELEM_LIST_ELEMENTS) continue
    const list = attributes.nested()
    while (list.next()) {
      const element = list.type === NFTA_LIST_ELEM ? decodeElement(list.nested(), set) : undefined
      if (element !== undefined) visit(element)
    }
  }
}

function decodeElement(attributes: AttributeCursor, { family, name, fields, isMap }: NftSet): NftElement | undefined {
  let value: string | undefined
  let action: NftElement['action']
  let isForeign = false
  while (attributes.next())
    switch (attributes.type) {
      case NFTA_SET_ELEM_KEY: {
        const key = attributes.nested()
        while (key.next())
          if (key.type === NFTA_DATA_VALUE) {
            key.expect(keyLength(fields, family))
            value = readKey(key.bytes, key.offset, fields, family)
          }
        break
      }
      case NFTA_SET_ELEM_DATA:
        if (isMap) action = decodeVerdict(attributes.nested())
        break
      case NFTA_SET_ELEM_FLAGS:
        if ((attributes.u32be() & NFT_SET_ELEM_CATCHALL) !== 0) value ??= CATCH_ALL
        break
      case NFTA_SET_ELEM_EXPR:
      case NFTA_SET_ELEM_EXPRESSIONS:
        isForeign = true
        break
      default:
    }
  if (value === undefined) return undefined
  const plain = { kind: 'element', family, set: name, value } as const
  const element = action === undefined ? plain : { ...plain, action }
  return isForeign ? { ...element, isForeign: true } : element
}
