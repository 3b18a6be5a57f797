/**
 * At which node ports a local client is relayed, and to which endpoints, updated one frontend at a
 * time. A port is wanted while its Service port has any frontend: the cluster IP is always one, so
 * it does not depend on where node ports have virtual servers.
 */
import type { Endpoint } from '../service/endpoints.ts'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import { FrontendsByOwner } from '../service/frontends-by-owner.ts'
import { sameEndpoints, type ServicePort, weightsOf } from '../service/service-port.ts'
import { OwnedMap } from '../sync/owned-map.ts'
import { sameList } from '../values/lists.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

/** `IPv4 30080` */
export type RelayKey = string

/** A node port at the loopback address of a family. */
export interface RelayedPort {
  readonly family: IpFamily
  /** 1-65535 */
  readonly port: number
  readonly namespace: string
  readonly name: string
  /** Those that may get a connection; none: nobody listens, so the kernel refuses clients. */
  readonly endpoints: readonly Endpoint[]
  /** Of each endpoint, 1 or more; undefined: all have the same. */
  readonly weights: readonly number[] | undefined
  /** How long after its last connection a client stays on its endpoint; 0: not at all. */
  readonly affinityMs: number
}

/** A changed port; undefined if it is not wanted any more. */
export interface RelayChange {
  readonly key: RelayKey
  readonly port: RelayedPort | undefined
}

/** IP family, Service port and node port: `IPv4 demo/web:http 30080`. */
type Owner = string

const NO_WEIGHTS: readonly number[] = []

export class WantedRelays {
  readonly #families: readonly IpFamily[]
  readonly #frontends = new FrontendsByOwner<Owner>((frontend) => this.#ownerOf(frontend))
  readonly #ports = new OwnedMap<RelayKey, RelayedPort>(sameRelayedPort)
  /** The key that each owner claims. */
  readonly #claimed = new Map<Owner, RelayKey>()
  /** Health check ports by frontend, and how many frontends have each: nobody is relayed there. */
  readonly #checkPorts = new Map<FrontendKey, number>()
  readonly #checkCounts = new Map<number, number>()
  readonly #dirtyKeys = new Set<RelayKey>()

  /** @param families the served IP families; frontends of others are ignored */
  constructor(families: readonly IpFamily[]) {
    this.#families = families
  }

  /** Sets the frontend that owns `key`, or undefined for none. Most frontends have no node port. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    this.#setCheckPort(key, frontend?.servicePort.service.healthCheckNodePort ?? 0)
    this.#frontends.set(key, frontend)
  }

  /** The changes since the previous call, each key once. The cost grows with the number of changed Services only. */
  changes(): readonly RelayChange[] {
    const changed = new Set(this.#dirtyKeys)
    for (const [owner, frontend] of this.#frontends.takeChanged())
      for (const key of this.#flush(owner, frontend?.servicePort)) changed.add(key)
    this.#dirtyKeys.clear()
    return Array.from(changed, (key) => ({ key, port: this.#get(key) }))
  }

  #get(key: RelayKey): RelayedPort | undefined {
    const wanted = this.#ports.get(key)
    return wanted !== undefined && this.#checkCounts.has(wanted.port) ? undefined : wanted
  }

  #ownerOf({ servicePort: { family, protocol, name, nodePort } }: Frontend): Owner | undefined {
    if (nodePort === 0 || protocol !== 'tcp' || !this.#families.includes(family)) return undefined
    return `${family} ${name} ${nodePort}`
  }

  /** The API server allots health check ports and node ports from one range, manifests may repeat a number. */
  #setCheckPort(key: FrontendKey, port: number): void {
    const before = this.#checkPorts.get(key) ?? 0
    if (before === port) return
    if (before !== 0) this.#countCheckPort(before, -1)
    if (port === 0) this.#checkPorts.delete(key)
    else {
      this.#checkPorts.set(key, port)
      this.#countCheckPort(port, 1)
    }
  }

  #countCheckPort(port: number, change: 1 | -1): void {
    const before = this.#checkCounts.get(port) ?? 0
    const count = before + change
    if (count === 0) this.#checkCounts.delete(port)
    else this.#checkCounts.set(port, count)
    if (before > 0 && count > 0) return
    for (const family of IP_FAMILIES) if (this.#ports.get(keyOf(family, port))) this.#dirtyKeys.add(keyOf(family, port))
  }

  /** Updates the claim of one owner and returns the keys whose port has changed. */
  #flush(owner: Owner, servicePort: ServicePort | undefined): readonly RelayKey[] {
    const before = this.#claimed.get(owner)
    if (servicePort === undefined) {
      this.#claimed.delete(owner)
      return before !== undefined && this.#ports.withdraw(before, owner) ? [before] : []
    }
    const key = keyOf(servicePort.family, servicePort.nodePort)
    this.#claimed.set(owner, key)
    const since = servicePort.service.createdAtMs
    return this.#ports.claim(key, { owner, rank: 0, since, value: relayedPortOf(servicePort) }) ? [key] : []
  }
}

function keyOf(family: IpFamily, port: number): RelayKey {
  return `${family} ${port}`
}

/**
 * As kube-proxy's relay (KEP-6032): under external policy Local the endpoints on this node, and no
 * others when there are none, unlike node ports elsewhere in ipvs mode. Source ranges belong to
 * load-balancer addresses.
 */
function relayedPortOf(servicePort: ServicePort): RelayedPort {
  const { family, nodePort: port, service, cluster, local, external } = servicePort
  const { namespace, name, affinityTimeoutSeconds } = service
  const selection = external.policy === 'Local' ? local : cluster
  return {
    family,
    port,
    namespace,
    name,
    endpoints: selection?.endpoints ?? [],
    weights: selection && weightsOf(servicePort, selection),
    affinityMs: affinityTimeoutSeconds * 1000,
  }
}

/** Family and port are equal for one key. */
function sameRelayedPort(a: RelayedPort, b: RelayedPort): boolean {
  return (
    a.namespace === b.namespace &&
    a.name === b.name &&
    a.affinityMs === b.affinityMs &&
    sameList(a.weights ?? NO_WEIGHTS, b.weights ?? NO_WEIGHTS) &&
    sameEndpoints(a.endpoints, b.endpoints)
  )
}
