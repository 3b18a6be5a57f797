/**
 * `kube-ipvs cleanup`: a pass towards an empty desired state; only what is ours goes.
 * What could break: it is the loop of the daemon with nothing wanted, so that nothing is removed here that a pass would
 * leave alone.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { IpvsDataplane } from '../dataplane/ipvs.ts'
import { openIpvsKernel } from '../dataplane/ipvs-kernel.ts'
import { parseCidr } from '../values/cidr.ts'
import type { FlagValues } from './flags.ts'
import { loadSettings } from './settings.ts'
import { stderrLog } from './stderr-log.ts'

/** A failing operation is tried this often. */
const TRIES = 3

export async function cleanup(flags: FlagValues): Promise<number> {
  const { configuration } = await loadSettings(flags)
  const excluded = configuration.ipvs.excludeCIDRs.flatMap((text) => parseCidr(text) ?? [])
  const signal = AbortSignal.timeout(60_000)
  const kernel = await openIpvsKernel(excluded, signal)
  try {
    const empty = () =>
      new IpvsDataplane({
        tables: kernel.tables,
        scheduler: 'rr',
        families: [],
        drainDeadlineMs: undefined,
        now: () => performance.now(),
        log: stderrLog,
      })
    const commands = await empty().preview({ signal, mayRemove: true })
    if (flags.output !== 'json') for (const command of commands) process.stdout.write(`${command}\n`)
    const failures = flags.dryRun === true ? [] : await removeAll(empty(), signal)
    for (const { command, error } of failures) process.stderr.write(`kube-ipvs cleanup: ${command}: ${error.message}\n`)
    if (flags.output === 'json')
      process.stdout.write(
        `${JSON.stringify({ dryRun: flags.dryRun === true, operations: commands, failures: failures.map(({ command, error }) => ({ command, error: error.message })) })}\n`,
      )
    return failures.length === 0 ? 0 : 1
  } finally {
    kernel.close()
  }
}

async function removeAll(
  dataplane: IpvsDataplane,
  signal: AbortSignal,
): Promise<readonly { readonly command: string; readonly error: Error }[]> {
  for (let tries = 1; ; tries++) {
    const { failures, unreadable } = await dataplane.pass({ signal, mayRemove: true })
    const [cannotRead] = unreadable
    if (cannotRead !== undefined) throw cannotRead.error
    if (failures.length === 0 || tries === TRIES) return failures
    const dueMs = dataplane.nextDueMs()
    if (dueMs !== undefined) await sleep(Math.max(0, dueMs - performance.now()), undefined, { signal })
  }
}
