/**
 * What a kernel without virtual servers, routes, sets and rules of nf_tables answers to each netlink message that the program sends at a
 * start. No message changes anything, but for the one that makes kube-ipvs0 and for drains, which end at once. This is no model of a
 * kernel, and no test may use it.
 */

import { Draining } from './draining.ts'

/** Sums since the start. */
export interface Counts {
  messages: number
  datagrams: number
  bytes: number
  /** IPVS_CMD_NEW_DEST */
  destinations: number
  routes: number
  addresses: number
  /** IPSET_CMD_ADD */
  entries: number
}

export const noCounts = (): Counts => ({
  messages: 0,
  datagrams: 0,
  bytes: 0,
  destinations: 0,
  routes: 0,
  addresses: 0,
  entries: 0,
})

// linux/netlink.h and the numbers of each family, as in src/
const NETLINK_ROUTE = 0
export const NETLINK_GENERIC = 16
const HEADER_BYTES = 16
const NLM_F_ACK = 0x4
const NLM_F_DUMP = 0x300
const NLMSG_ERROR = 2
const NLMSG_DONE = 3
const GENL_ID_CTRL = 0x10
const CTRL_CMD_NEWFAMILY = 1
const CTRL_ATTR_FAMILY_ID = 1
const IPVS_FAMILY = 0x20
const IPVS_CMD_GET_SERVICE = 4
const IPVS_CMD_NEW_DEST = 5
const RTM_NEWLINK = 16
const RTM_GETLINK = 18
const RTM_NEWADDR = 20
const RTM_GETADDR = 22
const RTM_NEWROUTE = 24
const IFF_UP = 1
const IFLA_IFNAME = 3
const IFLA_LINKINFO = 18
const IFA_LOCAL = 2
const SUBSYSTEM_IPSET = 6
const IPSET_CMD_PROTOCOL = 1
const IPSET_CMD_ADD = 9
const IPSET_CMD_TYPE = 13
const NFNL_MSG_BATCH_BEGIN = 0x10
const ENODEV = 19
const ESRCH = 3

/** The one link with an address: the node's. */
const NODE_LINK = 2
const NODE_ADDRESS = [172, 18, 0, 2]
const DEVICE_LINK = 3
let hasDevice = false
const draining = new Draining()

interface Message {
  readonly type: number
  readonly flags: number
  readonly sequence: number
  /** After struct nlmsghdr. */
  readonly payload: Uint8Array
}

/** Appends the answers to the messages of one datagram, a datagram each. */
export function answerTo(protocol: number, bytes: Uint8Array, answers: Uint8Array[], counts: Counts): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  counts.bytes += bytes.length
  let isTransaction = false
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at, true)
    const message: Message = {
      type: view.getUint16(at + 4, true),
      flags: view.getUint16(at + 6, true),
      sequence: view.getUint32(at + 8, true),
      payload: bytes.subarray(at + HEADER_BYTES, at + length),
    }
    at += (length + 3) & ~3
    counts.messages++
    isTransaction ||=
      message.type === NFNL_MSG_BATCH_BEGIN && protocol !== NETLINK_GENERIC && protocol !== NETLINK_ROUTE
    count(protocol, message, counts)
    if ((message.flags & NLM_F_DUMP) === NLM_F_DUMP) {
      for (const line of linesOf(protocol, message)) answers.push(line)
      answers.push(reply(message, NLMSG_DONE, new Uint8Array(4)))
    } else if ((message.flags & NLM_F_ACK) !== 0) answers.push(result(message, 0))
    else if (!isTransaction) {
      const answer = answerOf(protocol, message)
      if (answer !== undefined) answers.push(answer)
    }
  }
}

function count(protocol: number, { type, flags, payload }: Message, counts: Counts): void {
  if (protocol === NETLINK_GENERIC) {
    if (type !== IPVS_FAMILY) return
    if (payload[0] === IPVS_CMD_NEW_DEST) counts.destinations++
    else draining.change(payload)
  } else if (protocol === NETLINK_ROUTE) {
    if (type === RTM_NEWROUTE) counts.routes++
    else if (type === RTM_NEWADDR) counts.addresses++
    else if (type === RTM_NEWLINK && flags !== 0) hasDevice = true
  } else if (type === ((SUBSYSTEM_IPSET << 8) | IPSET_CMD_ADD)) counts.entries++
}

