/**
 * The removals of what other proxies left beside ipvs mode, one for each kind: what cannot be removed
 * of one kind, because a rule of another program names it, keeps nothing of the other.
 */
import type { ProblemLog } from '../../serve/problem-log.ts'
import type { AuditShare } from '../../sync/audit.ts'
import { CONTESTED_REPAIRS } from '../../sync/key-history.ts'
import { backoffMs } from '../../values/backoff.ts'
import type { Budget } from '../../values/budget.ts'
import type { Clock } from '../../values/clock.ts'
import { asError } from '../../values/errors.ts'
import { newAuditBudget } from '../../values/event-loop.ts'
import type { Log } from '../../values/log.ts'
import type { FirewallName } from '../chosen-firewall.ts'

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

/** From one removal to the next look, by the number of times that there was something to remove. */
const LOOK_MS = { firstMs: 10_000, maxMs: 600_000 }

interface LeftoverRemovalOptions {
  /** The subject of its problem. */
  readonly kind: string
  /** Whether the kernel has anything of another proxy. Starts no program; all its work is in stretches of the budget. */
  readonly find: (signal: AbortSignal, budget: Budget) => Promise<boolean>
  /** Resolves when nothing is left, or when aborted. */
  readonly remove: (signal: AbortSignal) => Promise<void>
  /** Whether what another proxy left is not needed any more. */
  readonly isSpare: () => boolean
  readonly problems: Pick<ProblemLog, 'report'>
  readonly now: Clock
}

/**
 * Removes one kind of rules that other proxies left: at first when the kernel has everything that
 * takes their place, and again when another proxy has run for a while and has ended. While such a
 * proxy keeps writing, its rules are removed less and less often, and it is reported.
 */
export class LeftoverRemoval {
  readonly #options: LeftoverRemovalOptions
  readonly #abort = new AbortController()
  #hasBegun = false
  #removing: Promise<void> | undefined
  /** How often something has come back, each time within the wait after the removal before. */
  #times = 0
  #nextLookMs = 0

  constructor(options: LeftoverRemovalOptions) {
    this.#options = options
  }

  /** Begins the first removal, if it has not begun, and what it removes is not needed any more. Returns whether it does. */
  begin(): boolean {
    if (this.#hasBegun || !this.#options.isSpare()) return false
    this.#hasBegun = true
    this.#remove()
    return true
  }

  /** One look, as an audit, for what has come back. Rejects when the kernel cannot be read, or when aborted. */
  async look(share: AuditShare, signal: AbortSignal): Promise<void> {
    const { find, isSpare, now } = this.#options
    if (!this.#hasBegun || this.#removing !== undefined || now() < this.#nextLookMs) return
    const budget = newAuditBudget()
    const isFound = await find(signal, budget)
    const mayRemove = isSpare()
    if (isFound && mayRemove) this.#remove()
    // Nothing was removed, so nothing has come back.
    if (!isFound || mayRemove) this.#count(isFound)
    await share.rest(budget, signal)
  }

  async close(): Promise<void> {
    this.#abort.abort()
    await this.#removing
  }

  #remove(): void {
    const { remove, now } = this.#options
    const { signal } = this.#abort
    this.#removing = remove(signal).finally(() => {
      this.#removing = undefined
      this.#nextLookMs = now() + backoffMs(LOOK_MS, this.#times + 1)
    })
  }

  #count(isFound: boolean): void {
    const { kind, problems } = this.#options
    this.#times = isFound ? this.#times + 1 : 0
    if (this.#times !== 0 && this.#times < CONTESTED_REPAIRS) return
    const message = `rules of another proxy came back ${this.#times} times after they had been removed; of two proxies on a node one must be stopped, and until then such rules stay longer each time, up to 10 minutes`
    problems.report(
      'leftovers',
      kind,
      this.#times === 0 ? [] : [{ code: 'rival-rules', about: 'node', subject: kind, message }],
    )
  }
}
