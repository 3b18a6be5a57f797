/**
 * Turns objects into winning frontends: holds Services, slices and the node context, and computes only the owners (Services) that
 * changed. The cost depends on the number of dirty owners, not on the number of Services.
 */
import { frontendsOf, type FrontendSettings } from '../service/contribution.ts'
import { CHOICE_NAMES, NO_CHOICES, type ServiceChoices } from '../service/annotations.ts'
import { type Frontend, frontendComparison, type FrontendKey } from '../service/frontends.ts'
import { changedFields, type NodeContext, READS_ALL, READS_LOCAL_ADDRESSES } from '../service/node-context.ts'
import type { EndpointSlice, ObjectChange, Service } from '../service/objects.ts'
import type { Budget } from '../values/budget.ts'
import type { Problem } from '../values/errors.ts'
import { ClusterIps } from './cluster-ips.ts'
import { DirtyOwners } from './dirty-owners.ts'
import { type Claim, type Loss, OwnedMap } from './owned-map.ts'
import { OwnerShares, RESTLESS_UNITS } from './owner-shares.ts'
import { OwnerWork } from './owner-work.ts'
import { namespaceOf, NodeRoom } from './node-room.ts'
import { OwnedSlices, sliceKeyOf } from './owned-slices.ts'

/** Receives what a flush changed. */
export interface FrontendListener {
  /** The frontend that owns `key` has changed; undefined when no Service claims the key any more. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void
  /** All current problems with this owner's frontends. */
  problems(owner: string, problems: readonly Problem[]): void
}

const NO_KEYS: readonly FrontendKey[] = []
const NO_PROBLEMS: readonly Problem[] = []

/** Of Services that cost more than this also what they had counts as work. */
const LARGE_COST = 500
/** Decisions about the room of the node in one call that does everything. Each may let Services grow that the one before could not judge. */
const MAX_DECISIONS = 20
/** Units of work (see OwnerWork) that one owner may use at once. Nearly every Service needs less. */
const OWNER_UNITS = 250

export class DesiredFrontends {
  readonly #services = new Map<string, Service>()
  readonly #slices = new OwnedSlices()
  readonly #owned = new OwnedMap<FrontendKey, Frontend>(frontendComparison())
  /** What each owner claims. */
  readonly #claimed = new Map<string, readonly FrontendKey[]>()
  readonly #dirty = new DirtyOwners()
  /**
   * Owners whose work takes more than OWNER_UNITS and is not done yet. If such an owner becomes dirty, its next work waits for
   * this one.
   */
  readonly #large = new Map<string, OwnerWork>()
  /** Owners that cost more than LARGE_COST. */
  readonly #wereLarge = new Set<string>()
  /** Which owners rest, because work on them took much. */
  readonly shares = new OwnerShares()
  readonly room: NodeRoom
  /** Dirty owners that may have more of the node, or must have less. */
  readonly #decided = new Set<string>()
  /** READS_* bits of owners, without those that read READS_LOCAL_ADDRESSES only: nearly all. */
  readonly #reads = new Map<string, number>()
  /** What each owner has chosen by annotations, without those that have chosen nothing. */
  readonly #choices = new Map<string, ServiceChoices>()
  readonly #troubled = new Set<string>()
  readonly #clusterIps = new ClusterIps(this.#services)
  readonly #settings: FrontendSettings
  #context: NodeContext

  constructor(context: NodeContext, settings: FrontendSettings = {}) {
    this.#context = context
    this.#settings = { clusterIpOwner: (address) => this.#clusterIps.owner(address), ...settings }
    this.room = new NodeRoom({
      limit: settings.maxCost ?? (() => Number.POSITIVE_INFINITY),
      services: () => this.#ages(),
      isNeeded: (owner) => this.#isNeededFirst(owner),
    })
  }

