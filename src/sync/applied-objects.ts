/**
 * Services and slices as last applied, each slice with the Service that owns it, and which Services
 * a change concerns. An owner with one slice, as nearly all have, holds the slice itself. Cluster
 * IPs are held only once a Service has externalIPs: it is computed again when an address that it
 * names there becomes the cluster IP of another Service, or no longer is one.
 */
import type { EndpointSlice, ObjectChange, Service } from '../service/objects.ts'
import { sameList } from '../values/lists.ts'

const NO_SLICES: readonly EndpointSlice[] = []
const NONE: readonly string[] = []

/** Keys of objects are `namespace/name`; the owner of a slice is the key of its Service. */
export class AppliedObjects {
  readonly #services = new Map<string, Service>()
  /** By owner, then by their own key. */
  readonly #slices = new Map<string, EndpointSlice | Map<string, EndpointSlice>>()
  readonly #ownersOfSlices = new Map<string, string>()
  /** Cluster IPs to Services; undefined until a Service has externalIPs. */
  #clusterIps: Map<string, string> | undefined
  /** Addresses in externalIPs to Services. */
  readonly #claimants = new Map<string, Set<string>>()

  /** Applies one change; one of a Node has no effect. Returns the Services that it concerns. */
  apply(change: ObjectChange): Iterable<string> {
    if (change.kind === 'services') return this.#applyService(change.key, change.value)
    return change.kind === 'endpointslices' ? this.#applySlice(change.key, change.value) : NONE
  }

  service(key: string): Service | undefined {
    return this.#services.get(key)
  }

  /** Every Service. It follows changes while it is read. */
  services(): Iterable<readonly [key: string, Service]> {
    return this.#services
  }

  get serviceCount(): number {
    return this.#services.size
  }

  /** The Service that has this cluster IP; undefined for other addresses. */
  clusterIpOwner(address: string): string | undefined {
    return this.#clusterIps?.get(address)
  }

  slice(key: string): EndpointSlice | undefined {
    const owner = this.#ownersOfSlices.get(key)
    const there = owner === undefined ? undefined : this.#slices.get(owner)
    return there instanceof Map ? there.get(key) : there
  }

  slicesOf(owner: string): readonly EndpointSlice[] {
    const there = this.#slices.get(owner)
    if (there === undefined) return NO_SLICES
    return there instanceof Map ? [...there.values()] : [there]
  }

  /** Every object as an addition. It follows changes while it is read. */
  *additions(): Generator<ObjectChange, void, void> {
    for (const [key, value] of this.#services) yield { kind: 'services', key, value }
    for (const value of this.#allSlices()) yield { kind: 'endpointslices', key: keyOf(value), value }
  }

  /** The node of each endpoint that has one: the same names many times. It follows changes while it is read. */
  *endpointNodes(): Generator<string, void, void> {
    for (const { endpoints } of this.#allSlices())
      for (const { nodeName } of endpoints) if (nodeName !== '') yield nodeName
  }

  /** Those of one owner together. */
  *#allSlices(): Generator<EndpointSlice, void, void> {
    for (const there of this.#slices.values())
      if (there instanceof Map) yield* there.values()
      else yield there
  }

  /** Returns the owners that have other slices now: the slice may have moved from one to another. */
  #applySlice(key: string, slice: EndpointSlice | undefined): readonly string[] {
    const before = this.#ownersOfSlices.get(key)
    if (slice === undefined) {
      if (before === undefined) return NONE
      this.#removeSlice(before, key)
      this.#ownersOfSlices.delete(key)
      return [before]
    }
    const owner = `${slice.namespace}/${slice.serviceName}`
    const hasMoved = before !== undefined && before !== owner
    if (hasMoved) this.#removeSlice(before, key)
    this.#ownersOfSlices.set(key, owner)
    this.#addSlice(owner, key, slice)
    return hasMoved ? [before, owner] : [owner]
  }

  #addSlice(owner: string, key: string, slice: EndpointSlice): void {
    const there = this.#slices.get(owner)
    if (there instanceof Map) there.set(key, slice)
    else if (there === undefined || keyOf(there) === key) this.#slices.set(owner, slice)
    else
      this.#slices.set(
        owner,
        new Map([
          [keyOf(there), there],
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

  #applyService(key: string, after: Service | undefined): Iterable<string> {
    const before = this.#services.get(key)
    if (after === undefined) this.#services.delete(key)
    else this.#services.set(key, after)
    this.#claim(key, before?.externalIps ?? NONE, after?.externalIps ?? NONE)
    if (this.#clusterIps === undefined) {
      if (this.#claimants.size > 0) this.#clusterIps = clusterIpsOfAll(this.#services)
      return [key]
    }
    const [old, now] = [clusterIpsOf(before), clusterIpsOf(after)]
    if (sameList(old, now)) return [key]
    for (const address of old) if (this.#clusterIps.get(address) === key) this.#clusterIps.delete(address)
    for (const address of now) this.#clusterIps.set(address, key)
    const concerned = new Set([key])
    for (const address of [...old, ...now])
      for (const claimant of this.#claimants.get(address) ?? NONE) concerned.add(claimant)
    return concerned
  }

  #claim(key: string, before: readonly string[], after: readonly string[]): void {
    if (sameList(before, after)) return
    for (const address of before) {
      const there = this.#claimants.get(address)
      there?.delete(key)
      if (there?.size === 0) this.#claimants.delete(address)
    }
    for (const address of after) {
      const there = this.#claimants.get(address)
      if (there === undefined) this.#claimants.set(address, new Set([key]))
      else there.add(key)
    }
  }
}

function keyOf({ namespace, name }: EndpointSlice): string {
  return `${namespace}/${name}`
}

function clusterIpsOf(service: Service | undefined): readonly string[] {
  return service === undefined ? NONE : Object.values(service.clusterIps)
}

function clusterIpsOfAll(services: ReadonlyMap<string, Service>): Map<string, string> {
  const owners = new Map<string, string>()
  for (const [key, service] of services) for (const address of clusterIpsOf(service)) owners.set(address, key)
  return owners
}
