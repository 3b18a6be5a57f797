/**
 * Fingerprints of parts of the kernel in this process's network namespace, read over netlink
 * without waiting: texts that differ whenever the part has changed, for waits that look again and
 * again (waiting.ts). No counter is in them.
 */
import { createHash } from 'node:crypto'
import { NetlinkSocket } from '../../native/netlink-socket.ts'
import { encodeList } from '../../src/ipset/codec.ts'
import { decodeDestination } from '../../src/ipvs/codec-destinations.ts'
import { type DecodedService, decodeService, encodeServiceId } from '../../src/ipvs/codec-servers.ts'
import { IPVS_GENL_NAME } from '../../src/ipvs/codec.ts'
import { beginIpvs } from '../../src/ipvs/batch.ts'
import { encodeDumpAddresses } from '../../src/netlink/address-codec.ts'
import { MessageBatch, requestOf } from '../../src/netlink/batch.ts'
import {
  CTRL_ATTR_FAMILY_NAME,
  CTRL_CMD_GETFAMILY,
  GENL_ID_CTRL,
  NETLINK_GENERIC,
  NETLINK_NETFILTER,
  NETLINK_ROUTE,
  NLMSG_DONE,
  NLMSG_ERROR,
} from '../../src/netlink/constants.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import { decodeFamilyId } from '../../src/netlink/generic-codec.ts'
import { encodeDumpLinks } from '../../src/netlink/link-codec.ts'
import { decodeError, type ReceivedMessage, visitMessages } from '../../src/netlink/message.ts'
import { beginNetfilter, NFNL_SUBSYS } from '../../src/netlink/nfnetlink-codec.ts'
import { encodeDumpRoutes } from '../../src/netlink/route-codec.ts'

/** linux/netfilter/nf_tables.h */
const NFT_MSG_GETGEN = 16

/** Virtual servers and real servers. A kernel without IPVS has the fingerprint `none`. */
export function ipvsFingerprint(): string {
  const parts: unknown[] = []
  return withSocket(NETLINK_GENERIC, (socket) => {
    const family = ipvsFamily(socket)
    if (family === undefined) return 'none'
    const list = (command: 'GET_SERVICE' | 'GET_DEST', encode: (batch: MessageBatch) => void): MessageBatch => {
      const batch = new MessageBatch(256)
      beginIpvs(batch, family, command, 'dump')
      encode(batch)
      batch.end()
      return batch
    }
    const found: DecodedService[] = []
    exchange(
      socket,
      list('GET_SERVICE', () => undefined),
      (message) => {
        const service = decodeService(message)
        if (service !== undefined) found.push(service)
        else parts.push('other')
      },
    )
    for (const { fields } of found) {
      parts.push(fields)
      const destinations = list('GET_DEST', (batch) => encodeServiceId(batch, fields))
      exchange(socket, destinations, (message) => parts.push(decodeDestination(message, fields.family)))
    }
    // Numbers of connections are part of what the codec reads.
    return JSON.stringify(parts, (name, value: unknown) => (name.endsWith('Connections') ? undefined : value))
  })
}

/** Every ipset with its entries. */
export const ipsetFingerprint = (): string =>
  digestOf(NETLINK_NETFILTER, [requestOf((batch) => encodeList(batch, undefined, false))])

/** Links, addresses and routes. */
export const networkFingerprint = (): string =>
  digestOf(NETLINK_ROUTE, [
    requestOf((batch) => encodeDumpAddresses(batch)),
    requestOf((batch) => encodeDumpRoutes(batch)),
  ])

/** Whether a link was added, removed or changed; counters of packets are part of it. */
export const linksFingerprint = (): string => digestOf(NETLINK_ROUTE, [requestOf(encodeDumpLinks)])

/** All of nf_tables: the number of its generation grows with each change, of any table. */
export function nftFingerprint(): string {
  const batch = new MessageBatch(64)
  beginNetfilter(batch, NFNL_SUBSYS.NFTABLES, NFT_MSG_GETGEN, 0, 'NFT_MSG_GETGEN')
  batch.end()
  return withSocket(NETLINK_NETFILTER, (socket) => {
    const texts: string[] = []
    exchange(socket, batch, (message) => texts.push(hexOf(message)))
    // Behind the number are the id and name of the process that asks or wrote last; all of it may count.
    return texts.join()
  })
}

/**
 * Asked each time: the number is another one after the module was loaded again, and the kernel
 * answers the old one with nothing.
 */
function ipvsFamily(socket: NetlinkSocket): number | undefined {
  const batch = new MessageBatch(128)
  batch.beginGeneric(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1, 0, `CTRL_CMD_GETFAMILY ${IPVS_GENL_NAME}`)
  batch.string(CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME)
  batch.end()
  let family: number | undefined
  exchange(socket, batch, (message) => {
    family = decodeFamilyId(message, IPVS_GENL_NAME)
  })
  return family
}

function digestOf(protocol: number, requests: readonly MessageBatch[]): string {
  const hash = createHash('sha1')
  withSocket(protocol, (socket) => {
    for (const request of requests)
      exchange(socket, request, (message) => hash.update(message.bytes.subarray(message.start, message.end)))
  })
  return hash.digest('base64')
}

const hexOf = ({ bytes, start, end }: ReceivedMessage): string =>
  Buffer.from(bytes.subarray(start, end)).toString('hex')

/** A socket of this moment's network namespace, which a test may change. */
function withSocket<T>(protocol: number, act: (socket: NetlinkSocket) => T): T {
  const socket = NetlinkSocket.open(protocol)
  try {
    return act(socket)
  } finally {
    socket.close()
  }
}

/**
 * Sends a request and visits the replies until the dump ends, or after the one reply of a request
 * that is no dump. The kernel answers inside `sendto` and `recvfrom`. A refusal ends it without a
 * reply: what is not there has no fingerprint of its own.
 */
function exchange(socket: NetlinkSocket, request: MessageBatch, visit: (message: ReceivedMessage) => void): void {
  socket.send(request.seal(1, false))
  for (let isOver = false; !isOver; ) {
    const datagram = socket.receive()
    if (datagram === undefined) return
    visitMessages(datagram, (message) => {
      if (message.type === NLMSG_DONE) isOver = true
      else if (message.type === NLMSG_ERROR) {
        const { errno } = decodeError(message)
        if (errno !== 0 && !ABSENT.has(new KernelError(errno, '').code))
          throw new KernelError(errno, request.operation(0))
        isOver = true
      } else visit(message)
    })
  }
}

/** The subsystem, the family or the object is not there. */
const ABSENT: ReadonlySet<string> = new Set(['ENOENT', 'EINVAL', 'EOPNOTSUPP', 'ESRCH'])
