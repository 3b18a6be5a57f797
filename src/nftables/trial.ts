/**
 * What a kernel has for the private tables, by a transaction that it checks and drops: no
 * NFNL_MSG_BATCH_END follows. It takes the kernel 20 to 80 ms, so this is for starts only. The
 * kernel may load modules, as it would for the tables; nothing else changes.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { CallOptions, NetlinkConnection } from '../netlink/connection.ts'
import { encodeBatchBegin, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { hasSubsystem } from '../netlink/subsystems.ts'
import type { MissingFeature } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { encodeNewChain, encodeRule, messagesOf } from './chain-codec.ts'
import { missingNfTables, missingPart, moduleOf, type RefusedPart } from './refusals.ts'
import { encodeNewTable } from './table-codec.ts'
import { SetIds } from './transaction-plan.ts'
import type { NftChain, NftItem, NftStatement } from './types.ts'

/** A name that no table has, so that neither its content nor its owner matters. */
const TABLE = 'kube-ipvs-trial'
const OWNED_TABLE = 'kube-ipvs-trial-owned'

export interface TrialResult {
  /** The first thing that the kernel lacks, with the module that has it. */
  readonly lacks: MissingFeature | undefined
  /** Whether a table can belong to a socket and outlive it (NFT_TABLE_F_OWNER and PERSIST, kernel 6.9). */
  readonly mayOwn: boolean
}

/**
 * Tries the tables, the kinds of chains and the statements of `items`. `netlink` is of
 * NETLINK_NETFILTER. Rejects when the kernel refuses the request (EPERM).
 */
export async function tryPrivateTable(
  netlink: NetlinkConnection,
  items: readonly NftItem[],
  options: CallOptions = {},
): Promise<TrialResult> {
  if (!(await hasSubsystem(netlink, 'nf_tables', options))) return { lacks: missingNfTables(), mayOwn: false }
  const batch = new MessageBatch(1024)
  encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
  const parts: (RefusedPart | 'owned' | undefined)[] = [undefined]
  const ids = new SetIds()
  for (const family of new Set(items.map((item) => item.family))) {
    encodeNewTable(batch, family, false, TABLE)
    parts.push({ item: { kind: 'table', family, isOwned: false } })
    encodeNewTable(batch, family, true, OWNED_TABLE)
    parts.push('owned')
    for (const chain of probesOf(items, family)) {
      encodeNewChain(batch, chain, TABLE)
      parts.push({ item: chain, message: 'NEWCHAIN' })
      for (const [rule, content] of chain.rules.entries()) {
        encodeRule(batch, family, chain.name, content, ids.take(messagesOf(content)), TABLE)
        parts.push({ item: chain, message: 'NEWRULE', rule })
      }
    }
  }
  const outcomes = await netlink.transact(batch, options)
  let lacks: MissingFeature | undefined
  let mayOwn = true
  for (const [index, outcome] of outcomes.entries()) {
    const part = parts[index]
    if (outcome === undefined) continue
    if (part === 'owned') mayOwn = false
    else if (part === undefined || outcome.code === 'EPERM') throw outcome
    else lacks ??= missingPart(outcome, part)
  }
  return { lacks, mayOwn }
}

/** One rule for each statement that needs a module, and a chain of type nat if there is one. */
function probesOf(items: readonly NftItem[], family: IpFamily): readonly NftChain[] {
  const statements = new Map<string, NftStatement>()
  let nat: NftChain['hook']
  for (const item of items) {
    if (item.kind !== 'chain' || item.family !== family) continue
    if (item.hook?.type === 'nat') nat = item.hook
    for (const rule of item.rules)
      for (const statement of rule.statements) {
        const module = moduleOf(statement, family)
        if (module !== undefined) statements.set(module, statement)
      }
  }
  const rules = [...statements.values()].map((statement) => ({ statements: [statement] }))
  const probes: NftChain[] = [{ kind: 'chain', family, name: 'statements', rules }]
  if (nat !== undefined) probes.push({ kind: 'chain', family, name: 'nat', hook: nat, rules: [] })
  return probes
}
