/**
 * Turns objects and the node context into winning frontends, and computes only the owners
 * (Services) that changed. The cost depends on the number of dirty owners, not on
 * the number of Services.
 * @impure
 */
import { frontendsOf, type FrontendSettings } from '../service/contribution.ts'
import { type Frontend, frontendComparison, type FrontendKey } from '../service/frontends.ts'
import { changedFields, type NodeContext } from '../service/node-context.ts'
import type { ObjectChange, Service } from '../service/objects.ts'
import type { Budget, Work } from '../values/budget.ts'
import type { Problem } from '../values/errors.ts'
import { newBudget } from '../values/event-loop.ts'
import { AppliedObjects } from './applied-objects.ts'
import { DirtyOwners } from './dirty-owners.ts'
import { type Claim, type Loss, OwnedMap } from './owned-map.ts'
import { OwnerRecords } from './owner-records.ts'
import { OwnerWork } from './owner-work.ts'
import { namespaceOf, NodeRoom } from './node-room.ts'

/** Who receives what has changed. */
export interface FrontendListener {
  /** The frontend that owns `key` has changed; undefined when no Service claims the key any more. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void
  /** All present problems with this owner's frontends. */
  problems(owner: string, problems: readonly Problem[]): void
}

/**
 * Decisions about the room of the node in one call that does everything. Each may let Services grow
 * that the one before could not judge.
 */
const MAX_DECISIONS = 20

export class DesiredFrontends {
  readonly objects = new AppliedObjects()
  readonly #owned = new OwnedMap<FrontendKey, Frontend>(frontendComparison())
  readonly #dirty = new DirtyOwners<OwnerWork>()
  readonly #records = new OwnerRecords()
  /** Slow owners are not remembered in `all`, which ends although they change all the time. */
  #isInAll = false
  readonly room: NodeRoom
  readonly #troubled = new Set<string>()
  readonly #settings: FrontendSettings
  /** Of all work here. */
  readonly budget: Budget
  #context: NodeContext

  /** @param budget default: one of this process; work gives way to its event loop */
  constructor(context: NodeContext, settings: FrontendSettings = {}, budget = newBudget()) {
    this.#context = context
    this.budget = budget
    this.#settings = { clusterIpOwner: (address) => this.objects.clusterIpOwner(address), ...settings }
    this.room = new NodeRoom({
      limit: settings.maxCost ?? (() => Number.POSITIVE_INFINITY),
      services: () => this.#ages(),
      isNeeded: this.#isNeededFirst,
    })
  }

  /** Applies one change of a Service or a slice. A Node's change is left to the caller, who makes the context. */
  apply(change: ObjectChange): void {
    const { kind, key, value } = change
    if (kind === 'services' && this.objects.service(key)?.createdAtMs !== value?.createdAtMs)
      this.room.servicesChanged(namespaceOf(key))
    for (const owner of this.objects.apply(change)) this.#dirty.mark(owner)
  }

