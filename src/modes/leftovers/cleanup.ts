/**
 * Removes what proxies of every mode left on a node: tables of nftables mode, and then a pass of
 * the reconciler over all other tables with nothing wanted in any, so that a cleanup removes
 * nothing that a pass would leave alone.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type IptablesBackEnd, missingPrograms } from '../../node/installed-iptables.ts'
import type { HostIptables } from '../../node/iptables-programs.ts'
import { legacyTables } from '../../node/legacy-tables.ts'
import { commandsOf } from '../../sync/plan.ts'
import type { Reconciled } from '../../sync/reconciled.ts'
import { Reconciler } from '../../sync/reconciler.ts'
import type { Cidr } from '../../values/cidr.ts'
import { asError, CodedError, unlessMissing } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { chainTables, removalOfChains } from '../ipvs/iptables-firewall/tables.ts'
import { removalOf } from '../ipvs/tables.ts'
import { openLook } from '../look/look.ts'
import { IpvsLeftovers } from './ipvs-leftovers.ts'
import { CLEANUP_LAYOUT } from './layouts.ts'
import { removeChainsOverNetlink } from './nft-chains.ts'
import { findNftLeftovers, type RemovalResult, removeNftLeftovers } from './nft-leftovers.ts'

export interface CleanupOptions {
  /** Virtual servers with an address in one of these stay. */
  readonly excluded: readonly Cidr[]
  /** Removes nothing, and returns what would be removed. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
}

/** Attempts for an operation that fails. */
const TRIES = 3

const now = (): number => performance.now()

/**
 * With `dryRun` the commands are what would be removed. Rejects when the kernel answers nothing
 * (EPERM), or when aborted.
 */
export async function removeEverything(options: CleanupOptions): Promise<RemovalResult> {
  const nft = await removeNftTables(options)
  const tables = await removeFromTables(options)
  return { commands: [...nft.commands, ...tables.commands], failures: [...nft.failures, ...tables.failures] }
}

/** Tables of nftables mode. */
async function removeNftTables({ dryRun, signal }: CleanupOptions): Promise<RemovalResult> {
  try {
    return await (dryRun ? findNftLeftovers(signal) : removeNftLeftovers(signal))
  } catch (error) {
    signal.throwIfAborted()
    return { commands: [], failures: [{ command: 'nft list tables', error: asError(error) }] }
  }
}

type Failures = RemovalResult['failures'][number][]

/** What cannot be read or opened is a failure by itself, and everything else is removed all the same. */
async function removeFromTables(options: CleanupOptions): Promise<RemovalResult> {
  const { excluded, dryRun, signal } = options
  const look = openLook({ mayLoadModules: true })
  const { families } = look
  const failures: Failures = []
  const attempt = async <T>(command: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      failures.push({ command, error: asError(error) })
      return undefined
    }
  }
  try {
    // A kernel that has no IPVS or cannot have a firewall has nothing of it.
    const iptables = await attempt('iptables-save', () =>
      unlessMissing('iptables-missing', () => look.iptables(signal)),
    )
    const other = await attempt('iptables-save', async () => iptables && (await look.otherIptables(signal)))
    // Its programs need not be there for a back end to have chains.
    const without = (mode: IptablesBackEnd): readonly IpFamily[] =>
      families.filter((family) =>
        [iptables, other].every((of) => of?.choice.mode !== mode || of.choice.programs[family] === undefined),
      )
    // Where nothing could be chosen, that is the reason.
    if (failures.length === 0) failures.push(...without('legacy').flatMap(unreadLegacyTables))
    const overNetlink = await attempt('nft list ruleset', () =>
      removeChainsOverNetlink(without('nft'), CLEANUP_LAYOUT, signal, { dryRun }),
    )
    failures.push(...(overNetlink?.failures ?? []))
    const firewall = await attempt('ipset list', () => look.firewall(signal))
    const ipvs = await attempt('ipvsadm -L', () => look.ipvs(signal))
    const { rtnetlink } = look
    const leftovers =
      firewall === undefined || ipvs === undefined
        ? undefined
        : await attempt('ipset list', () =>
            IpvsLeftovers.find({ ipvs, firewall, rtnetlink, families, excluded }, signal),
          )
    const rules = (of: HostIptables | undefined): Reconciled[] =>
      removalOfChains(chainTables(families, of, CLEANUP_LAYOUT))
    const inUse = (): readonly Reconciled[] =>
      leftovers?.removal(rules(iptables)) ??
      // A kernel whose ip_vs or whose part of the firewall was unloaded has the rest all the same.
      removalOf({ ipvs: undefined, rtnetlink, families, excluded }, [
        ...(firewall?.removal() ?? []),
        ...rules(iptables),
      ])
    // What is last is removed first: rules of either back end name sets.
    const reconciler = (): Reconciler => new Reconciler([...inUse(), ...rules(other)])
    const onUnreadable = (table: string, error: Error): void => {
      if (dryRun) failures.push({ command: table, error })
    }
    const commands = commandsOf(await reconciler().plan({ signal, now, onUnreadable }))
    if (!dryRun) failures.push(...(await removeAll(reconciler(), signal)))
    return { commands: [...(overNetlink?.commands ?? []), ...commands], failures }
  } finally {
    look.close()
  }
}

/** Tables of iptables-legacy of a family that has no such programs: nothing else can read them. */
function unreadLegacyTables(family: IpFamily): Failures {
  const program = family === 'IPv4' ? 'iptables' : 'ip6tables'
  return legacyTables({ families: [family] })
    .filter((table) => CLEANUP_LAYOUT.tables.some((known) => known === table))
    .map((table) => ({
      command: `${program}-legacy-save -t ${table}`,
      error: new CodedError('iptables-missing', missingPrograms(family, 'legacy')),
    }))
}

async function removeAll(reconciler: Reconciler, signal: AbortSignal): Promise<Failures> {
  for (let tries = 1; ; tries++) {
    const { failures, unreadable } = await reconciler.pass({ signal, mayRemove: true, now })
    if (failures.length === 0 || tries === TRIES)
      return [...failures, ...unreadable.map(({ table, error }) => ({ command: table, error }))]
    // Until all of them are due: what is left at the end is what could not be done.
    const dueMs = Math.max(...failures.map(({ retryAtMs }) => retryAtMs))
    // A timer may fire a moment early, and a pass with nothing due would look like success.
    for (let leftMs = dueMs - now(); leftMs > 0; leftMs = dueMs - now()) await sleep(leftMs + 1, undefined, { signal })
  }
}
