/**
 * `kube-ipvs cleanup` and `--cleanup`: what proxies of any mode left goes, then a pass towards an empty desired state.
 * What could break: it is the loop of the daemon with nothing wanted, so that nothing is removed here that a pass would
 * leave alone; and of the virtual servers only those go that the sets name.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type LeftGuard, openLeftGuard } from '../modes/ipvs/guard-kernel.ts'
import { type IpvsKernel, openIpvsKernel } from '../modes/ipvs/ipvs-kernel.ts'
import { readOwned } from '../modes/leftovers/owned-virtual-servers.ts'
import { VirtualServerTable } from '../ipvs/table.ts'
import { ipFamilies } from '../node/host.ts'
import { Reconciler, type Reconciled, reconciled } from '../sync/reconciler.ts'
import { TableSync } from '../sync/table-sync.ts'
import { type Cidr, parseCidrs } from '../values/cidr.ts'
import { asError, CodedError } from '../values/errors.ts'
import type { FlagValues } from './flags.ts'
import { type Leftover, leftInIptables, leftInNft } from '../modes/leftovers/iptables-removal.ts'
import { checkSettings } from './settings.ts'

/** A failing operation is tried this often. */
const TRIES = 3
const DEADLINE_MS = 60_000

const now = (): number => performance.now()

/** Something that could not be removed, by its first command. */
interface Failed {
  readonly command: string
  readonly error: Error
}

/** What was removed, or with --dry-run would be, and what could not be. */
interface Removal {
  readonly commands: readonly string[]
  readonly failures: readonly Failed[]
}

export async function cleanup(flags: FlagValues): Promise<number> {
  const configuration = await checkSettings(flags)
  const excluded = parseCidrs(configuration.ipvs.excludeCIDRs)
  const signal = AbortSignal.timeout(DEADLINE_MS)
  const dryRun = flags.dryRun === true
  const print = ({ commands, failures }: Removal): void => {
    if (flags.output !== 'json') for (const command of commands) process.stdout.write(`${command}\n`)
    for (const { command, error } of failures) {
      const about = error.message.startsWith(command) ? '' : `${command.split('\n')[0]}: `
      process.stderr.write(`kube-ipvs cleanup: ${about}${error.message}\n`)
    }
  }
  const ofOtherModes = await removeLeftovers(dryRun, signal)
  print(ofOtherModes)
  const ofIpvsMode = await removeIpvsMode(excluded, dryRun, signal)
  print(ofIpvsMode)
  const failures = [...ofOtherModes.failures, ...ofIpvsMode.failures]
  if (flags.output === 'json') {
    const operations = [...ofOtherModes.commands, ...ofIpvsMode.commands]
    const reasons = failures.map(({ command, error }) => ({ command, error: error.message }))
    process.stdout.write(`${JSON.stringify({ dryRun, operations, failures: reasons })}\n`)
  }
  return failures.length === 0 ? 0 : 1
}

async function removeLeftovers(dryRun: boolean, signal: AbortSignal): Promise<Removal> {
  const failures: Failed[] = []
  /** One thing that cannot be read or removed keeps nothing else from going. */
  const attempt = async <T>(command: string, otherwise: T, work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      failures.push({ command, error: asError(error) })
      return otherwise
    }
  }
  const inIptables = () =>
    without<readonly Leftover[]>(['iptables-missing'], [], () => leftInIptables(ipFamilies(), signal))
  const leftovers = [
    ...(await attempt('iptables-save', [], inIptables)),
    ...(await attempt('nft list tables', [], () => leftInNft(signal))),
  ]
  for (const { commands, remove } of dryRun ? [] : leftovers)
    await attempt(commands[0] ?? '', undefined, () => remove(signal))
  return { commands: leftovers.flatMap(({ commands }) => commands), failures }
}

/** On a kernel that has no IPVS, or no ipset, that part of it left nothing either. */
async function removeIpvsMode(excluded: readonly Cidr[], dryRun: boolean, signal: AbortSignal): Promise<Removal> {
  const guard = await without(['ipset-missing'], undefined, () => openLeftGuard(ipFamilies(), signal))
  if (guard === undefined) return { commands: [], failures: [] }
  const kernel = await without(['ipvs-missing'], undefined, () => openIpvsKernel(excluded, signal))
  try {
    const tables = kernel === undefined ? [] : await virtualServersOf(kernel, guard, excluded, signal)
    const nothing = () =>
      nothingWanted(
        guard,
        tables.map((open) => open()),
      )
    const commands = await nothing().preview({ signal, mayRemove: true, now })
    return { commands, failures: dryRun ? [] : await removeAll(nothing(), signal) }
  } finally {
    kernel?.close()
    guard.close()
  }
}

/** What `work` gives, or `otherwise` when it fails with one of these codes. */
async function without<T>(codes: readonly string[], otherwise: T, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof CodedError && codes.includes(error.code)) return otherwise
    throw error
  }
}

/** Everything a pass writes, one table after the other, with nothing wanted in any. */
function nothingWanted(guard: LeftGuard, virtualServers: readonly Reconciled[]): Reconciler {
  const { sets, entries, chains } = guard.tables()
  return new Reconciler([
    reconciled(new TableSync(sets)),
    reconciled(new TableSync(entries)),
    ...chains.map((table) => reconciled(new TableSync(table))),
    ...virtualServers,
  ])
}

/** Of the virtual servers only those go that the sets know: read before the sets are destroyed. */
async function virtualServersOf(
  { ipvs, rtnetlink, tables }: IpvsKernel,
  guard: LeftGuard,
  excluded: readonly Cidr[],
  signal: AbortSignal,
): Promise<readonly (() => Reconciled)[]> {
  const isOwned = await readOwned(rtnetlink, guard.tables().entries, signal)
  const virtualServers = new VirtualServerTable(ipvs, excluded, isOwned)
  return [
    () => reconciled(new TableSync(virtualServers)),
    () => reconciled(new TableSync(tables.device)),
    () => reconciled(new TableSync(tables.addresses)),
  ]
}

async function removeAll(reconciler: Reconciler, signal: AbortSignal): Promise<readonly Failed[]> {
  for (let tries = 1; ; tries++) {
    const { failures, unreadable } = await reconciler.pass({ signal, mayRemove: true, now })
    const [cannotRead] = unreadable
    if (cannotRead !== undefined) throw cannotRead.error
    if (failures.length === 0 || tries === TRIES) return failures
    // Until all of them are due: what is left at the end is what could not be done.
    const dueMs = Math.max(...failures.map(({ retryAtMs }) => retryAtMs))
    // A timer may fire a moment early, and a pass with nothing due would look like success.
    while (now() < dueMs) await sleep(dueMs - now() + 1, undefined, { signal })
  }
}