function linesOf(protocol: number, message: Message): Uint8Array[] {
  const { type, payload } = message
  if (protocol === NETLINK_GENERIC && type === IPVS_FAMILY)
    return draining.list(payload).map((line) => reply(message, IPVS_FAMILY, line))
  if (protocol !== NETLINK_ROUTE) return []
  if (type === RTM_GETADDR) return [addressOf(message)]
  if (type !== RTM_GETLINK) return []
  return [linkOf(message, NODE_LINK, 'eth0'), ...(hasDevice ? [linkOf(message, DEVICE_LINK, 'kube-ipvs0')] : [])]
}

/** To a question that has one answer; undefined for a change, to which the kernel is silent unless it fails. */
function answerOf(protocol: number, message: Message): Uint8Array | undefined {
  const { type, payload } = message
  if (protocol === NETLINK_GENERIC) {
    if (type === GENL_ID_CTRL) {
      // struct genlmsghdr, then the name that was asked for, which the answer repeats.
      const family = attribute(CTRL_ATTR_FAMILY_ID, [IPVS_FAMILY, 0])
      return reply(message, GENL_ID_CTRL, [CTRL_CMD_NEWFAMILY, 1, 0, 0, ...family, ...payload.subarray(4)])
    }
    return payload[0] === IPVS_CMD_GET_SERVICE ? result(message, ESRCH) : undefined
  }
  if (protocol === NETLINK_ROUTE) {
    if (type !== RTM_GETLINK) return undefined
    return hasDevice ? linkOf(message, DEVICE_LINK, 'kube-ipvs0') : result(message, ENODEV)
  }
  const [subsystem, command] = [type >> 8, type & 0xff]
  if (subsystem !== SUBSYSTEM_IPSET) return reply(message, type, payload)
  // IPSET_ATTR_PROTOCOL and _PROTOCOL_MIN; IPSET_ATTR_REVISION and _REVISION_MIN.
  if (command === IPSET_CMD_PROTOCOL)
    return reply(message, type, [0, 0, 0, 0, ...attribute(1, [7]), ...attribute(10, [6])])
  if (command === IPSET_CMD_TYPE) return reply(message, type, [0, 0, 0, 0, ...attribute(4, [9]), ...attribute(10, [0])])
  return undefined
}

/** struct ifinfomsg: family, type, index at +4, flags at +8; IFLA_INFO_KIND inside IFLA_LINKINFO. */
function linkOf(message: Message, index: number, name: string): Uint8Array {
  const header = [0, 0, 0, 0, index, 0, 0, 0, IFF_UP, 0, 0, 0, 0, 0, 0, 0]
  const kind = attribute(1, [...Buffer.from('dummy\0')])
  return reply(message, RTM_NEWLINK, [
    ...header,
    ...attribute(IFLA_IFNAME, [...Buffer.from(`${name}\0`)]),
    ...attribute(IFLA_LINKINFO, kind),
  ])
}

/** struct ifaddrmsg: family, prefix length, flags, scope, index at +4. */
function addressOf(message: Message): Uint8Array {
  return reply(message, RTM_NEWADDR, [2, 24, 0, 0, NODE_LINK, 0, 0, 0, ...attribute(IFA_LOCAL, NODE_ADDRESS)])
}

function attribute(type: number, value: readonly number[]): number[] {
  const padding = new Array<number>((4 - (value.length & 3)) & 3).fill(0)
  return [value.length + 4, 0, type, 0, ...value, ...padding]
}

/** struct nlmsgerr: the negative errno and the header of the request; 0 is an acknowledgement. */
function result(message: Message, errno: number): Uint8Array {
  const payload = new Uint8Array(4 + HEADER_BYTES)
  new DataView(payload.buffer).setInt32(0, -errno, true)
  return reply(message, NLMSG_ERROR, payload, NLM_F_CAPPED)
}

/** Only the header of the request is repeated. */
const NLM_F_CAPPED = 0x100

function reply(to: Message, type: number, payload: ArrayLike<number>, flags = 0): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + payload.length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, bytes.length, true)
  view.setUint16(4, type, true)
  view.setUint16(6, flags, true)
  view.setUint32(8, to.sequence, true)
  bytes.set(payload, HEADER_BYTES)
  return bytes
}
