/** What the kernel says over rtnetlink and generic netlink: headers and errors, interfaces, routes, rules, IPVS. */
import { requestOf } from '../../../../src/netlink/batch.ts'
import { decodeAddress } from '../../../../src/netlink/address-codec.ts'
import { decodeFamilyId } from '../../../../src/netlink/generic-codec.ts'
import { decodeLink } from '../../../../src/netlink/link-codec.ts'
import { decodeDone, decodeError, type ReceivedMessage, visitMessages } from '../../../../src/netlink/message.ts'
import { decodeTunnelPeer } from '../../../../src/netlink/neighbour-codec.ts'
import { decodePolicyRule } from '../../../../src/netlink/policy-rules.ts'
import {
  decodeGatewayInterfaces,
  decodeGateways,
  decodeRoute,
  encodeAddRoute,
} from '../../../../src/netlink/route-codec.ts'
import { decodeFoundRoute } from '../../../../src/netlink/route-lookup.ts'
import { decodeCountedDestination, encodeDestination } from '../../../../src/ipvs/codec-destinations.ts'
import {
  decodeCountedService,
  decodeService,
  decodeServiceTraffic,
  encodeService,
} from '../../../../src/ipvs/codec-servers.ts'
import { TRAFFIC_FIELDS } from '../../../../src/ipvs/codec-traffic.ts'
import { decodeInfo, decodeTimeouts, IPVS_CMD } from '../../../../src/ipvs/codec.ts'
import { parseAddress } from '../../../../src/values/address.ts'
import { rule, type Target, unlessRefused } from '../target.ts'

const MALFORMED = ['netlink-malformed']
/** The longest datagram that is received is longer; these are long enough for counts to matter. */
const MAX_BYTES = 24 * 1024

/** Calls each function with each message; what is malformed may be refused. */
export function eachMessage(input: Uint8Array, functions: readonly ((message: ReceivedMessage) => unknown)[]): void {
  const messages: ReceivedMessage[] = []
  unlessRefused(MALFORMED, () => visitMessages(input, (message) => void messages.push({ ...message })))
  for (const message of messages) for (const read of functions) unlessRefused(MALFORMED, () => read(message))
}

/** The message of a request, as the kernel would repeat it. @param type instead of its own */
export function reply(encode: Parameters<typeof requestOf>[0], type?: number): Uint8Array {
  const bytes = requestOf(encode).bytes.slice()
  if (type !== undefined) new DataView(bytes.buffer).setUint16(4, type, true)
  return bytes
}

/** The one message of some bytes. */
export function firstMessage(bytes: Uint8Array): ReceivedMessage {
  let found: ReceivedMessage | undefined
  visitMessages(bytes, (message) => {
    found ??= { ...message }
  })
  if (found === undefined) throw new TypeError('no message')
  return found
}

function isAddress(text: string | undefined): boolean {
  return text === undefined || parseAddress(text) === text
}

const counters = new Float64Array(TRAFFIC_FIELDS)

export const NETLINK_TARGETS: readonly Target[] = [
  {
    name: 'netlink-answers',
    what: 'headers, errors with extended ACK, the end of a dump, and the number of a family',
    form: 'netlink',
    headerBytes: 20,
    maxBytes: MAX_BYTES,
    run: (input) => eachMessage(input, [decodeError, decodeDone, (message) => decodeFamilyId(message, 'IPVS')]),
  },
  {
    name: 'netlink-links',
    what: 'interfaces',
    form: 'netlink',
    headerBytes: 16,
    words: ['kube-ipvs0', 'dummy', 'veth', 'bridge'],
    maxBytes: MAX_BYTES,
    run: (input) => eachMessage(input, [decodeLink]),
  },
  {
    name: 'netlink-addresses',
    what: 'addresses of interfaces',
    form: 'netlink',
    headerBytes: 8,
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        (message) => {
          const found = decodeAddress(message)
          rule(isAddress(found?.address), 'an interface has an address')
        },
      ]),
  },
  {
    name: 'netlink-routes',
    what: 'routes, their gateways, and the answer to a look-up',
    form: 'netlink',
    headerBytes: 12,
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        (message) => {
          const route = decodeRoute(message)
          if (route === undefined) return
          rule(isAddress(route.destination) && isAddress(route.gateway), 'a route has addresses')
          requestOf((batch) => encodeAddRoute(batch, route))
        },
        decodeGateways,
        decodeGatewayInterfaces,
        decodeFoundRoute,
      ]),
  },
  {
    name: 'netlink-rules',
    what: 'rules of policy routing, and forwarding entries of devices',
    form: 'netlink',
    headerBytes: 12,
    maxBytes: MAX_BYTES,
    run: (input) => eachMessage(input, [decodePolicyRule, decodeTunnelPeer]),
  },
  {
    name: 'ipvs-services',
    what: 'virtual servers with their counters',
    form: 'netlink',
    headerBytes: 4,
    words: ['rr', 'wrr', 'mh', 'sip', 'a-name-of-15-byt'],
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        decodeCountedService,
        (message) => decodeServiceTraffic(message, counters),
        (message) => {
          const found = decodeService(message)
          if (found === undefined) return
          const again = unlessRefused(['netlink-unencodable'], () => {
            const bytes = reply((batch) => {
              batch.beginGeneric(message.type, IPVS_CMD.NEW_SERVICE, 1, 0, 'IPVS_CMD_NEW_SERVICE')
              encodeService(batch, found.fields)
              batch.end()
            })
            return decodeService(firstMessage(bytes))
          })
          rule(
            again === undefined || JSON.stringify(again) === JSON.stringify(found),
            'a service is written as it was read',
          )
        },
      ]),
  },
  {
    name: 'ipvs-destinations',
    what: 'real servers with their counters',
    form: 'netlink',
    headerBytes: 4,
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        (message) => {
          const found = decodeCountedDestination(message, 'IPv4')
          if (found === undefined) return
          rule(isAddress(found.realServer.address), 'a real server has an address')
          requestOf((batch) => {
            batch.beginGeneric(message.type, IPVS_CMD.NEW_DEST, 1, 0, 'IPVS_CMD_NEW_DEST')
            encodeDestination(batch, found.realServer)
            batch.end()
          })
        },
      ]),
  },
  {
    name: 'ipvs-settings',
    what: 'timeouts and version of IPVS',
    form: 'netlink',
    headerBytes: 4,
    maxBytes: MAX_BYTES,
    run: (input) => eachMessage(input, [decodeTimeouts, decodeInfo]),
  },
]
