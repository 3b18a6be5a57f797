/**
 * The header of a set on the wire: its name, type and parameters as IPSET_CMD_LIST answers them
 * (linux/netfilter/ipset/ip_set.h).
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import { netlinkError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { familyOfNumber, type IpFamily } from '../values/protocol.ts'
import { IPSET_ATTR, IPSET_DATA, ipsetAttributes } from './codec.ts'
import type { ListedSet } from './types.ts'

/** IPSET_FLAG_* of CADT_FLAGS of a set */
const IPSET_FLAG_WITH_COUNTERS = 0x08
const IPSET_FLAG_WITH_COMMENT = 0x10
const IPSET_FLAG_WITH_FORCEADD = 0x20
const IPSET_FLAG_WITH_SKBINFO = 0x40

/**
 * Reads the header of a set out of a LIST message; undefined when the message continues the entries
 * of the set before it, and for a set whose name is not wanted, which may be of any type and is not
 * read further.
 */
export function decodeHeader(
  message: ReceivedMessage,
  isWanted: (name: string) => boolean = () => true,
): ListedSet | undefined {
  const attributes = ipsetAttributes(message, 'LIST')
  let name: string | undefined
  let type: string | undefined
  let family: IpFamily | undefined
  let data: AttributeCursor | undefined
  while (attributes.next()) {
    if (attributes.type === IPSET_ATTR.SETNAME) name = attributes.string()
    else if (attributes.type === IPSET_ATTR.TYPENAME) type = attributes.string()
    else if (attributes.type === IPSET_ATTR.FAMILY) family = familyOfNumber(attributes.u8())
    else if (attributes.type === IPSET_ATTR.DATA) data = attributes.nested()
  }
  if (name === undefined) throw netlinkError('netlink-malformed', 'a listed set without a name')
  if (type === undefined || !isWanted(name)) return undefined
  if (data === undefined) throw netlinkError('netlink-malformed', `the set ${name} without its parameters`)
  return { name, type, family, ...decodeParameters(data) }
}

const U32_FIELDS: Readonly<Record<number, 'maxElements' | 'hashSize' | 'references' | 'elements'>> = {
  [IPSET_DATA.MAXELEM]: 'maxElements',
  [IPSET_DATA.HASHSIZE]: 'hashSize',
  [IPSET_DATA.REFERENCES]: 'references',
  [IPSET_DATA.ELEMENTS]: 'elements',
}
const U16_FIELDS: Readonly<Record<number, 'firstPort' | 'lastPort'>> = {
  [IPSET_DATA.PORT]: 'firstPort',
  [IPSET_DATA.PORT_TO]: 'lastPort',
}

type DecodedParameters = Omit<ListedSet, 'name' | 'type' | 'family'>

function decodeParameters(attributes: AttributeCursor): DecodedParameters {
  const numbers = { maxElements: 0, firstPort: 0, lastPort: 0, hashSize: 0, references: 0, elements: 0 }
  const extras: string[] = []
  while (attributes.next()) {
    const wide = U32_FIELDS[attributes.type]
    const narrow = U16_FIELDS[attributes.type]
    if (wide !== undefined) numbers[wide] = attributes.u32be()
    else if (narrow !== undefined) numbers[narrow] = attributes.u16be()
    else decodeExtra(attributes, extras)
  }
  return { ...numbers, extras: extras.sort().join(' ') }
}

/** Parameters that we never set, as the command prints them: a set with any of them is replaced. */
function decodeExtra(attributes: AttributeCursor, extras: string[]): void {
  switch (attributes.type) {
    case IPSET_DATA.NETMASK:
      extras.push(`netmask ${attributes.u8()}`)
      break
    case IPSET_DATA.BITMASK:
      extras.push('bitmask')
      break
    case IPSET_DATA.TIMEOUT:
      extras.push(`timeout ${attributes.u32be()}`)
      break
    case IPSET_DATA.CADT_FLAGS: {
      const flags = attributes.u32be()
      for (const [flag, word] of EXTRA_FLAGS) if ((flags & flag) !== 0) extras.push(word)
      break
    }
  }
}

const EXTRA_FLAGS: readonly (readonly [number, string])[] = [
  [IPSET_FLAG_WITH_COUNTERS, 'counters'],
  [IPSET_FLAG_WITH_COMMENT, 'comment'],
  [IPSET_FLAG_WITH_FORCEADD, 'forceadd'],
  [IPSET_FLAG_WITH_SKBINFO, 'skbinfo'],
]
