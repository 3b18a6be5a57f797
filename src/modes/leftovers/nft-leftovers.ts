/**
 * Whole tables of nf_tables that a proxy leaves: `ip kube-proxy` and `ip6 kube-proxy` of kube-proxy's
 * nftables mode, and those of our nftables firewall. Everything in them is its own. A cleanup deletes
 * them, and so does what runs once everything of its own is written: until then they serve new
 * connections. Established ones live on in conntrack.
 */
import { askNetfilter } from '../../../native/open.ts'
import { removeNftChains } from '../../nftables/removal.ts'
import { listNftChainNames } from '../../nftables/rules.ts'
import { PRIVATE_TABLE } from '../../nftables/types.ts'
import { deleteNftTable, listNftTables, type NftTable } from '../../nftables/tables.ts'
import type { DumpOptions, NetlinkConnection } from '../../netlink/connection.ts'
import type { Budget } from '../../values/budget.ts'
import { asError } from '../../values/errors.ts'
import { newBudget } from '../../values/event-loop.ts'
import type { Log } from '../../values/log.ts'
import { retryUntilDone } from '../../values/retry.ts'

/** Of kube-proxy's nftables mode. */
const PROXY_TABLE = 'kube-proxy'

/** The tables of our nftables firewall. Starts no program; the kernel may load nf_tables. */
export async function listPrivateTables(
  signal: AbortSignal,
  budget: Budget = newBudget(),
): Promise<readonly NftTable[]> {
  return askNetfilter([], (netlink) => namedTables(netlink, PRIVATE_TABLE, { signal, budget }))
}

/**
 * Removes the rules of our nftables firewall but those of the `kept` chains. Its sets stay: they say
 * which virtual servers are ours.
 */
export async function withdrawPrivateTables(kept: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
  for (const { family, name } of await listPrivateTables(signal))
    await askNetfilter(undefined, async (netlink) => {
      const chains = (await listNftChainNames(netlink, family, { signal })).get(name) ?? []
      const emptied = chains.filter((chain) => !kept.has(chain))
      await removeNftChains(netlink, { family, table: name, jumps: [], emptied, deleted: [] }, { signal })
    })
}

/** What was removed, or would be, as commands, and what could not be read or removed. */
export interface RemovalResult {
  readonly commands: readonly string[]
  readonly failures: readonly { readonly command: string; readonly error: Error }[]
}

/** Nothing was removed: a kernel without nfnetlink has no tables. */
export const NOTHING: RemovalResult = { commands: [], failures: [] }

/** Lines of the log. */
const OF_PROXY = {
  removed: 'Removed what nftables mode left',
  failed: 'Cannot remove what nftables mode left; retrying',
}
const OF_FIREWALL = {
  removed: 'Removed what the nftables firewall left',
  failed: 'Cannot remove what the nftables firewall left; retrying',
}

/** From a failure to the next attempt. */
const PERIOD_MS = 10_000

/** What `removeNftLeftovers` would delete. Rejects when the kernel refuses to list tables. */
export async function findNftLeftovers(signal: AbortSignal, budget: Budget = newBudget()): Promise<RemovalResult> {
  return askNetfilter(NOTHING, async (netlink) => ({
    commands: (await namedTables(netlink, PROXY_TABLE, { signal, budget })).map(deletionOf),
    failures: [],
  }))
}

/**
 * Deletes the tables of that name; what was deleted, and what could not be, as commands. Rejects when the kernel
 * refuses to list tables.
 */
export async function removeNftLeftovers(signal: AbortSignal, name = PROXY_TABLE): Promise<RemovalResult> {
  return askNetfilter(NOTHING, async (netlink) => {
    const commands: string[] = []
    const failures: { command: string; error: Error }[] = []
    for (const table of await namedTables(netlink, name, { signal })) {
      const command = deletionOf(table)
      commands.push(command)
      try {
        await deleteNftTable(netlink, table, { signal })
      } catch (error) {
        signal.throwIfAborted()
        failures.push({ command, error: asError(error) })
      }
    }
    return { commands, failures }
  })
}

/**
 * Removes what nftables mode left after a start in another mode. Resolves when nothing is left, or
 * when aborted; retries whatever fails.
 */
export function removeNftAfterSwitch(log: Log, signal: AbortSignal): Promise<void> {
  return removeTables(PROXY_TABLE, OF_PROXY, log, signal)
}

/** The same for the nftables firewall, once that of iptables serves in its place. */
export function removePrivateTables(log: Log, signal: AbortSignal): Promise<void> {
  return removeTables(PRIVATE_TABLE, OF_FIREWALL, log, signal)
}

async function removeTables(name: string, texts: typeof OF_PROXY, log: Log, signal: AbortSignal): Promise<void> {
  const attempt = async (): Promise<boolean> => {
    const { commands, failures } = await removeNftLeftovers(signal, name)
    for (const { command, error } of failures) log.warn(texts.failed, { command, error: error.message })
    if (failures.length > 0) return false
    if (commands.length > 0) log.info(texts.removed, { commands })
    return true
  }
  await retryUntilDone(attempt, {
    onError: (error) => log.warn(texts.failed, { error }),
    pauseMs: () => PERIOD_MS,
    signal,
  })
}

async function namedTables(
  netlink: NetlinkConnection,
  name: string,
  options: DumpOptions,
): Promise<readonly NftTable[]> {
  return (await listNftTables(netlink, options)).filter((table) => table.name === name)
}

/** The command that deletes a table, as an operator would type it. */
function deletionOf({ family, name }: NftTable): string {
  return `nft delete table ${family === 'IPv4' ? 'ip' : 'ip6'} ${name}`
}
