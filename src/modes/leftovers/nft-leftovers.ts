/**
 * The tables that nftables mode of kube-proxy leaves, `ip kube-proxy` and `ip6 kube-proxy`;
 * everything in them is its own. A cleanup deletes them, and so does each mode once everything of
 * its own is written: until then they serve new connections. Established ones live on in conntrack.
 */
import { askNetfilter } from '../../../native/open.ts'
import { deleteNftTable, listNftTables, type NftTable } from '../../nftables/tables.ts'
import type { NetlinkConnection } from '../../netlink/connection.ts'
import { asError } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import { retryUntilDone } from '../../values/retry.ts'

const TABLE = 'kube-proxy'

/** What was removed, or would be, as commands, and what could not be read or removed. */
export interface RemovalResult {
  readonly commands: readonly string[]
  readonly failures: readonly { readonly command: string; readonly error: Error }[]
}

/** A kernel without nfnetlink has no tables. */
const NOTHING: RemovalResult = { commands: [], failures: [] }

/** From a failure to the next attempt. */
const PERIOD_MS = 10_000

/** What `removeNftLeftovers` would delete. Rejects when the kernel refuses to list tables. */
export async function findNftLeftovers(signal: AbortSignal): Promise<RemovalResult> {
  return askNetfilter(NOTHING, async (netlink) => ({
    commands: (await leftTables(netlink, signal)).map(deletionOf),
    failures: [],
  }))
}

/**
 * Deletes the tables; what was deleted, and what could not be, as commands. Rejects when the kernel
 * refuses to list tables.
 */
export async function removeNftLeftovers(signal: AbortSignal): Promise<RemovalResult> {
  return askNetfilter(NOTHING, async (netlink) => {
    const commands: string[] = []
    const failures: { command: string; error: Error }[] = []
    for (const table of await leftTables(netlink, signal)) {
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
 * Removes them after a start in another mode. Resolves when nothing is left, or when aborted;
 * retries whatever fails.
 */
export async function removeNftAfterSwitch(log: Log, signal: AbortSignal): Promise<void> {
  const attempt = async (): Promise<boolean> => {
    const { commands, failures } = await removeNftLeftovers(signal)
    for (const { command, error } of failures)
      log.warn('Cannot remove what nftables mode left; retrying', { command, error: error.message })
    if (failures.length > 0) return false
    if (commands.length > 0) log.info('Removed what nftables mode left', { commands })
    return true
  }
  await retryUntilDone(attempt, {
    onError: (error) => log.warn('Cannot remove what nftables mode left; retrying', { error }),
    pauseMs: () => PERIOD_MS,
    signal,
  })
}

async function leftTables(netlink: NetlinkConnection, signal: AbortSignal): Promise<readonly NftTable[]> {
  return (await listNftTables(netlink, { signal })).filter(({ name }) => name === TABLE)
}

/** The command that deletes a table, as an operator would type it. */
function deletionOf({ family, name }: NftTable): string {
  return `nft delete table ${family === 'IPv4' ? 'ip' : 'ip6'} ${name}`
}
