/** The private table itself on the wire: made, owned, deleted, and read with its owner. */
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_CREATE, NLM_F_DUMP } from '../netlink/constants.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { netfilterFamily } from '../netlink/nfnetlink-codec.ts'
import type { IpFamily } from '../values/protocol.ts'
import { PRIVATE_TABLE } from './types.ts'
import { beginNft, nftAttributes } from './wire.ts'

const NFTA_TABLE_NAME = 1
const NFTA_TABLE_FLAGS = 2
const NFTA_TABLE_OWNER = 7
/** NFT_TABLE_F_* */
const DORMANT = 1
const OWNER = 2
const PERSIST = 4

/** A table of the private name. */
export interface ListedTable {
  readonly family: IpFamily
  readonly isDormant: boolean
  /** Port id of the socket that it belongs to. */
  readonly owner: number | undefined
  /** It outlives its owner, or has outlived it. */
  readonly isPersistent: boolean
}

/** NFT_MSG_NEWTABLE. With `isOwned` the table belongs to the sending socket, and stays when that is closed (kernel 6.9). */
export function encodeNewTable(batch: MessageBatch, family: IpFamily, isOwned: boolean, name = PRIVATE_TABLE): void {
  beginNft(batch, 'NEWTABLE', NLM_F_CREATE, family, name)
  batch.u32be(NFTA_TABLE_FLAGS, isOwned ? OWNER | PERSIST : 0)
  batch.end()
}

/** NFT_MSG_DELTABLE, with everything in it. */
export function encodeDeletePrivateTable(batch: MessageBatch, family: IpFamily, name = PRIVATE_TABLE): void {
  beginNft(batch, 'DELTABLE', 0, family, name)
  batch.end()
}

/** NFT_MSG_GETTABLE of one family. */
export function encodeGetTables(batch: MessageBatch, family: IpFamily): void {
  beginNft(batch, 'GETTABLE', NLM_F_DUMP, family)
  batch.end()
}

/** A table of the private name; undefined for any other. */
export function decodePrivateTable(message: ReceivedMessage, name = PRIVATE_TABLE): ListedTable | undefined {
  const family = netfilterFamily(message)
  const attributes = nftAttributes(message, 'NEWTABLE')
  let flags = 0
  let owner: number | undefined
  let found = ''
  while (attributes.next())
    if (attributes.type === NFTA_TABLE_NAME) found = attributes.string()
    else if (attributes.type === NFTA_TABLE_FLAGS) flags = attributes.u32be()
    else if (attributes.type === NFTA_TABLE_OWNER) owner = attributes.u32be()
  if (family === undefined || found !== name) return undefined
  return {
    family,
    isDormant: (flags & DORMANT) !== 0,
    owner: (flags & OWNER) === 0 ? undefined : owner,
    isPersistent: (flags & PERSIST) !== 0,
  }
}
