/**
 * A tracked flow of the kernel's conntrack table, in our own terms. `original` is what the client
 * sent, before any translation; `reply.source` is the endpoint that answers.
 */
import type { IpFamily, Protocol } from '../values/protocol.ts'

/** One direction of a flow (struct nf_conntrack_tuple). */
export interface FlowTuple {
  /** Canonical text. */
  readonly source: string
  readonly sourcePort: number
  readonly destination: string
  readonly destinationPort: number
  /** Conntrack zone of this direction only (CTA_TUPLE_ZONE); 0 is the default zone. */
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
  /**
   * CTA_ID, derived from the tuple and the flow's address in the kernel: a later flow with the same
   * tuple usually has another ID.
   */
  readonly id: number
}

/** What a dump says of a flow that is not part of its identity. */
export interface FlowState {
  /** A TCP flow that is neither closed nor half closed. */
  readonly isActiveTcp: boolean
  /** A rule of iptables or nftables has translated the destination; IPVS and the client itself are no rules. */
  readonly isByRule: boolean
}

/** The flows that a dump lists. */
export interface FlowFilter {
  readonly family: IpFamily
  readonly protocol: Protocol
  /** The client's destination; absent: any. */
  readonly destination?: string
  readonly destinationPort?: number
}

/** Size of the conntrack table. */
export interface TableSize {
  readonly flows: number
  /** nf_conntrack_max; undefined where the kernel does not send it. */
  readonly limit: number | undefined
}
