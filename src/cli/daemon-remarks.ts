/**
 * What a running daemon is doing that explains why the kernel differs from what Services need: for
 * `kube-ipvs diff`.
 */
import { type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import type { DaemonView } from '../inspect/view.ts'
import { printable } from '../values/quote.ts'
import { count, spanText } from './status-words.ts'

/** Lines for people; none when there is nothing to say, or no daemon that is meant to answer. */
export async function daemonRemarks(client: DaemonClient, mode: string): Promise<readonly string[]> {
  const view = await client.daemon()
  if (!isUnknown(view)) return remarksOn(view, mode)
  // A node without a daemon is a usual place for a diff.
  return view.unknown === 'off' || view.unknown === 'no-daemon' ? [] : [view.reason]
}

/** @param mode the one that the differences are about */
export function remarksOn(daemon: DaemonView, mode: string): readonly string[] {
  const { awaiting, health, passes, counts, problems } = daemon
  const failed = passes.reduce((sum, pass) => sum + pass.failed, 0)
  const unreadable = passes.reduce((sum, pass) => sum + pass.unreadable, 0)
  const rival = problems.find(({ code }) => code === 'rival-writes')
  return [
    ...(daemon.configuredMode === mode
      ? []
      : [
          `the daemon is configured for ${printable(daemon.configuredMode)} mode, and these differences are those of ${mode} mode`,
        ]),
    ...(awaiting.length === 0
      ? []
      : [
          `the daemon waits for the list of ${awaiting.map(printable).join(', ')}, and removes nothing before it has all`,
        ]),
    ...health.pending.map(({ what, seconds }) => `the daemon is at work: ${printable(what)} (${spanText(seconds)})`),
    ...(failed === 0 ? [] : [`the last pass of the daemon failed at ${count(failed, 'operation')}, which it retries`]),
    ...(unreadable === 0 ? [] : [`the daemon could not read ${count(unreadable, 'table')} in its last pass`]),
    ...(rival === undefined ? [] : [printable(rival.message)]),
    ...(counts.draining === 0
      ? []
      : [
          `${count(counts.draining, 'real server')} draining: they are no differences, and are removed when their connections have ended`,
        ]),
  ]
}
