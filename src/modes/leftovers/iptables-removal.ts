/**
 * What other modes of kube-proxy left on this node, found and removed: chains of iptables mode, tables of nftables mode.
 * What could break: it comes before what ipvs mode left, because chains of iptables mode lead into chains that both share.
 */
import { chooseBackEnd } from '../iptables-back-end.ts'
import { leftoversOf } from './iptables-chains.ts'
import { parseSave } from '../../iptables/save-text.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import { deletionOf, NftTables } from '../../node/nft-tables.ts'
import { CodedError } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'

/** One thing to remove. */
export interface Leftover {
  /** What an operator would type, one command each. */
  readonly commands: readonly string[]
  /** Rejects with the reason. */
  remove(signal: AbortSignal): Promise<void>
}

/** What iptables mode left. Changes nothing. Rejects when the rules cannot be read, with `iptables-missing` and the like. */
export async function leftInIptables(families: readonly IpFamily[], signal: AbortSignal): Promise<readonly Leftover[]> {
  const iptables = new HostIptables(await chooseBackEnd(families, signal))
  const found: Leftover[] = []
  for (const family of families) {
    // A family without programs has no rules that could be reached.
    if (iptables.choice.programs[family] === undefined) continue
    const saved = parseSave(await iptables.save(family, signal))
    for (const { table, restore, commands } of leftoversOf(saved, family, iptables.choice.suffix))
      found.push({
        commands,
        remove: async (abort) => {
          const { exitCode, errorText } = await iptables.restore(family, restore, abort)
          if (exitCode !== 0)
            throw new CodedError('iptables-restore-failed', `table ${table} of ${family}: ${errorText.trim()}`)
        },
      })
  }
  return found
}

/** What nftables mode left; nothing where the program nft is missing. Changes nothing. */
export async function leftInNft(signal: AbortSignal): Promise<readonly Leftover[]> {
  const nft = await NftTables.find()
  const tables = (await nft?.list(signal)) ?? []
  return tables.map((table) => ({
    commands: [deletionOf(table)],
    remove: async (abort) => nft?.delete(table, abort),
  }))
}
