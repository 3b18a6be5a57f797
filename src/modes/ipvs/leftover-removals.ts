/**
 * The removals of what other proxies left beside ipvs mode, one for each kind: what cannot be removed
 * of one kind, because a rule of another program names it, keeps nothing of the other.
 */
import type { AuditShare } from '../../sync/audit.ts'
import type { Clock } from '../../values/clock.ts'
import { asError } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import type { FirewallName } from '../chosen-firewall.ts'
import { LeftoverRemoval, type LeftoverRemovalOptions } from './leftover-removal.ts'

/** A kind of leftovers: how to find and to remove them. */
export type LeftoverKind = Pick<LeftoverRemovalOptions, 'kind' | 'find' | 'remove'>

export class LeftoverRemovals {
  readonly #removals: readonly LeftoverRemoval[]

  constructor(kinds: readonly LeftoverKind[], options: Omit<LeftoverRemovalOptions, keyof LeftoverKind>) {
    this.#removals = kinds.map((kind) => new LeftoverRemoval({ ...options, ...kind }))
  }

  /** See `LeftoverRemoval`; the kinds begin together. */
  begin(): boolean {
    return this.#removals.map((removal) => removal.begin()).includes(true)
  }

  /** One look for each kind. Rejects when all have ended and one of them was rejected. */
  async look(share: AuditShare, signal: AbortSignal): Promise<void> {
    const looks = await Promise.allSettled(this.#removals.map((removal) => removal.look(share, signal)))
    for (const look of looks) if (look.status === 'rejected') throw asError(look.reason)
  }

  async close(): Promise<void> {
    await Promise.all(this.#removals.map((removal) => removal.close()))
  }
}

/** What there may be beside the running firewall. */
export function leftoverKinds(running: FirewallName, log: Log, now: Clock): readonly LeftoverKind[] {
  return [
    {
      kind: 'nftables mode',
      find: async (signal, budget) => (await load()).isNftModeLeft(signal, budget),
      remove: async (signal) => (await load()).removeNftAfterSwitch(log, signal),
    },
    {
      kind: 'other firewall',
      find: async (signal, budget) => (await load()).isOtherFirewallLeft(running, signal, budget),
      remove: async (signal) => (await load()).removeOtherFirewall(running, log, now, signal),
    },
  ]
}

/** Loaded once everything is written: what runs until then needs none of it. */
const load = () => import('../leftovers/other-firewalls.ts')
