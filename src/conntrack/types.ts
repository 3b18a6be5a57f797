/**
 * A tracked flow as the kernel's conntrack table has it, in our own terms.
 * What could break: `original` is what the client sent, before any translation; what answers stands in `reply.source`.
 */
import type { IpFamily, Protocol } from '../values/protocol.ts'

/** One direction of a flow (struct nf_conntrack_tuple). */
export interface FlowTuple {
  /** Canonical text. */
  readonly source: string
  readonly sourcePort: number
  readonly destination: string
  readonly destinationPort: number
  /** Conntrack zone that counts in this direction alone (CTA_TUPLE_ZONE); 0 is the default zone. */
  readonly zone: number
}

/** One entry of the conntrack table. */
export interface Flow {
  readonly family: IpFamily
  readonly protocol: Protocol
  readonly original: FlowTuple
  readonly reply: FlowTuple
  /** Conntrack zone of both directions (CTA_ZONE); 0 is the default zone. */
  readonly zone: number
  /** CTA_ID: made of the tuple and of where the kernel keeps the flow, so a later flow of the same tuple mostly has another. */
  readonly id: number
}

/** Which flows a dump is to list. */
export interface FlowFilter {
  readonly family: IpFamily
  readonly protocol: Protocol
  /** Where the client sent to; absent: anywhere. */
  readonly destination?: string
  readonly destinationPort?: number
}

/** How full the conntrack table is. */
export interface TableSize {
  readonly flows: number
  /** nf_conntrack_max; undefined where the kernel does not tell. */
  readonly limit: number | undefined
}
