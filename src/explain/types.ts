/**
 * A packet that begins a connection, and its predicted path through this node: the rules, set
 * entries, routes and real servers that decide, in order, and where it ends. A prediction never
 * guesses silently: a rule that cannot be judged is a step by itself, and every outcome after it
 * says on which condition it depends.
 */
import type { Protocol } from '../values/protocol.ts'
import type { SchedulerChoice } from '../values/schedulers.ts'

/** `icmp` is an echo request (ping) of the family of the addresses. */
export type PacketProtocol = Protocol | 'icmp'

/** The first packet of a new connection. */
export interface Packet {
  /** Canonical address; undefined for a process of this node that lets the kernel choose its address. */
  readonly source: string | undefined
  /** Canonical address of the same family. */
  readonly destination: string
  /** 0 for icmp. */
  readonly port: number
  readonly protocol: PacketProtocol
  /** The interface at which it arrives. Absent: the one through which this node reaches `source`. */
  readonly arrivesAt?: string
}

/** Where rules see a packet, named as their built-in chains. */
export type Hook = 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING'

/** What happened to the packet at one step. */
export type StepEffect =
  /** The rule sent it to another chain. */
  | { readonly kind: 'jump'; readonly chain: string }
  /** Numbers as the rule has them. */
  | { readonly kind: 'mark'; readonly mark: number }
  /** The table is done with it at this hook. */
  | { readonly kind: 'accept' }
  | { readonly kind: 'return' }
  | { readonly kind: 'drop' }
  /** `by`: what is sent back, as the option --reject-with names it. */
  | { readonly kind: 'refuse'; readonly by: string }
  /** The policy of a built-in chain that is not ACCEPT. */
  | { readonly kind: 'policy'; readonly policy: string }
  /** Its destination changed (DNAT), with `share` as the chance that this rule was chosen. */
  | { readonly kind: 'translate'; readonly address: string; readonly port: number }
  /** Its source becomes an address of this node. `address`: undefined when the kernel's choice cannot be known. */
  | { readonly kind: 'masquerade'; readonly address: string | undefined }
  /** It keeps its destination: no later rule of nat translates that. */
  | { readonly kind: 'keep-destination' }
  /** Rules no longer know its connection (NOTRACK), so that no rule of nat sees it. */
  | { readonly kind: 'untrack' }
  /** IPVS chose this real server. */
  | {
      readonly kind: 'balance'
      readonly virtualServer: string
      readonly scheduler: string
      readonly realServer: string
      readonly share: number | null
    }
  /** IPVS has no usable real server there. */
  | { readonly kind: 'no-real-server'; readonly virtualServer: string }
  /** The kernel routes it. */
  | { readonly kind: 'route'; readonly decision: RouteDecision }
  /**
   * Whether the rule matches cannot be known, and this path assumes one of both. `because` names
   * what is not understood.
   */
  | { readonly kind: 'unjudged'; readonly matches: boolean; readonly because: string }

export interface PathStep {
  readonly hook: Hook
  /** A table of iptables (`nat`), the private table of nf_tables (`ip kube-ipvs`), `ipvs`, or `routing`. */
  readonly table: string
  /** '' for steps of ipvs and routing. */
  readonly chain: string
  /** The rule, `-A CHAIN …` or as `nft list table` prints it; '' where no rule decided. */
  readonly rule: string
  /**
   * The sets that the rule looked up, with the entry that it found; undefined for one that a
   * negated match did not find, and for the source ranges that the packet is not in.
   */
  readonly sets: readonly { readonly name: string; readonly entry: string | undefined }[]
  /** The chance with which a rule with `-m statistic` was taken; absent for all others. */
  readonly chance?: number
  readonly effect: StepEffect
}

