/**
 * The rules that packets meet, for predictions of their paths: those of iptables, those of the
 * private tables, and in words those that are not judged.
 */
import { askNetfilter } from '../../../native/open.ts'
import type { KernelPicture } from '../../explain/picture.ts'
import { PrivateRules } from '../../explain/private-rules.ts'
import type { WholeTables } from '../../iptables/whole-tables.ts'
import { isBesideIptables, isPrivateChain, listNftBaseChains, type NftBaseChain } from '../../nftables/chains.ts'
import { NFT_FAMILY, type NftItem } from '../../nftables/types.ts'
import { legacyTables } from '../../node/legacy-tables.ts'
import { CodedError, errorText } from '../../values/errors.ts'
import { firstNames } from '../../values/lists.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { allRulesOf } from '../nft-access.ts'
import type { Look } from './look.ts'
import { visitPrivateItems } from './private-items.ts'

/** Rejects when the kernel cannot be read (EPERM). */
export async function readRules(
  look: Look,
  signal: AbortSignal,
): Promise<Pick<KernelPicture, 'rules' | 'privateTables' | 'limits'>> {
  const baseChains = await listBaseChains(signal)
  const { rules, limits } = await readIptables(look, baseChains, signal)
  const privateTables = await readPrivateTables(look.families, signal)
  const others = [...otherRules(baseChains), ...Object.values(privateTables).flatMap(foreignChains)]
  return { rules, privateTables, limits: [...limits, ...others] }
}

/** An error says why they cannot be listed. */
type BaseChains = readonly NftBaseChain[] | Error

async function listBaseChains(signal: AbortSignal): Promise<BaseChains> {
  try {
    return await askNetfilter<BaseChains>([], (netlink) => listNftBaseChains(netlink, { signal }))
  } catch (error) {
    return error instanceof Error ? error : new Error(errorText(error))
  }
}

async function readIptables(
  look: Look,
  baseChains: BaseChains,
  signal: AbortSignal,
): Promise<Pick<KernelPicture, 'rules' | 'limits'>> {
  const rules: { [family in IpFamily]?: WholeTables } = {}
  const limits: string[] = []
  const unread = look.families.filter((family) => mayHaveRules(family, baseChains))
  // No program is needed to know that there is nothing.
  for (const family of look.families) if (!unread.includes(family)) rules[family] = new Map()
  if (unread.length === 0) return { rules, limits }
  try {
    const iptables = await look.iptables(signal)
    for (const family of unread) {
      const { [family]: reason } = iptables.choice.unusable
      if (reason === undefined) rules[family] = (await allRulesOf(iptables, family, signal)).tables
      else limits.push(`the rules of ${family} cannot be read: ${reason}`)
    }
    limits.push(...(await rulesOfOtherBackEnd(look, signal)))
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    limits.push(`the rules of iptables cannot be read: ${error.message}`)
  }
  return { rules, limits }
}

/** Whether the kernel may call rules of iptables: it has tables of legacy, or chains of those that iptables-nft makes. */
function mayHaveRules(family: IpFamily, baseChains: BaseChains): boolean {
  if (baseChains instanceof Error || legacyTables({ families: [family] }).length > 0) return true
  return baseChains.some((chain) => chain.family === NFT_FAMILY[family] && !isBesideIptables(chain))
}

/** Packets pass the rules of both back ends of iptables. */
async function rulesOfOtherBackEnd(look: Look, signal: AbortSignal): Promise<readonly string[]> {
  const other = await look.otherIptables(signal)
  if (other === undefined) {
    const { choice } = await look.iptables(signal)
    return unreadLegacy(choice.mode, legacyTables({ families: look.families }))
  }
  const { mode, programs } = other.choice
  try {
    let rules = 0
    for (const family of look.families)
      if (programs[family] !== undefined)
        for (const chains of (await allRulesOf(other, family, signal)).tables.values())
          for (const chain of chains.values()) rules += chain.rules.length
    return rules === 0 ? [] : [`${rules} rules of iptables-${mode} also see packets, and are not judged`]
  } catch (error) {
    return [`the rules of iptables-${mode}, which also see packets, cannot be read: ${errorText(error)}`]
  }
}

/** No program is installed that reads the other back end. @param legacy tables of iptables-legacy in the kernel */
export function unreadLegacy(chosen: 'nft' | 'legacy', legacy: readonly string[]): readonly string[] {
  if (chosen === 'legacy' || legacy.length === 0) return []
  return ['the kernel also has tables of iptables-legacy, which no program here reads, so they are not judged']
}

/** Chains that are named one by one. */
const MAX_NAMED = 5

/** Rules that were made without iptables, and that may drop what its rules accept. */
function otherRules(baseChains: BaseChains): readonly string[] {
  if (baseChains instanceof Error) return [`the chains of nftables cannot be listed: ${errorText(baseChains)}`]
  const chains = baseChains.filter((chain) => isBesideIptables(chain) && !isPrivateChain(chain))
  if (chains.length === 0) return []
  const names = chains.map(({ family, table, chain }) => `${family} ${table} ${chain}`)
  return [`chains of nftables also see packets, and are not judged: ${firstNames(names, MAX_NAMED)}`]
}

/** What the nftables firewall has, whoever wrote it; nothing where the kernel has no nf_tables. */
async function readPrivateTables(
  families: readonly IpFamily[],
  signal: AbortSignal,
): Promise<KernelPicture['privateTables']> {
  const tables: { [family in IpFamily]?: PrivateRules } = {}
  const visit = (item: NftItem): void => (tables[item.family] ??= new PrivateRules(item.family)).add(item)
  await visitPrivateItems(families, visit, signal)
  return tables
}

function foreignChains({ foreignChains: chains, name }: PrivateRules): readonly string[] {
  if (chains.length === 0) return []
  const names = firstNames(chains, MAX_NAMED)
  return [
    `chains of the table ${name} have a hook or a policy that kube-ipvs never writes, and are not judged: ${names}`,
  ]
}
