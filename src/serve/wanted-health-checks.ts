/**
 * Which health check ports must be open and what they count, updated one frontend at a time. A
 * Service owns its port as long as it has any frontend of that IP family. If two Services claim one
 * port, the older one owns it, as with addresses.
 */
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import { FrontendsByOwner } from '../service/frontends-by-owner.ts'
import type { ServicePort } from '../service/service-port.ts'
import { OwnedMap } from '../sync/owned-map.ts'
import type { IpFamily } from '../values/protocol.ts'

/** `IPv4 32001`: each IP family has its own listener and its own count. */
export type HealthCheckKey = string

/** What the healthCheckNodePort of a Service reports to load balancers. */
export interface HealthCheck {
  readonly family: IpFamily
  /** 1-65535 */
  readonly port: number
  readonly namespace: string
  readonly name: string
  /** Distinct addresses of ready endpoints on this node. */
  readonly localEndpoints: number
}

/** A changed check; undefined if the port is not wanted any more. */
export interface HealthCheckChange {
  readonly key: HealthCheckKey
  readonly check: HealthCheck | undefined
}

/** Who claims one port. */
export interface HealthCheckClaims {
  readonly key: HealthCheckKey
  /** Services (`demo/web`): the first one has the port, the others have none. */
  readonly services: readonly string[]
}

/** IP family and Service: `IPv4 demo/web`. */
type Owner = string

export class WantedHealthChecks {
  readonly #families: readonly IpFamily[]
  readonly #frontends = new FrontendsByOwner<Owner>((frontend) => this.#ownerOf(frontend))
  readonly #checks = new OwnedMap<HealthCheckKey, HealthCheck>(sameCount)
  /** The key that each owner claims. */
  readonly #claimed = new Map<Owner, HealthCheckKey>()
  /** Keys of claims that were made or withdrawn since they were taken. */
  readonly #touched = new Set<HealthCheckKey>()

  /** @param families the served IP families; frontends of others are ignored */
  constructor(families: readonly IpFamily[]) {
    this.#families = families
  }

  /** Sets the frontend that owns `key`, or undefined for none. Most frontends have no health check port. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    this.#frontends.set(key, frontend)
  }

  /** The changes since the previous call, each key once. The cost grows with the number of changed Services only. */
  changes(): readonly HealthCheckChange[] {
    const changed = new Set<HealthCheckKey>()
    for (const [owner, frontend] of this.#frontends.takeChanged())
      for (const key of this.#flush(owner, frontend?.servicePort)) changed.add(key)
    return Array.from(changed, (key) => ({ key, check: this.#checks.get(key) }))
  }

  /** The claims of each port that a Service has claimed or left since the previous call. */
  takeClaims(): readonly HealthCheckClaims[] {
    const keys = Array.from(this.#touched)
    this.#touched.clear()
    return keys.map((key) => ({ key, services: this.#checks.claims(key).map(({ owner }) => serviceOf(owner)) }))
  }

  #ownerOf({ servicePort: { family, service } }: Frontend): Owner | undefined {
    if (service.healthCheckNodePort === 0 || !this.#families.includes(family)) return undefined
    return `${family} ${service.namespace}/${service.name}`
  }

  /** Updates the claims of one owner and returns the keys whose check has changed. */
  #flush(owner: Owner, servicePort: ServicePort | undefined): readonly HealthCheckKey[] {
    const changed: HealthCheckKey[] = []
    const before = this.#claimed.get(owner)
    // Port and count are the same in all frontends of a Service.
    const key =
      servicePort === undefined ? undefined : `${servicePort.family} ${servicePort.service.healthCheckNodePort}`
    if (before !== undefined && before !== key) {
      this.#claimed.delete(owner)
      this.#touched.add(before)
      if (this.#checks.withdraw(before, owner)) changed.push(before)
    }
    if (servicePort === undefined || key === undefined) return changed
    const { family, service, localReadyEndpoints: localEndpoints } = servicePort
    const { namespace, name, createdAtMs, healthCheckNodePort: port } = service
    this.#claimed.set(owner, key)
    if (before !== key) this.#touched.add(key)
    const value = { family, port, namespace, name, localEndpoints }
    if (this.#checks.claim(key, { owner, rank: 0, since: createdAtMs, value })) changed.push(key)
    return changed
  }
}

function serviceOf(owner: Owner): string {
  return owner.slice(owner.indexOf(' ') + 1)
}

/** All other fields are equal for one owner and one key. */
function sameCount(a: HealthCheck, b: HealthCheck): boolean {
  return a.localEndpoints === b.localEndpoints
}