  /** Applies one change of a Service or a slice. A Node's change is left to the caller, who makes the context. */
  apply(change: ObjectChange): void {
    switch (change.kind) {
      case 'services':
        this.#applyService(change.key, change.value)
        break
      case 'endpointslices':
        for (const owner of this.#slices.apply(change.key, change.value)) this.#dirty.add(owner)
        break
      case 'nodes':
        break
    }
  }

  /** Replaces the view of the node: owners that read a field that differs become dirty. */
  setContext(context: NodeContext): void {
    const changed = changedFields(this.#context, context)
    this.#context = context
    if (changed === 0) return
    for (const owner of this.#services.keys())
      if (((this.#reads.get(owner) ?? READS_LOCAL_ADDRESSES) & changed) !== 0) this.#dirty.add(owner)
  }

  /**
   * Computes dirty owners for about `units` and returns how many are left, 0 when none of them can begin now. An owner that needs more than OWNER_UNITS gets
   * only these, and `resume` does the rest. With unlimited units everything is done. Owners that rest at `nowMs` are left out.
   */
  flush(listener: FrontendListener, units: number, nowMs = Number.POSITIVE_INFINITY): number {
    const isAll = units === Number.POSITIVE_INFINITY
    for (let decisions = 0; ; decisions++) {
      const left = this.#flush(this.#dirty.inOrder(this.#waits(nowMs)), listener, units, nowMs)
      if (!isAll || this.#decided.size === 0 || decisions === MAX_DECISIONS) return left
    }
  }

  /** As `flush`, but three quarters of the work go to the owners that became dirty last, and a quarter to the oldest. */
  flushPortion(listener: FrontendListener, units: number, nowMs = Number.POSITIVE_INFINITY): number {
    return this.#flush(this.#dirty.fromBothEnds(this.#waits(nowMs)), listener, units, nowMs)
  }

  #flush(owners: Iterable<string>, listener: FrontendListener, units: number, nowMs: number): number {
    const share = units === Number.POSITIVE_INFINITY ? units : OWNER_UNITS
    let left = units
    for (const owner of owners) {
      if (left <= 0) return this.#dirty.size
      left -= 1 + this.#begin(owner, share, listener)
    }
    this.#decide(nowMs)
    return 0
  }

  /** Owners that may have more of the node, or must have less, become dirty. */
  #decide(nowMs: number): void {
    for (const owner of this.room.decide(nowMs)) {
      this.#dirty.add(owner)
      this.#decided.add(owner)
    }
  }

  /** Whether owners became dirty because they may have more of the node, or must have less. */
  get hasDecided(): boolean {
    return this.#decided.size > 0
  }

  /** Whether a dirty owner gets no work now: its large work is not done yet, or it rests. */
  #waits(nowMs: number): (owner: string) => boolean {
    return (owner) => this.#large.has(owner) || this.shares.isResting(owner, nowMs)
  }

  /**
   * Continues within the budget with the owners that `flush` could not finish, in turns, without those that rest at `nowMs`;
   * returns how many are left.
   */
  resume(listener: FrontendListener, budget: Budget, nowMs = Number.POSITIVE_INFINITY): number {
    for (const [owner, work] of this.#large) {
      if (budget.spent()) break
      if (this.shares.isResting(owner, nowMs)) continue
      // An owner that is not done moves to the end of the queue.
      this.#large.delete(owner)
      budget.use(this.#run(work, Math.min(budget.left, OWNER_UNITS), listener))
    }
    this.#decide(nowMs)
    return this.#large.size
  }

  /** A round ends: gives no work until `untilMs` to the owners that have used many units in it. */
  rest(nowMs: number, untilMs: number): void {
    this.shares.rest(nowMs, untilMs)
  }

  /** When `flush` or `resume` has work again after a round: 0 for now, the end of a rest, or undefined for no work. */
  get nextWorkMs(): number | undefined {
    const times = Array.from(this.#large.keys(), (owner) => this.shares.restsUntilMs(owner))
    for (const [owner, endMs] of this.shares.resting()) if (this.#dirty.has(owner)) times.push(endMs)
    for (const owner of this.#decided) if (!this.#large.has(owner)) times.push(this.shares.restsUntilMs(owner))
    const { nextDecisionMs } = this.room
    if (nextDecisionMs !== undefined) times.push(nextDecisionMs)
    return times.length === 0 ? undefined : Math.min(...times)
  }

  /** Computes the owners that the rest of the cluster needs first: the API server's Service and the cluster's DNS. */
  flushFirst(listener: FrontendListener): void {
    for (const owner of this.#dirty.inOrder(() => false)) {
      const service = this.#services.get(owner)
      if (service !== undefined && isNeededFirst(service)) this.#begin(owner, OWNER_UNITS, listener)
    }
  }

  get isDirty(): boolean {
    return this.#dirty.size + this.#large.size > 0
  }

  /** The slice of this key (`namespace/name`) as last applied. */
  slice(key: string): EndpointSlice | undefined {
    return this.#slices.get(key)
  }

  /** Every Service and slice as last applied, as an addition. It follows changes while it is read. */
  *objects(): Generator<ObjectChange, void, void> {
    for (const [key, value] of this.#services) yield { kind: 'services', key, value }
    for (const value of this.#slices.values()) yield { kind: 'endpointslices', key: sliceKeyOf(value), value }
  }

  /** The node of each endpoint that has one, in the whole cluster: the same names many times. It follows changes while it is read. */
  *endpointNodes(): Generator<string, void, void> {
    for (const { endpoints } of this.#slices.values())
      for (const { nodeName } of endpoints) if (nodeName !== '') yield nodeName
  }

  get(key: FrontendKey): Frontend | undefined {
    return this.#owned.get(key)
  }

  /** Every frontend with its owner, in the order in which the keys were first claimed. It follows changes while it is read. */
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

  /** The Service of this key (`namespace/name`) as last applied. */
  service(key: string): Service | undefined {
    return this.#services.get(key)
  }

  /** What a Service claims, won or lost, as last computed. */
  claimedBy(owner: string): readonly FrontendKey[] {
    return this.#claimed.get(owner) ?? NO_KEYS
  }

  /** How many claims have lost their address and port to another Service. */
  get lossCount(): number {
    return this.#owned.lossCount
  }

  /** Claims that lost since the last call; if there are very many, only some. */
  takeNewLosses(): readonly Loss<FrontendKey>[] {
    return this.#owned.takeNewLosses()
  }

  get serviceCount(): number {
    return this.#services.size
  }

  /** How many Services have made each choice in force, by the names in CHOICE_NAMES. */
  choiceCounts(): ReadonlyMap<string, number> {
    // Services with equal annotations share their choices.
    const owners = new Map<ServiceChoices, number>()
    for (const choices of this.#choices.values()) owners.set(choices, (owners.get(choices) ?? 0) + 1)
    const counts = new Map(Object.values(CHOICE_NAMES).map((name) => [name, 0]))
    for (const [choices, count] of owners)
      for (const choice of Object.keys(choices) as (keyof ServiceChoices)[])
        counts.set(CHOICE_NAMES[choice], (counts.get(CHOICE_NAMES[choice]) ?? 0) + count)
    return counts
  }

  #applyService(owner: string, service: Service | undefined): void {
    const before = this.#services.get(owner)
    if (before?.createdAtMs !== service?.createdAtMs) this.room.servicesChanged(namespaceOf(owner))
    if (service === undefined) this.#services.delete(owner)
    else this.#services.set(owner, service)
    this.#dirty.add(owner)
    for (const concerned of this.#clusterIps.changed(owner, before, service)) this.#dirty.add(concerned)
  }

  *#ages(): Generator<{ readonly owner: string; readonly since: number }, void, void> {
    for (const [owner, { createdAtMs }] of this.#services) yield { owner, since: createdAtMs }
  }

  #isNeededFirst(owner: string): boolean {
    const service = this.#services.get(owner)
    return service !== undefined && isNeededFirst(service)
  }

  /** Returns the units of work used. */
  #begin(owner: string, units: number, listener: FrontendListener): number {
    this.#dirty.delete(owner)
    this.#decided.delete(owner)
    const service = this.#services.get(owner)
    const work = new OwnerWork({
      owner,
      since: service?.createdAtMs ?? 0,
      frontends:
        service === undefined
          ? undefined
          : (turn) => frontendsOf(service, this.#slices.of(owner), this.#context, this.#settings, turn),
      room: this.room,
      wasLarge: this.#wereLarge.has(owner),
      claimed: this.#claimed.get(owner) ?? NO_KEYS,
      owned: this.#owned,
    })
    return this.#run(work, units, listener)
  }

  #run(work: OwnerWork, units: number, listener: FrontendListener): number {
    const { owner } = work
    const done = work.run(units, (key) => listener.frontend(key, this.#owned.get(key)))
    // Nearly no Service does, and what is not counted costs nothing.
    if (done > RESTLESS_UNITS) this.shares.charge(owner, done)
    if (!work.isDone) {
      // Which fields it will read is not known yet.
      this.#reads.set(owner, READS_ALL)
      this.#large.set(owner, work)
      return done
    }
    const { contribution } = work
    if (contribution === undefined) {
      this.#reads.delete(owner)
      this.#claimed.delete(owner)
    } else {
      if (contribution.reads === READS_LOCAL_ADDRESSES) this.#reads.delete(owner)
      else this.#reads.set(owner, contribution.reads)
      this.#claimed.set(owner, work.claims)
    }
    const { cost = 0, shortage } = contribution ?? {}
    this.room.settle(owner, cost, shortage)
    if (cost > LARGE_COST) this.#wereLarge.add(owner)
    else this.#wereLarge.delete(owner)
    const choices = contribution?.choices ?? NO_CHOICES
    if (choices === NO_CHOICES) this.#choices.delete(owner)
    else this.#choices.set(owner, choices)
    // It is computed again after the decision.
    if (!this.room.isUndecided(owner)) this.#report(owner, contribution?.problems ?? NO_PROBLEMS, listener)
    return done
  }

  #report(owner: string, problems: readonly Problem[], listener: FrontendListener): void {
    if (problems.length === 0 ? this.#troubled.delete(owner) : this.#troubled.add(owner))
      listener.problems(owner, problems)
  }
}

/** `default/kubernetes`, and every Service in kube-system that answers DNS. */
function isNeededFirst(service: Service): boolean {
  if (service.namespace === 'default') return service.name === 'kubernetes'
  return service.namespace === 'kube-system' && service.ports.some((port) => port.port === 53)
}
