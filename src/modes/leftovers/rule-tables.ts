/** The rules of a back end of iptables as `explain` judges them. */
import { type RuleTables, ruleTables } from '../../explain/rules.ts'
import { readAllRules } from '../../iptables/read-all-rules.ts'
import type { HostIptables } from '../../node/iptables-programs.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { nftAccessOf } from '../nft-access.ts'

/** Rejects with a CodedError when nothing of them can be read. */
export async function readRuleTables(
  iptables: HostIptables,
  family: IpFamily,
  signal: AbortSignal,
): Promise<RuleTables> {
  return ruleTables((await readAllRules(family, iptables, nftAccessOf(iptables), signal)).tables)
}
