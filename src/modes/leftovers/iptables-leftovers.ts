/**
 * What the rules and sets of iptables left, of ipvs mode and of iptables mode, once the nftables
 * firewall serves in their place. No program is started, unless the kernel has tables of
 * iptables-legacy, which only its programs can change.
 */
import { IP_FAMILIES } from '../../values/protocol.ts'
import type { HostIptables } from '../../node/iptables-programs.ts'
import { legacyTables } from '../../node/legacy-tables.ts'
import { commandsOf } from '../../sync/plan.ts'
import type { Reconciled } from '../../sync/reconciled.ts'
import { Reconciler } from '../../sync/reconciler.ts'
import type { Budget } from '../../values/budget.ts'
import type { Clock } from '../../values/clock.ts'
import { unlessMissing } from '../../values/errors.ts'
import { newBudget } from '../../values/event-loop.ts'
import type { Log } from '../../values/log.ts'
import { retryUntilDone } from '../../values/retry.ts'
import { FIREWALLS } from '../ipvs/firewalls.ts'
import { chainTables, removalOfChains } from '../ipvs/iptables-firewall/tables.ts'
import { type Look, withLook } from '../look/look.ts'
import { IPVS_LAYOUT } from './layouts.ts'
import { removeChainsOverNetlink } from './nft-chains.ts'
import { NOTHING, type RemovalResult } from './nft-leftovers.ts'

/** From a failure to the next attempt. The kernel lets go of sets some time after the rules that named them. */
const [FIRST_RETRY_MS, RETRY_MS] = [200, 10_000]
/** Commands that a line of the log has. */
const NAMED = 10

/** Resolves when nothing is left, or when aborted; retries whatever fails. */
export async function removeIptablesAfterSwitch(log: Log, now: Clock, signal: AbortSignal): Promise<void> {
  const removed: string[] = []
  let pauseMs = FIRST_RETRY_MS
  const attempt = async (round: number): Promise<boolean> => {
    if (round > 0) pauseMs = RETRY_MS
    const { commands, failures, unread } = await removeOnce(now, signal)
    removed.push(...commands)
    if (round === 0 && unread.length > 0)
      log.warn(
        'Rules of a proxy in these tables stay in force: no program of iptables-legacy is installed to read them',
        {
          tables: unread,
        },
      )
    // A set that a rule named a moment ago is no trouble yet.
    if (round > 0)
      for (const { command, error } of failures)
        log.warn('Cannot remove what the rules of iptables left; retrying', { command, error: error.message })
    if (failures.length > 0) return false
    if (removed.length > 0)
      log.info('Removed the rules and sets of iptables', { count: removed.length, commands: removed.slice(0, NAMED) })
    return true
  }
  await retryUntilDone(attempt, {
    onError: (error) => log.warn('Cannot remove what the rules of iptables left; retrying', { error }),
    pauseMs: () => pauseMs,
    signal,
  })
}

/** Whether there are such rules in nf_tables, or such sets. */
export async function isIptablesLeft(signal: AbortSignal, budget: Budget = newBudget()): Promise<boolean> {
  const { commands } = await removeChainsOverNetlink(IP_FAMILIES, IPVS_LAYOUT, signal, { dryRun: true, budget })
  return commands.length > 0 || (await FIREWALLS.iptables()).isLeft(IP_FAMILIES, signal, budget)
}

/** What was removed, and the tables of iptables-legacy that nothing here can read. */
interface IptablesRemoval extends RemovalResult {
  readonly unread: readonly string[]
}

async function removeOnce(now: Clock, signal: AbortSignal): Promise<IptablesRemoval> {
  const chains = await removeChainsOverNetlink(IP_FAMILIES, IPVS_LAYOUT, signal)
  const legacy = await removeLegacyChains(now, signal)
  const sets = await removeSets(now, signal)
  const all = [chains, legacy, sets]
  return {
    commands: all.flatMap(({ commands }) => commands),
    failures: all.flatMap(({ failures }) => failures),
    unread: legacy.unread,
  }
}

/** `tables` and `programs` are those of this node; a test replaces them. */
export async function removeLegacyChains(
  now: Clock,
  signal: AbortSignal,
  tables = legacyTables({ families: IP_FAMILIES }),
  programs = legacyPrograms,
): Promise<IptablesRemoval> {
  if (tables.length === 0) return { ...NOTHING, unread: [] }
  return withLook(async (look) => {
    const used = await programs(look, signal)
    if (used === undefined) return { ...NOTHING, unread: Array.from(new Set(tables)) }
    const removal = removalOfChains(chainTables(look.families, used, IPVS_LAYOUT))
    return { ...(await removeAll(removal, now, signal)), unread: [] }
  })
}

async function legacyPrograms(look: Look, signal: AbortSignal): Promise<HostIptables | undefined> {
  const iptables = await unlessMissing('iptables-missing', () => look.iptables(signal))
  return iptables?.choice.mode === 'legacy' ? iptables : await (iptables && look.otherIptables(signal))
}

async function removeSets(now: Clock, signal: AbortSignal): Promise<RemovalResult> {
  const { isLeft, remains } = await FIREWALLS.iptables()
  if (!(await isLeft(IP_FAMILIES, signal))) return NOTHING
  const sets = await remains(IP_FAMILIES, signal)
  if (sets === undefined) return NOTHING
  try {
    return await removeAll(sets.removal(), now, signal)
  } finally {
    sets.close()
  }
}

/** Removes all items of these tables. */
async function removeAll(tables: readonly Reconciled[], now: Clock, signal: AbortSignal): Promise<RemovalResult> {
  const commands = commandsOf(await new Reconciler(tables).plan({ signal, now }))
  const { failures, unreadable } = await new Reconciler(tables).pass({ signal, now, mayRemove: true })
  return { commands, failures: [...failures, ...unreadable.map(({ table, error }) => ({ command: table, error }))] }
}