/** How the kernel routes a packet. */
export type RouteDecision =
  /** To this node itself. */
  | { readonly kind: 'local' }
  /** Out of this interface; `gateway` is undefined when the destination is its neighbour. */
  | { readonly kind: 'out'; readonly interface: string; readonly gateway: string | undefined }
  /** Nowhere. `error`: the kernel's (`ENETUNREACH`, `EINVAL` for a source that it does not accept). */
  | { readonly kind: 'none'; readonly error: string }

/** The source that the endpoint sees. */
export type SeenSource =
  /** The client's own, which may be an address that the kernel chose for a process of this node. */
  | { readonly kind: 'own'; readonly address: string }
  /** One of this node's, by masquerading. `address`: undefined when the kernel's choice cannot be known. */
  | { readonly kind: 'node'; readonly address: string | undefined }

/**
 * Whether the endpoint's answer comes back to the client through this node, without which the
 * client does not recognise it.
 */
export type AnswerPath =
  | { readonly kind: 'returns' }
  /** It goes to the client past this node. */
  | { readonly kind: 'bypasses'; readonly because: string }
  /** It returns to this node, and a rule or the routing drops it here: the last of `steps`. */
  | { readonly kind: 'dropped'; readonly steps: readonly PathStep[] }
  | { readonly kind: 'unsure'; readonly because: string }

/** Where the packet ends. */
export type End =
  /** At an endpoint of a Service, by IPVS or by a rule with DNAT. */
  | {
      readonly kind: 'endpoint'
      readonly by: 'ipvs' | 'dnat'
      readonly address: string
      readonly port: number
      readonly source: SeenSource
      /** Whether the endpoint is an address of this node (host network). */
      readonly isLocal: boolean
      readonly answer: AnswerPath
    }
  /** Refused with an ICMP message or a reset. */
  | { readonly kind: 'refused'; readonly by: string }
  /** Dropped silently. A process of this node gets an error at once for a datagram that OUTPUT drops. */
  | { readonly kind: 'dropped' }
  /** Delivered to a process of this node at this address, without any Service. */
  | { readonly kind: 'delivered'; readonly address: string; readonly port: number; readonly source: SeenSource }
  /** Sent on to its destination, which no Service of this node has. */
  | {
      readonly kind: 'forwarded'
      readonly interface: string
      readonly gateway: string | undefined
      readonly source: SeenSource
    }
  /** The kernel has no way to the destination, or does not forward. */
  | { readonly kind: 'unroutable'; readonly error: string }

/** A rule that cannot be judged, and what is assumed of it. */
export interface Condition {
  readonly hook: Hook
  readonly table: string
  readonly rule: string
  readonly matches: boolean
  readonly because: string
}

export interface Outcome {
  readonly end: End
  /**
   * The chance of this outcome if its conditions hold: from 0 (exclusive) to 1. null: it depends on
   * the load of the real servers (schedulers like lc) and is not known.
   */
  readonly share: number | null
  /** Rules that cannot be judged and on which this outcome depends. */
  readonly conditions: readonly Condition[]
  /** The steps after those that all outcomes have in common. */
  readonly steps: readonly PathStep[]
}

/** How shares come about, when there is more than one endpoint: by the scheduler, or at random (-m statistic). */
export type Choice = SchedulerChoice | 'random'

export interface PacketPath {
  /**
   * The address that the packet has as its source, also where the kernel chooses it; undefined when
   * it has none to choose.
   */
  readonly source: string | undefined
  /** The interface at which it arrives; undefined for a process of this node. */
  readonly arrivesAt: string | undefined
  /** The steps that all outcomes have in common. */
  readonly steps: readonly PathStep[]
  /** At least one. Their shares add up to 1 for each way to fulfil their conditions. */
  readonly outcomes: readonly Outcome[]
  /** undefined where nothing is chosen. */
  readonly choice: Choice | undefined
  /** A client that was here before keeps its endpoint for this time: sessionAffinity. 0 without it. */
  readonly affinitySeconds: number
  /** What may decide about the packet and was not considered, in plain words. */
  readonly limits: readonly string[]
}
