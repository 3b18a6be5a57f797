/**
 * The schedulers of Linux (net/netfilter/ipvs/ip_vs_*.c), and what is known of each. A
 * configuration may name another one; a Service may not, because the kernel loads the module
 * `ip_vs_NAME` for any name that it does not know.
 */

/** What decides which real server gets a connection. */
export type SchedulerChoice =
  /** They get connections in turns. */
  | 'turns'
  /** Their load. */
  | 'load'
  /** The client: each always has the same. */
  | 'client'
  /** Nothing of the client: all clients of an address have the same. */
  | 'same'

/** What a weight above 0 does; none chooses a real server with weight 0. */
export type WeightUse =
  /** Nothing: the scheduler only looks whether it is 0. */
  | 'none'
  /** A real server gets more connections as its weight rises. */
  | 'share'
  /** It is no share: `sh` has few places for all weights, `fo` and `ovf` use one real server after the other. */
  | 'order'

export interface SchedulerTraits {
  readonly choice: SchedulerChoice
  readonly weight: WeightUse
  /** Has the flags fallback and port. */
  readonly hasFlags?: true
}

const TRAITS = {
  rr: { choice: 'turns', weight: 'none' },
  wrr: { choice: 'turns', weight: 'share' },
  lc: { choice: 'load', weight: 'none' },
  wlc: { choice: 'load', weight: 'share' },
  lblc: { choice: 'load', weight: 'share' },
  lblcr: { choice: 'load', weight: 'share' },
  sh: { choice: 'client', weight: 'order', hasFlags: true },
  dh: { choice: 'same', weight: 'none' },
  sed: { choice: 'load', weight: 'share' },
  nq: { choice: 'load', weight: 'share' },
  fo: { choice: 'same', weight: 'order' },
  ovf: { choice: 'same', weight: 'order' },
  mh: { choice: 'client', weight: 'share', hasFlags: true },
  twos: { choice: 'load', weight: 'share' },
} as const satisfies Readonly<Record<string, SchedulerTraits>>

export type SchedulerName = keyof typeof TRAITS

export const SCHEDULERS = Object.keys(TRAITS) as readonly SchedulerName[] // the keys of the literal above

const BY_NAME: ReadonlyMap<string, SchedulerTraits> = new Map(Object.entries(TRAITS))

/** One that only a configuration names may choose by anything, and is taken to ignore weights. */
export function schedulerTraits(name: string): SchedulerTraits {
  return BY_NAME.get(name) ?? { choice: 'load', weight: 'none' }
}

/**
 * Whether nodes may have the real servers in different orders. With turns and load the kernel takes
 * the first of those that are equal, so that one order for all nodes would favour one real server.
 * With the others, and with one that is not known here, one order for all nodes is what sends a
 * client to the same real server by every node.
 */
export function mayDifferByNode(name: string): boolean {
  const choice = BY_NAME.get(name)?.choice
  return choice === 'turns' || choice === 'load'
}

/** The schedulers with such a use of weights, for messages. */
export const schedulersBy = (isChosen: (traits: SchedulerTraits) => boolean): readonly SchedulerName[] =>
  SCHEDULERS.filter((name) => isChosen(TRAITS[name]))
