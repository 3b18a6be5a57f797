/**
 * Transport protocols and IP families, with their numbers on the wire: IANA protocol numbers and
 * Linux AF_* values.
 */

export type Protocol = 'tcp' | 'udp' | 'sctp'
export type IpFamily = 'IPv4' | 'IPv6'

/** Both families, in the order in which they are handled and printed. */
export const IP_FAMILIES: readonly IpFamily[] = ['IPv4', 'IPv6']

/** Families for which something does not work, each with the reason. */
export type UnusableFamilies = { readonly [family in IpFamily]?: string }

/** IANA protocol numbers (IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP of linux/in.h). */
export const PROTOCOL_NUMBER: Readonly<Record<Protocol, number>> = { tcp: 6, udp: 17, sctp: 132 }

/** AF_INET and AF_INET6 of linux/socket.h. */
export const FAMILY_NUMBER: Readonly<Record<IpFamily, number>> = { IPv4: 2, IPv6: 10 }

/** The family with this AF_* number; undefined for any other number. */
export function familyOfNumber(number: number | undefined): IpFamily | undefined {
  if (number === FAMILY_NUMBER.IPv4) return 'IPv4'
  if (number === FAMILY_NUMBER.IPv6) return 'IPv6'
  return undefined
}

/** The protocol with this IANA number; undefined for one that no Service has. */
export function protocolOfNumber(number: number): Protocol | undefined {
  if (number === PROTOCOL_NUMBER.tcp) return 'tcp'
  if (number === PROTOCOL_NUMBER.udp) return 'udp'
  if (number === PROTOCOL_NUMBER.sctp) return 'sctp'
  return undefined
}

/** The protocol of a Kubernetes `protocol` field ("TCP"); undefined for any other text. */
export function parseProtocol(text: string): Protocol | undefined {
  switch (text) {
    case 'TCP':
      return 'tcp'
    case 'UDP':
      return 'udp'
    case 'SCTP':
      return 'sctp'
    default:
      return undefined
  }
}