  /** Replaces the view of the node: owners that read a field that differs become dirty. */
  setContext(context: NodeContext): void {
    const changed = changedFields(this.#context, context)
    this.#context = context
    if (changed === 0) return
    for (const [owner] of this.objects.services())
      if ((this.#records.reads(owner) & changed) !== 0) this.#dirty.mark(owner)
  }

  /**
   * Computes dirty owners until the stretch is over: mostly those that became dirty last, and at
   * times the oldest. Returns how many are left, without the one that is not done then, which
   * `resume` continues.
   */
  flush(listener: FrontendListener, nowMs = Number.POSITIVE_INFINITY): number {
    return this.#flush(() => this.#dirty.takeFromBothEnds(), listener, nowMs)
  }

  #flush(take: () => string | undefined, listener: FrontendListener, nowMs = Number.POSITIVE_INFINITY): number {
    for (let owner = take(); owner !== undefined; owner = take()) {
      this.#run(this.#workOf(owner), listener)
      if (this.#dirty.size > 0 && this.budget.spent()) return this.#dirty.size
    }
    this.#decide(nowMs)
    return 0
  }

  /** Continues until the stretch is over with the owners whose work is long, in turns; returns how many are left. */
  resume(listener: FrontendListener, nowMs = Number.POSITIVE_INFINITY): number {
    for (let next = this.#dirty.takeLong(); next !== undefined; next = this.#dirty.takeLong()) {
      this.#run(next.work ?? this.#workOf(next.owner), listener)
      if (this.budget.spent()) break
    }
    this.#decide(nowMs)
    return this.longCount
  }

  /** Owners that may have more of the node, or must have less, become dirty. */
  #decide(nowMs: number): void {
    for (const owner of this.room.decide(nowMs)) this.#dirty.mark(owner)
  }

  /**
   * Computes everything: first the owners that the rest of the cluster needs (the API server's
   * Service and the cluster's DNS), then all in the order in which they became dirty, then what is
   * decided about the room of the node. Yields where the stretch is over.
   */
  *all(listener: FrontendListener): Work<void> {
    this.#isInAll = true
    for (const owner of Array.from(this.#dirty.keys()).filter(this.#isNeededFirst)) {
      this.#dirty.delete(owner)
      this.#run(this.#workOf(owner), listener)
      while (this.#dirty.isLong(owner)) {
        yield
        this.#run(this.#dirty.takeLong(owner)?.work ?? this.#workOf(owner), listener)
      }
    }
    let decisions = 0
    do {
      while (this.#flush(() => this.#dirty.takeOldest(), listener) > 0) yield
      while (this.resume(listener) > 0) yield
    } while (this.isDirty && ++decisions < MAX_DECISIONS)
    this.#isInAll = false
  }

  /** Does the work of `all` at once. */
  flushAll(listener: FrontendListener): void {
    for (const _ of this.all(listener)) this.budget.begin()
  }

  get isDirty(): boolean {
    return this.#dirty.size + this.#dirty.longSize > 0
  }

  /** How many owners have work that `resume` continues. */
  get longCount(): number {
    return this.#dirty.longSize
  }

  get(key: FrontendKey): Frontend | undefined {
    return this.#owned.get(key)
  }

  /** Every frontend with its owner, in the order of the first claims. It follows changes while it is read. */
  frontends(): Iterable<readonly [FrontendKey, Claim<Frontend>]> {
    return this.#owned.winners()
  }

  /** Every frontend that several Services claim. It follows changes while it is read. */
  contested(): Iterable<FrontendKey> {
    return this.#owned.contested()
  }

  get frontendCount(): number {
    return this.#owned.size
  }

  /** All claims at this key, the winner first, then in the order in which they would follow. */
  claims(key: FrontendKey): readonly Claim<Frontend>[] {
    return this.#owned.claims(key)
  }

  /** What a Service claims, won or lost, as last computed. */
  claimedBy(owner: string): readonly FrontendKey[] {
    return this.#records.claimed(owner)
  }

  /** How many claims have lost their address and port to another Service. */
  get lossCount(): number {
    return this.#owned.lossCount
  }

  /** Claims that lost since the last call; if there are very many, only some. */
  takeNewLosses(): readonly Loss<FrontendKey>[] {
    return this.#owned.takeNewLosses()
  }

  /** How many Services have made each choice in force, by the names in CHOICE_NAMES. */
  choiceCounts(): ReadonlyMap<string, number> {
    return this.#records.choiceCounts()
  }

  *#ages(): Generator<{ readonly owner: string; readonly since: number }, void, void> {
    for (const [owner, { createdAtMs }] of this.objects.services()) yield { owner, since: createdAtMs }
  }

  readonly #isNeededFirst = (owner: string): boolean => {
    const service = this.objects.service(owner)
    return service !== undefined && isNeededFirst(service)
  }

  #workOf(owner: string): OwnerWork {
    const service = this.objects.service(owner)
    return new OwnerWork({
      owner,
      since: service?.createdAtMs ?? 0,
      frontends:
        service === undefined
          ? undefined
          : (turn) => frontendsOf(service, this.objects.slicesOf(owner), this.#context, this.#settings, turn),
      room: this.room,
      budget: this.budget,
      claimed: this.#records.claimed(owner),
      owned: this.#owned,
    })
  }

  #run(work: OwnerWork, listener: FrontendListener): void {
    const { owner } = work
    this.#records.begin(owner)
    // Before it runs, because a listener may throw.
    this.#dirty.begin(owner, work)
    work.run((key) => listener.frontend(key, this.#owned.get(key)))
    if (work.isDone) this.#settle(work, listener)
  }

  #settle({ owner, contribution, claims, isLong }: OwnerWork, listener: FrontendListener): void {
    this.#records.set(owner, contribution, claims)
    this.#dirty.done(owner, isLong && contribution !== undefined && !this.#isInAll)
    this.room.settle(owner, contribution?.cost ?? 0, contribution?.shortage)
    // It is computed again after the decision.
    if (!this.room.isUndecided(owner)) this.#report(owner, contribution?.problems ?? [], listener)
  }

  #report(owner: string, problems: readonly Problem[], listener: FrontendListener): void {
    if (problems.length === 0 ? this.#troubled.delete(owner) : this.#troubled.add(owner))
      listener.problems(owner, problems)
  }
}

/**
 * Whether the rest of the cluster needs a Service before it can work: `default/kubernetes`, and
 * every Service in kube-system that answers DNS.
 */
function isNeededFirst(service: Service): boolean {
  if (service.namespace === 'default') return service.name === 'kubernetes'
  return service.namespace === 'kube-system' && service.ports.some((port) => port.port === 53)
}
