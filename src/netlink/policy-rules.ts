/**
 * Rules of policy routing on the wire (struct fib_rule_hdr and FRA_* of linux/fib_rules.h): which
 * of them choose a table of routes by more than the destination and the mark of a packet. Written
 * by hand: there is no netlink library for Node.
 */
import { ADDRESS_LENGTH, readAddress } from '../values/address.ts'
import { familyOfNumber, type IpFamily } from '../values/protocol.ts'
import { AttributeCursor } from './attributes.ts'
import type { MessageBatch } from './batch.ts'
import { NLM_F_DUMP } from './constants.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

const RTM_NEWRULE = 32
const RTM_GETRULE = 34
const FRA_SRC = 2
const FRA_IIFNAME = 3
const FRA_PRIORITY = 6
const FRA_TABLE = 15
const FRA_OIFNAME = 17
const FRA_UID_RANGE = 20
const FRA_IP_PROTO = 22
const FRA_SPORT_RANGE = 23
const FRA_DPORT_RANGE = 24
const HEADER_BYTES = 12
/** FIB_RULE_INVERT */
const INVERT = 2
/** The range of users that every rule has. */
const ALL_USERS = 0xffffffff

export interface PolicyRule {
  readonly family: IpFamily
  readonly priority: number
  readonly table: number
  /**
   * What it looks at besides destination and mark, as `ip rule` writes it: `from 192.0.2.0/24`,
   * `iif eth1`; empty for the rules of every kernel.
   */
  readonly selectors: readonly string[]
}

/** RTM_GETRULE of all families. */
export function encodeDumpRules(batch: MessageBatch): void {
  batch.begin(RTM_GETRULE, NLM_F_DUMP, 'RTM_GETRULE').header(HEADER_BYTES)
  batch.end()
}

/** Reads RTM_NEWRULE; undefined for other families. */
export function decodePolicyRule(message: ReceivedMessage): PolicyRule | undefined {
  if (message.type !== RTM_NEWRULE)
    throw netlinkError('netlink-malformed', `message type ${message.type} instead of RTM_NEWRULE`)
  const { bytes, view, start, end } = message
  if (end - start < HEADER_BYTES) throw netlinkError('netlink-malformed', `RTM_NEWRULE of ${end - start} bytes`)
  const family = familyOfNumber(view.getUint8(start))
  if (family === undefined) return undefined
  const sourceLength = view.getUint8(start + 2)
  const tos = view.getUint8(start + 3)
  let table = view.getUint8(start + 4)
  let priority = 0
  const selectors: string[] = []
  const attributes = new AttributeCursor(bytes, start + HEADER_BYTES, end, view)
  while (attributes.next())
    switch (attributes.type) {
      case FRA_SRC:
        attributes.expect(ADDRESS_LENGTH[family])
        selectors.push(`from ${readAddress(bytes, attributes.offset, family)}/${sourceLength}`)
        break
      case FRA_IIFNAME:
        selectors.push(`iif ${attributes.string()}`)
        break
      case FRA_OIFNAME:
        selectors.push(`oif ${attributes.string()}`)
        break
      case FRA_UID_RANGE:
        selectors.push(...usersOf(attributes))
        break
      case FRA_IP_PROTO:
        selectors.push(`ipproto ${attributes.u8()}`)
        break
      case FRA_SPORT_RANGE:
        selectors.push('sport')
        break
      case FRA_DPORT_RANGE:
        selectors.push('dport')
        break
      case FRA_PRIORITY:
        priority = attributes.u32()
        break
      case FRA_TABLE:
        table = attributes.u32()
        break
      default:
    }
  if (tos !== 0) selectors.push(`tos ${tos}`)
  if (selectors.length > 0 && (view.getUint32(start + 8, true) & INVERT) !== 0) selectors.unshift('not')
  return { family, priority, table, selectors }
}

function usersOf(attributes: AttributeCursor): readonly string[] {
  attributes.expect(8)
  const view = new DataView(attributes.bytes.buffer, attributes.bytes.byteOffset + attributes.offset, 8)
  const [first, last] = [view.getUint32(0, true), view.getUint32(4, true)]
  return first === 0 && last === ALL_USERS ? [] : [`uidrange ${first}-${last}`]
}
