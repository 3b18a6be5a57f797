/**
 * Which health check ports must be open and what they count, kept up to date one frontend at a time.
 * What could break: a port belongs to a Service for as long as it has any frontend of that family, so frontends are kept
 * by key; and like an address and port, a port that two Services claim belongs to the older one.
 */
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import { OwnedMap } from '../sync/owned-map.ts'
import type { IpFamily } from '../values/protocol.ts'

/** `IPv4 32001`: each family has a listener of its own, with its own count. */
export type HealthCheckKey = string

/** What a load balancer learns about one Service at its healthCheckNodePort. */
export interface HealthCheck {
  readonly family: IpFamily
  /** 1-65535 */
  readonly port: number
  readonly namespace: string
  readonly name: string
  /** Distinct addresses of ready endpoints on this node. */
  readonly localEndpoints: number
}

/** A check that is wanted otherwise than before; undefined: not at all. */
export interface HealthCheckChange {
  readonly key: HealthCheckKey
  readonly check: HealthCheck | undefined
}

/** `IPv4 demo/web` */
type Owner = string

export class WantedHealthChecks {
  readonly #families: readonly IpFamily[]
  readonly #owners = new Map<FrontendKey, Owner>()
  readonly #frontends = new Map<Owner, Map<FrontendKey, Frontend>>()
  readonly #dirty = new Set<Owner>()
  readonly #checks = new OwnedMap<HealthCheckKey, HealthCheck>(sameCount)
  /** The key that each owner claims. */
  readonly #claimed = new Map<Owner, HealthCheckKey>()

  /** @param families those that the kernel has; frontends of others are left out */
  constructor(families: readonly IpFamily[]) {
    this.#families = families
  }

  /** The winning frontend at a key; undefined when there is none. Almost always nothing is to be done. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    const before = this.#owners.get(key)
    const owner = frontend === undefined ? undefined : this.#ownerOf(frontend)
    if (before !== undefined && before !== owner) this.#remove(key, before)
    if (frontend === undefined || owner === undefined) return
    this.#owners.set(key, owner)
    const own = this.#frontends.get(owner)
    if (own === undefined) this.#frontends.set(owner, new Map([[key, frontend]]))
    else own.set(key, frontend)
    this.#dirty.add(owner)
  }

  /** What changed since the last call, each key once. Costs as much as the Services that changed. */
  changes(): readonly HealthCheckChange[] {
    const changed = new Set<HealthCheckKey>()
    for (const owner of this.#dirty) for (const key of this.#flush(owner)) changed.add(key)
    this.#dirty.clear()
    return Array.from(changed, (key) => ({ key, check: this.#checks.get(key) }))
  }

  #ownerOf({ family, service }: Frontend): Owner | undefined {
    if (service.healthCheckNodePort === 0 || !this.#families.includes(family)) return undefined
    return `${family} ${service.namespace}/${service.name}`
  }

  #remove(key: FrontendKey, owner: Owner): void {
    this.#owners.delete(key)
    const own = this.#frontends.get(owner)
    own?.delete(key)
    if (own?.size === 0) this.#frontends.delete(owner)
    this.#dirty.add(owner)
  }

  /** Keys whose check is another one now. */
  #flush(owner: Owner): readonly HealthCheckKey[] {
    const changed: HealthCheckKey[] = []
    const before = this.#claimed.get(owner)
    // The port and the count are the Service's, so any of its frontends tells them.
    const [frontend] = this.#frontends.get(owner)?.values() ?? []
    const key = frontend === undefined ? undefined : `${frontend.family} ${frontend.service.healthCheckNodePort}`
    if (before !== undefined && before !== key) {
      this.#claimed.delete(owner)
      if (this.#checks.withdraw(before, owner)) changed.push(before)
    }
    if (frontend === undefined || key === undefined) return changed
    const { family, service, localReadyEndpoints: localEndpoints } = frontend
    const { namespace, name, createdAtMs, healthCheckNodePort: port } = service
    this.#claimed.set(owner, key)
    const value = { family, port, namespace, name, localEndpoints }
    if (this.#checks.claim(key, { owner, rank: 0, since: createdAtMs, value })) changed.push(key)
    return changed
  }
}

/** Of one owner and one key everything else is equal. */
function sameCount(a: HealthCheck, b: HealthCheck): boolean {
  return a.localEndpoints === b.localEndpoints
}
