/**
 * Which Service has which cluster IP, and which Services name an address in externalIPs, so that a
 * Service is computed again when an address that it names becomes the cluster IP of another one, or
 * no longer is one. Nothing is held before a Service has externalIPs.
 */
import type { Service } from '../service/objects.ts'
import { sameList } from '../values/lists.ts'

const NONE: readonly string[] = []

export class ClusterIps {
  readonly #services: ReadonlyMap<string, Service>
  /** Cluster IPs to Services; undefined until a Service has externalIPs. */
  #owners: Map<string, string> | undefined
  /** Addresses in externalIPs to Services. */
  readonly #claimants = new Map<string, Set<string>>()

  /** @param services every Service by its key, as they are now; read when the first one has externalIPs */
  constructor(services: ReadonlyMap<string, Service>) {
    this.#services = services
  }

  /** The Service (`namespace/name`) that has this cluster IP; undefined for other addresses. */
  owner(address: string): string | undefined {
    return this.#owners?.get(address)
  }

  /** Takes in the change of a Service, which `services` already has. Returns other Services that it concerns. */
  changed(key: string, before: Service | undefined, after: Service | undefined): Iterable<string> {
    this.#claim(key, before?.externalIps ?? NONE, after?.externalIps ?? NONE)
    if (this.#owners === undefined) {
      if (this.#claimants.size > 0) this.#owners = ownersOf(this.#services)
      return NONE
    }
    const [old, now] = [clusterIpsOf(before), clusterIpsOf(after)]
    if (sameList(old, now)) return NONE
    for (const address of old) if (this.#owners.get(address) === key) this.#owners.delete(address)
    for (const address of now) this.#owners.set(address, key)
    const concerned = new Set<string>()
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

function clusterIpsOf(service: Service | undefined): readonly string[] {
  return service === undefined ? NONE : Object.values(service.clusterIps)
}

function ownersOf(services: ReadonlyMap<string, Service>): Map<string, string> {
  const owners = new Map<string, string>()
  for (const [key, service] of services) for (const address of clusterIpsOf(service)) owners.set(address, key)
  return owners
}
