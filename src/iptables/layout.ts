/**
 * Which chains and jumps are ours, and the order in which they are written. Each mode says which it
 * has; nothing here knows a mode.
 */
import { isPlainJump, quoteWord, targetOf } from './rule-text.ts'
import type { TableId } from './types.ts'

export interface LayoutJump {
  readonly table: TableId
  readonly from: string
  readonly to: string
  /** '' for none. */
  readonly comment: string
  /** The jump matches only packets that begin a connection. */
  readonly onlyNew?: true
  /** No rule of another program that takes packets of Services may stand in front of it. */
  readonly isFirst?: true
}

/** The chains and jumps of one mode of kube-proxy. */
export interface ChainSet {
  /** Chains of fixed names. Each follows those that its rules jump to, so that they can be deleted in reverse order. */
  readonly chains: Readonly<Partial<Record<TableId, readonly string[]>>>
  /**
   * Chains of the table nat whose names end in a hash, by the part before it (`KUBE-SEP`). Each
   * follows those that its rules jump to.
   */
  readonly hashedChains?: readonly string[]
  /** In the order in which they are inserted: the last one ends up on top. */
  readonly jumps: readonly LayoutJump[]
  /** Keys of jumps that other releases wrote, with any text. */
  readonly otherJumps?: readonly string[]
  /** Keys of chains that kubelet writes as well: a mode may write them, and nothing removes them. */
  readonly shared?: readonly string[]
}

export interface ChainLayout {
  /** In the order in which they are written. */
  readonly tables: readonly TableId[]
  /** Chains of fixed names, in the order of ChainSet. */
  readonly chains: Readonly<Record<TableId, readonly string[]>>
  /** Chains with a hash, in the order of ChainSet. */
  readonly hashedChains: readonly RegExp[]
  readonly jumps: readonly LayoutJump[]
  /** Keys of the chains that kubelet writes as well. */
  readonly shared: ReadonlySet<string>
  /** Whether the mode leaves this chain of kubelet's, and the jumps to it, as they are. */
  isLeft(key: string): boolean
  /** Whether this chain is one of ours, of any mode. */
  owns(table: TableId, chain: string): boolean
  /** Whether some release of kube-proxy inserts jumps into this chain. */
  isOrigin(table: TableId, chain: string): boolean
  /** Whether the place of one of our jumps in this table matters. */
  hasPlaces(table: TableId): boolean
  /** Whether only other modes have this chain. */
  isOfOthers(table: TableId, chain: string): boolean
  /**
   * Whether this rule of a built-in chain is a jump that some release of kube-proxy inserts: its
   * target is one of our chains, and it matches nothing but new connections. Comments differ from
   * release to release.
   */
  isJump(table: TableId, from: string, rule: string): boolean
}

export interface LayoutOptions {
  /** In the order in which they are written. */
  readonly tables: readonly TableId[]
  /** What the mode writes. */
  readonly own: ChainSet
  /** Chains and jumps that other modes and releases may have left; they are read only to be removed. */
  readonly others: readonly ChainSet[]
}

export function layoutOf({ tables, own, others }: LayoutOptions): ChainLayout {
  const sets = [own, ...others]
  const shared = new Set(sets.flatMap((set) => set.shared ?? []))
  const chainsOf = (table: TableId): readonly string[] => {
    const ours = own.chains[table] ?? []
    const foreign = others.flatMap(({ chains }) => chains[table] ?? []).filter((chain) => !ours.includes(chain))
    // The first one is KUBE-MARK-MASQ, to which chains of the other mode jump as well.
    return [...ours.slice(0, 1), ...new Set(foreign), ...ours.slice(1)]
  }
  const chains = { nat: chainsOf('nat'), filter: chainsOf('filter'), mangle: chainsOf('mangle') }
  const jumps = [...own.jumps]
  for (const jump of others.flatMap((set) => set.jumps))
    if (!jumps.some((one) => jumpKey(one) === jumpKey(jump))) jumps.push(jump)
  const hashedChains = [...new Set(sets.flatMap((set) => set.hashedChains ?? []))].map(
    (name) => new RegExp(`^${name}-[A-Z2-7]{16}$`),
  )
  const places = new Set([
    ...jumps.map(({ table, from, to }) => jumpKey({ table, from, to })),
    ...sets.flatMap((set) => set.otherJumps ?? []),
  ])
  const origins = new Set(Array.from(places, (place) => place.slice(0, place.lastIndexOf(' '))))
  const owns = (table: TableId, chain: string): boolean =>
    chains[table].includes(chain) || (table === 'nat' && hashedChains.some((name) => name.test(chain)))
  const isHashedHere = (chain: string): boolean =>
    own.hashedChains?.some((name) => chain.startsWith(`${name}-`)) ?? false
  return {
    tables,
    chains,
    hashedChains,
    jumps,
    shared,
    isLeft: (key) => shared.has(key) && own.shared?.includes(key) !== true,
    isJump: (table, from, rule) =>
      origins.has(chainKey(table, from)) &&
      places.has(jumpKey({ table, from, to: targetOf(rule) ?? '' })) &&
      isPlainJump(rule),
    owns,
    isOrigin: (table, chain) => origins.has(chainKey(table, chain)),
    hasPlaces: (table) => jumps.some((jump) => jump.table === table && jump.isFirst === true),
    isOfOthers: (table, chain) =>
      owns(table, chain) && own.chains[table]?.includes(chain) !== true && !isHashedHere(chain),
  }
}

/** Those of `chains` that are ours in this table, each after those that its rules jump to. */
export function ownChains(layout: ChainLayout, table: TableId, chains: Iterable<string>): string[] {
  const there = new Set(chains)
  const [first, ...rest] = layout.chains[table].filter((chain) => there.has(chain))
  const hashed: string[][] = layout.hashedChains.map(() => [])
  if (table === 'nat')
    for (const chain of there) hashed[layout.hashedChains.findIndex((name) => name.test(chain))]?.push(chain)
  // The first one is KUBE-MARK-MASQ, to which they jump, unless another program removed it.
  return [...(first === undefined ? [] : [first]), ...hashed.flat(), ...rest]
}

/** `nat KUBE-SERVICES` */
export function chainKey(table: TableId, chain: string): string {
  return `${table} ${chain}`
}

/**
 * `nat OUTPUT KUBE-SERVICES`; with ` NEW` for a jump of only new connections, because both modes
 * have a jump at that place.
 */
export function jumpKey({ table, from, to, onlyNew }: Omit<LayoutJump, 'comment'>): string {
  return `${table} ${from} ${to}${onlyNew === true ? ' NEW' : ''}`
}

const NEW = '-m conntrack --ctstate NEW'

/** `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES` */
export function jumpRule({ comment, to, onlyNew }: LayoutJump): string {
  const match = onlyNew === true ? `${NEW} ` : ''
  return `${match}${comment === '' ? '' : `-m comment --comment ${quoteWord(comment)} `}-j ${to}`
}

/** Whether this rule is a jump that matches only new connections. */
export function isOnlyNew(rule: string): boolean {
  return rule.includes('--ctstate NEW')
}
