/**
 * What a base chain of nf_tables does with a packet about which no condition decides: its policy,
 * or a rule without conditions in front of that, such as the `reject` with which the chains of
 * firewalld end. Read-only.
 * @impure
 */
import { requestOf } from '../netlink/batch.ts'
import type { DumpOptions, NetlinkConnection } from '../netlink/connection.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import type { NftBaseChain } from './chains.ts'
import { type NftVerdict, readExpressions } from './expressions.ts'
import { expressionOf, isEndingTarget, nameInXtables } from './rule-for-answers.ts'
import { decodeRuleMessage, encodeListRules } from './rule-message.ts'
import { NFTA_LIST_ELEM } from './wire.ts'

/** Jumps that are followed from one base chain, and how deep: the kernel allows 16. */
const MOST_CHAINS = 64
const DEEPEST = 16

export type ChainRest = 'accept' | 'drop' | 'reject'

/** What a rule without conditions does. */
export type Unconditional = NftVerdict | { readonly kind: 'reject'; readonly chain: '' }

type Place = Pick<NftBaseChain, 'family' | 'table' | 'chain'>

export interface ChainRestOptions extends DumpOptions {
  /** Chains whose rules do not count. */
  readonly isLeftOut?: (chain: string) => boolean
}

/** `netlink` is of NETLINK_NETFILTER. A chain that is gone meanwhile has its policy. */
export function restOfChain(
  netlink: NetlinkConnection,
  chain: NftBaseChain,
  { isLeftOut = () => false, ...options }: ChainRestOptions = {},
): Promise<ChainRest> {
  return restOf(chain, async (place) => (isLeftOut(place.chain) ? [] : listUnconditional(netlink, place, options)))
}

/** The same; `list` reads the rules without conditions of one chain, in order. */
export async function restOf(
  { policy, ...base }: Place & Pick<NftBaseChain, 'policy'>,
  list: (place: Place) => Promise<readonly Unconditional[]>,
): Promise<ChainRest> {
  let chains = 0
  const decided = async (chain: string, depth: number): Promise<ChainRest | undefined> => {
    if (depth > DEEPEST || ++chains > MOST_CHAINS) return undefined
    for (const rule of await list({ ...base, chain })) {
      const { kind } = rule
      if (kind === 'accept' || kind === 'drop' || kind === 'reject') return kind
      const isJump = kind === 'jump' || kind === 'goto'
      const called = isJump ? await decided(rule.chain, depth + 1) : undefined
      if (called !== undefined) return called
      if (kind !== 'jump') return undefined
    }
    return undefined
  }
  return (await decided(base.chain, 0)) ?? policy
}

function listUnconditional(
  netlink: NetlinkConnection,
  place: Place,
  options: DumpOptions,
): Promise<readonly Unconditional[]> {
  return netlink.dump(
    requestOf((batch) => encodeListRules(batch, place)),
    (message) => decodeUnconditional(message, place),
    options,
  )
}

/** A rule of the chain that has no condition and a verdict; undefined for every other one. */
export function decodeUnconditional(message: ReceivedMessage, place: Place): Unconditional | undefined {
  const expressions = decodeRuleMessage(message, place)?.expressions
  if (expressions === undefined) return undefined
  let ends = false
  const again = expressions.copy()
  while (again.next()) {
    if (again.type !== NFTA_LIST_ELEM) continue
    const { name, data } = expressionOf(again.nested())
    const isEnd = name === 'reject' || (name === 'target' && isEndingTarget(data))
    if (!isEnd && !EFFECTS.has(name) && !(name === 'match' && nameInXtables(data) === 'comment')) return undefined
    ends ||= isEnd
  }
  if (ends) return { kind: 'reject', chain: '' }
  // Without a condition the family changes nothing.
  return readExpressions(expressions, 'IPv4').verdict
}

/** Expressions that look at nothing. */
const EFFECTS: ReadonlySet<string> = new Set(['counter', 'log', 'immediate'])
