/**
 * Chains of service proxies in tables of iptables-nft, removed over netlink: where the node has no
 * program of iptables-nft, and where the nftables firewall runs, which starts none.
 */
import { askNetfilter } from '../../../native/open.ts'
import { chainKey, type ChainLayout, ownChains } from '../../iptables/layout.ts'
import type { TableId } from '../../iptables/types.ts'
import type { DumpOptions, NetlinkConnection } from '../../netlink/connection.ts'
import { type ChainRemoval, removeNftChains } from '../../nftables/removal.ts'
import type { NftRule } from '../../nftables/rule.ts'
import { listNftChainNames, visitNftRules } from '../../nftables/rules.ts'
import { NFT_FAMILY } from '../../nftables/types.ts'
import type { Budget } from '../../values/budget.ts'
import { asError } from '../../values/errors.ts'
import { newBudget } from '../../values/event-loop.ts'
import type { IpFamily } from '../../values/protocol.ts'
import type { RemovalResult } from './nft-leftovers.ts'

/**
 * Other programs jump to it, and the nftables firewall masquerades what has the same mark, so that
 * it keeps its rule as long as they do.
 */
const MARKING = 'KUBE-MARK-MASQ'

/**
 * Removes the chains of the layout and the jumps to them; with `dryRun` says only what it would
 * remove. A chain to which rules of other programs lead is emptied.
 */
export async function removeChainsOverNetlink(
  families: readonly IpFamily[],
  layout: ChainLayout,
  signal: AbortSignal,
  { dryRun = false, budget = newBudget() }: { readonly dryRun?: boolean; readonly budget?: Budget } = {},
): Promise<RemovalResult> {
  const nothing: RemovalResult = { commands: [], failures: [] }
  return askNetfilter(nothing, async (netlink) => {
    const commands: string[] = []
    const failures: { command: string; error: Error }[] = []
    for (const family of families) {
      const names = await listNftChainNames(netlink, family, { signal, budget })
      const places = layout.tables.map((table): Place => ({ family, table, chains: names.get(table) ?? [] }))
      for (const place of places) {
        const removal = await findChains(netlink, place, layout, { signal, budget })
        if (removal === undefined) continue
        const all = commandsOf(removal)
        commands.push(...all)
        if (dryRun) continue
        try {
          await removeNftChains(netlink, removal, { signal })
        } catch (error) {
          signal.throwIfAborted()
          failures.push({
            command: all[0] ?? `nft list table ${NFT_FAMILY[family]} ${place.table}`,
            error: asError(error),
          })
        }
      }
    }
    return { commands, failures }
  })
}

interface Place {
  readonly family: IpFamily
  readonly table: TableId
  readonly chains: readonly string[]
}

async function findChains(
  netlink: NetlinkConnection,
  { family, table, chains }: Place,
  layout: ChainLayout,
  options: DumpOptions,
): Promise<ChainRemoval | undefined> {
  const ours = new Set(ownChains(layout, table, chains).filter((chain) => !layout.isLeft(chainKey(table, chain))))
  if (ours.size === 0) return undefined
  let jumps: NftRule[] = []
  let used = new Set<string>()
  const visit = (rule: NftRule): void => {
    const target = rule.verdict?.chain ?? ''
    if (ours.has(rule.chain) || !ours.has(target)) return
    if (rule.isPlain && layout.isOrigin(table, rule.chain)) jumps.push(rule)
    else used.add(target)
  }
  const onRestart = (): void => {
    jumps = []
    used = new Set()
  }
  await visitNftRules(netlink, { family, table }, visit, { ...options, onRestart })
  const kept = used.has(MARKING) ? MARKING : ''
  const emptied = Array.from(ours).filter((chain) => chain !== kept)
  // What is kept or used by others is left for good: it is no reason to look again.
  const deleted = emptied.filter((chain) => !used.has(chain))
  if (jumps.length === 0 && deleted.length === 0) return undefined
  return { family, table, jumps, emptied, deleted }
}

function commandsOf({ family, table, jumps, emptied, deleted }: ChainRemoval): readonly string[] {
  const place = `${NFT_FAMILY[family]} ${table}`
  return [
    ...jumps.map(({ chain, handle }) => `nft delete rule ${place} ${chain} handle ${handle}`),
    ...emptied.map((chain) => `nft flush chain ${place} ${chain}`),
    ...deleted.map((chain) => `nft delete chain ${place} ${chain}`),
  ]
}
