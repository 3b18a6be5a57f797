/**
 * From objects to winning frontends: keeps Services, slices and the node context, and works out again just the owners
 * (Services) that changed.
 * What could break: nothing here may cost more than the owners that are dirty; the number of Services must not matter.
 */
import { type Contribution, contributionOf } from '../service/contribution.ts'
import { claimRank, type Frontend, type FrontendKey, sameFrontend } from '../service/frontends.ts'
import { changedFields, type NodeContext } from '../service/node-context.ts'
import type { EndpointSlice, ObjectChange, Service } from '../service/objects.ts'
import type { Problem } from '../values/errors.ts'
import { type Loss, OwnedMap } from './owned-map.ts'

/** Hears what a flush changed. */
export interface FrontendListener {
  /** The winning frontend of this key is another one now, or there is none. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void
  /** All problems with this owner's frontends as they stand now. */
  problems(owner: string, problems: readonly Problem[]): void
}

const NO_SLICES: readonly EndpointSlice[] = []

export class DesiredFrontends {
  readonly #services = new Map<string, Service>()
  /** Slices by owner, then by their own key. An owner with one slice holds the slice itself. */
  readonly #slices = new Map<string, EndpointSlice | Map<string, EndpointSlice>>()
  readonly #sliceOwners = new Map<string, string>()
  readonly #owned = new OwnedMap<FrontendKey, Frontend>(sameFrontend)
  /** What each owner claims. */
  readonly #claimed = new Map<string, readonly FrontendKey[]>()
  readonly #dirty = new Set<string>()
  /** READS_* bits of each owner. */
  readonly #reads = new Map<string, number>()
  readonly #troubled = new Set<string>()
  #context: NodeContext

  constructor(context: NodeContext) {
    this.#context = context
  }

  /** Takes one change of a Service or a slice in; a Node's is for whoever makes the context. */
  apply(change: ObjectChange): void {
    switch (change.kind) {
      case 'services':
        if (change.value === undefined) this.#services.delete(change.key)
        else this.#services.set(change.key, change.value)
        this.#dirty.add(change.key)
        break
      case 'endpointslices':
        this.#applySlice(change.key, change.value)
        break
      case 'nodes':
        break
    }
  }

  /** Another view of the node: owners that read a field that differs are dirty now. */
  setContext(context: NodeContext): void {
    const changed = changedFields(this.#context, context)
    this.#context = context
    if (changed === 0) return
    for (const [owner, reads] of this.#reads) if ((reads & changed) !== 0) this.#dirty.add(owner)
  }

  /** Works out up to `limit` dirty owners; returns how many are left. */
  flush(listener: FrontendListener, limit: number): number {
    let left = limit
    for (const owner of this.#dirty) {
      if (left-- <= 0) break
      this.#dirty.delete(owner)
      this.#flushOwner(owner, listener)
    }
    return this.#dirty.size
  }

  /** Works out the owners that the rest of the cluster needs first: the API server's Service and the cluster's DNS. */
  flushFirst(listener: FrontendListener): void {
    for (const owner of this.#dirty) {
      const service = this.#services.get(owner)
      if (service === undefined || !comesFirst(service)) continue
      this.#dirty.delete(owner)
      this.#flushOwner(owner, listener)
    }
  }

  get isDirty(): boolean {
    return this.#dirty.size > 0
  }

  /** The slice of this key (`namespace/name`) as it was last given. */
  slice(key: string): EndpointSlice | undefined {
    const owner = this.#sliceOwners.get(key)
    const there = owner === undefined ? undefined : this.#slices.get(owner)
    return there instanceof Map ? there.get(key) : there
  }

  get(key: FrontendKey): Frontend | undefined {
    return this.#owned.get(key)
  }

  /** Claims that lost their address and port to another Service: how many there are. */
  get lossCount(): number {
    return this.#owned.lossCount
  }

  /** Claims that lost since the last call; of very many just some. */
  takeNewLosses(): readonly Loss<FrontendKey>[] {
    return this.#owned.takeNewLosses()
  }

  get serviceCount(): number {
    return this.#services.size
  }

  #applySlice(key: string, slice: EndpointSlice | undefined): void {
    const owner = slice === undefined ? undefined : `${slice.namespace}/${slice.serviceName}`
    const before = this.#sliceOwners.get(key)
    if (before !== undefined && before !== owner) {
      this.#removeSlice(before, key)
      this.#dirty.add(before)
    }
    if (owner === undefined || slice === undefined) {
      this.#sliceOwners.delete(key)
      return
    }
    this.#sliceOwners.set(key, owner)
    this.#addSlice(owner, key, slice)
    this.#dirty.add(owner)
  }

  #addSlice(owner: string, key: string, slice: EndpointSlice): void {
    const there = this.#slices.get(owner)
    if (there instanceof Map) there.set(key, slice)
    else if (there === undefined || sliceKey(there) === key) this.#slices.set(owner, slice)
    else
      this.#slices.set(
        owner,
        new Map([
          [sliceKey(there), there],
          [key, slice],
        ]),
      )
  }

  #removeSlice(owner: string, key: string): void {
    const there = this.#slices.get(owner)
    if (there instanceof Map) {
      there.delete(key)
      if (there.size === 0) this.#slices.delete(owner)
    } else this.#slices.delete(owner)
  }

  #slicesOf(owner: string): readonly EndpointSlice[] {
    const there = this.#slices.get(owner)
    if (there === undefined) return NO_SLICES
    return there instanceof Map ? [...there.values()] : [there]
  }

  #flushOwner(owner: string, listener: FrontendListener): void {
    const service = this.#services.get(owner)
    const contribution: Contribution | undefined =
      service === undefined ? undefined : contributionOf(service, this.#slicesOf(owner), this.#context)
    if (contribution === undefined) this.#reads.delete(owner)
    else this.#reads.set(owner, contribution.reads)
    const since = service?.createdAtMs ?? 0
    const tell = (key: FrontendKey): void => listener.frontend(key, this.#owned.get(key))
    for (const [key, value] of contribution?.frontends ?? [])
      if (this.#owned.claim(key, { owner, rank: claimRank(value), since, value })) tell(key)
    for (const key of this.#claimed.get(owner) ?? [])
      if (contribution?.frontends.has(key) !== true && this.#owned.withdraw(key, owner)) tell(key)
    if (contribution === undefined) this.#claimed.delete(owner)
    else this.#claimed.set(owner, Array.from(contribution.frontends.keys()))
    this.#report(owner, contribution?.problems ?? [], listener)
  }

  #report(owner: string, problems: readonly Problem[], listener: FrontendListener): void {
    if (problems.length === 0 ? this.#troubled.delete(owner) : this.#troubled.add(owner))
      listener.problems(owner, problems)
  }
}

function sliceKey(slice: EndpointSlice): string {
  return `${slice.namespace}/${slice.name}`
}

/** `default/kubernetes`, and whatever answers DNS in kube-system. */
function comesFirst(service: Service): boolean {
  if (service.namespace === 'default') return service.name === 'kubernetes'
  return service.namespace === 'kube-system' && service.ports.some((port) => port.port === 53)
}
