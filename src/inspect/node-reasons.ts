/**
 * What a daemon says that is wrong with its node, for `status` and `doctor` alike, so that one
 * command does not call a node fine that the other one does not.
 */
import { formatProblem, type Problem } from '../values/errors.ts'
import { printable } from '../values/quote.ts'
import type { RoomView } from './view.ts'

/** The part of DaemonView that decides. */
export interface ReasonedDaemon {
  readonly mode: string
  readonly configuredMode: string
  readonly health: { readonly healthy: boolean; readonly reason: string | null }
  readonly awaiting: readonly string[]
  readonly fallback: { readonly message: string } | null
  readonly passes: readonly { readonly what: string; readonly failed: number; readonly unreadable: number }[]
  readonly problems: readonly Problem[]
  /** null, or absent: the daemon is older. */
  readonly room?: Pick<RoomView, 'limit' | 'leftOut'> | null
}

/** `problem`: one of the node, not of an object or of a setting of the kernel. */
export type ReasonKind =
  | 'unhealthy'
  | 'awaiting'
  | 'fallback'
  | 'other-mode'
  | 'failed'
  | 'unreadable'
  | 'no-room'
  | 'problem'

export interface NodeReason {
  readonly kind: ReasonKind
  /** Printable. */
  readonly text: string
}

/** Why the node is not fine; none when it is, as far as the daemon knows. */
export function nodeReasons(daemon: ReasonedDaemon): readonly NodeReason[] {
  const { health, awaiting, mode, configuredMode, fallback, passes, problems, room } = daemon
  const reasons: NodeReason[] = []
  const add = (kind: ReasonKind, text: string): void => void reasons.push({ kind, text })
  if (!health.healthy) add('unhealthy', printable(health.reason ?? 'the daemon is not healthy'))
  if (awaiting.length > 0)
    add('awaiting', `the daemon still waits for the list of ${awaiting.map(printable).join(', ')}`)
  if (fallback !== null) add('fallback', `it runs in ${mode} mode: ${printable(fallback.message)}`)
  else if (mode !== configuredMode) add('other-mode', `it still runs in ${mode} mode instead of ${configuredMode} mode`)
  for (const { what, failed, unreadable } of passes) {
    if (failed > 0) add('failed', `${several(failed, 'operation')} of the last pass over ${partName(what)} failed`)
    if (unreadable > 0) add('unreadable', `${several(unreadable, 'table')} of the kernel cannot be read`)
  }
  if (room !== undefined && room !== null && room.leftOut.services > 0) add('no-room', noRoom(room))
  for (const problem of problems)
    if (problem.about !== 'object' && problem.about !== 'setting') add('problem', printable(formatProblem(problem)))
  return reasons
}

function noRoom({ limit, leftOut: { services, frontends } }: Pick<RoomView, 'limit' | 'leftOut'>): string {
  const what = `${several(frontends, 'frontend')} of ${several(services, 'Service')}`
  return `the room for ${limit} real servers (kubeIPVS.maxRealServers) does not suffice: ${what} left out`
}

const several = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`

function partName(what: string): string {
  return what === 'tables' ? 'the tables' : `the rules of ${what}`
}
