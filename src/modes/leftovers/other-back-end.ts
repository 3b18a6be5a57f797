/**
 * Finds chains of a service proxy in the back end of iptables that is not in use. Packets pass
 * through the rules of both back ends, so such chains still decide about connections to Services,
 * and a running proxy never removes them: `kube-ipvs cleanup` does.
 */
import { itemsOf } from '../../iptables/save-text.ts'
import type { IptablesBackEnd } from '../../node/installed-iptables.ts'
import type { IptablesChoice } from '../../node/iptables-choice.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import type { ProblemLog } from '../../serve/problem-log.ts'
import { errorText } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { findOtherBackEnd } from '../iptables-back-end.ts'
import { readRulesOf } from '../nft-access.ts'
import { CLEANUP_LAYOUT } from './layouts.ts'

export interface OtherBackEnd {
  readonly backEnd: IptablesBackEnd
  /** Chains of a proxy there, of both families. */
  readonly chains: number
}

/**
 * undefined: there are none. Loads no module of legacy tables and changes nothing. Rejects as
 * `HostIptables.save` does.
 */
export async function chainsInOtherBackEnd(
  families: readonly IpFamily[],
  chosen: IptablesChoice,
  signal: AbortSignal,
): Promise<OtherBackEnd | undefined> {
  const other = await findOtherBackEnd(families, chosen, signal)
  if (other === undefined) return undefined
  const programs = new HostIptables(other)
  let chains = 0
  for (const family of families) {
    if (other.programs[family] === undefined) continue
    const { saved, leading } = await readRulesOf(programs, family, CLEANUP_LAYOUT, signal)
    const items = itemsOf(saved, CLEANUP_LAYOUT, undefined, leading)
    for (const item of items.values()) if (item.kind === 'chain') chains++
  }
  return chains === 0 ? undefined : { backEnd: other.mode, chains }
}

export interface WarningOptions {
  readonly families: readonly IpFamily[]
  readonly choice: IptablesChoice
  readonly problems: Pick<ProblemLog, 'report'>
  readonly log: Log
  readonly signal: AbortSignal
}

/** Reports such chains as one problem. Never rejects. */
export async function warnOfOtherBackEnd({ families, choice, problems, log, signal }: WarningOptions): Promise<void> {
  try {
    const other = await chainsInOtherBackEnd(families, choice, signal)
    if (other === undefined) return
    const { backEnd, chains } = other
    const message = `${chains} chains of a service proxy are in iptables-${backEnd}, while this node uses iptables-${choice.mode} (${choice.reason}): packets pass through both, so old rules may still redirect or drop connections; stop what wrote them and this proxy, run "kube-ipvs cleanup", and start this proxy again`
    problems.report('iptables', 'back ends', [
      { code: 'rules-in-other-back-end', about: 'node', subject: 'iptables', message },
    ])
  } catch (error) {
    if (!signal.aborted) log.verbose(2, 'Cannot read the other back end of iptables', { error: errorText(error) })
  }
}
