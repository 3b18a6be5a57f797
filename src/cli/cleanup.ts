/**
 * `kube-ipvs cleanup`: a pass towards an empty desired state; only what is ours goes.
 * What could break: it is the loop of the daemon with nothing wanted, so that nothing is removed here that a pass would
 * leave alone; and of the virtual servers only those go that the sets name.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type GuardKernel, openGuardKernel } from '../dataplane/guard-kernel.ts'
import type { IpvsTables } from '../dataplane/ipvs.ts'
import { type IpvsKernel, openIpvsKernel } from '../dataplane/ipvs-kernel.ts'
import { ownedBySets } from '../dataplane/owned-virtual-servers.ts'
import type { EntryRunOptions } from '../ipset/entry-run.ts'
import { SERVICE_DEVICE } from '../ipvs/address-diff.ts'
import { VirtualServerTable } from '../ipvs/table.ts'
import { ipFamilies } from '../node/host.ts'
import { type PassReport, Reconciler, reconciled } from '../sync/reconciler.ts'
import { TableSync } from '../sync/table-sync.ts'
import { parseCidr } from '../values/cidr.ts'
import type { FlagValues } from './flags.ts'
import { loadSettings } from './settings.ts'

/** A failing operation is tried this often. */
const TRIES = 3

const UNHEARD: EntryRunOptions = { onSetLost: () => undefined, onGrown: () => undefined }
const now = (): number => performance.now()

export async function cleanup(flags: FlagValues): Promise<number> {
  const { configuration } = await loadSettings(flags)
  const excluded = configuration.ipvs.excludeCIDRs.flatMap((text) => parseCidr(text) ?? [])
  const signal = AbortSignal.timeout(60_000)
  const guardKernel = await openGuardKernel(ipFamilies(), signal)
  const kernel = await openIpvsKernel(excluded, signal)
  try {
    const isOwned = await ownership(kernel, guardKernel, signal)
    const virtualServers = new VirtualServerTable(kernel.ipvs, excluded, isOwned)
    const nothing = () => nothingWanted({ ...kernel.tables, virtualServers }, guardKernel)
    const commands = await nothing().preview({ signal, mayRemove: true, now })
    if (flags.output !== 'json') for (const command of commands) process.stdout.write(`${command}\n`)
    const failures = flags.dryRun === true ? [] : await removeAll(nothing(), signal)
    for (const { command, error } of failures) {
      const about = error.message.startsWith(command) ? '' : `${command.split('\n')[0]}: `
      process.stderr.write(`kube-ipvs cleanup: ${about}${error.message}\n`)
    }
    if (flags.output === 'json')
      process.stdout.write(
        `${JSON.stringify({ dryRun: flags.dryRun === true, operations: commands, failures: failures.map(({ command, error }) => ({ command, error: error.message })) })}\n`,
      )
    return failures.length === 0 ? 0 : 1
  } finally {
    kernel.close()
    guardKernel.close()
  }
}

/** Everything a pass writes, one table after the other, with nothing wanted in any. */
function nothingWanted({ virtualServers, device, addresses }: IpvsTables, guardKernel: GuardKernel): Reconciler {
  const { sets, entries, chains } = guardKernel.tables(UNHEARD)
  return new Reconciler([
    reconciled(new TableSync(sets)),
    reconciled(new TableSync(entries)),
    ...chains.map((table) => reconciled(new TableSync(table))),
    reconciled(new TableSync(virtualServers)),
    reconciled(new TableSync(device)),
    reconciled(new TableSync(addresses)),
  ])
}

/** Of the virtual servers only those go that the sets know: read before the sets are destroyed. */
async function ownership(
  { rtnetlink }: IpvsKernel,
  guardKernel: GuardKernel,
  signal: AbortSignal,
): Promise<(key: string) => boolean> {
  const device = (await rtnetlink.getLink(SERVICE_DEVICE, { signal }))?.index
  const addresses = (await rtnetlink.listAddresses({ signal })).filter((it) => it.interfaceIndex !== device)
  const { entries } = guardKernel.tables(UNHEARD)
  const inSets = await entries.read('all', signal)
  return ownedBySets(inSets.values(), new Set(addresses.map((it) => it.address)))
}

async function removeAll(reconciler: Reconciler, signal: AbortSignal): Promise<PassReport['failures']> {
  for (let tries = 1; ; tries++) {
    const { failures, unreadable } = await reconciler.pass({ signal, mayRemove: true, now })
    const [cannotRead] = unreadable
    if (cannotRead !== undefined) throw cannotRead.error
    if (failures.length === 0 || tries === TRIES) return failures
    // Until all of them are due: what is left at the end is what could not be done.
    const dueMs = Math.max(...failures.map(({ retryAtMs }) => retryAtMs))
    await sleep(Math.max(0, dueMs - now()), undefined, { signal })
  }
}
