/**
 * Which endpoint a new connection of a relayed port gets. All clients of the port are this node, so
 * affinity is one pin. Chance and time come from the caller.
 */
import type { Endpoint } from '../service/endpoints.ts'
import type { Clock } from '../values/clock.ts'
import type { RelayedPort } from './wanted-relays.ts'

export class EndpointChoice {
  readonly #random: () => number
  readonly #now: Clock
  #pin: { readonly endpoint: Endpoint; readonly usedMs: number } | undefined

  /** @param random returns a number from 0 to 1, 1 excluded */
  constructor(random: () => number, now: Clock) {
    this.#random = random
    this.#now = now
  }

  /**
   * An endpoint for a connection that could not reach those in `tried`; undefined when there is no
   * other one. With affinity it is that of the connection before, if that one is still there.
   */
  next(port: RelayedPort, tried: readonly Endpoint[]): Endpoint | undefined {
    const isLeft = (endpoint: Endpoint): boolean => !tried.some((other) => isSame(endpoint, other))
    if (port.affinityMs === 0) return this.#draw(port, tried.length === 0 ? undefined : isLeft)
    const endpoint = this.#pinned(port, isLeft) ?? this.#draw(port, isLeft)
    if (endpoint !== undefined) this.#pin = { endpoint, usedMs: this.#now() }
    return endpoint
  }

  #pinned({ affinityMs, endpoints }: RelayedPort, isLeft: (endpoint: Endpoint) => boolean): Endpoint | undefined {
    const pin = this.#pin
    if (pin === undefined || this.#now() - pin.usedMs > affinityMs || !isLeft(pin.endpoint)) return undefined
    return endpoints.find((endpoint) => isSame(endpoint, pin.endpoint))
  }

  /** By weight, among all endpoints or those that are left. */
  #draw({ endpoints, weights }: RelayedPort, isLeft?: (endpoint: Endpoint) => boolean): Endpoint | undefined {
    if (weights === undefined && isLeft === undefined) return endpoints[Math.floor(this.#random() * endpoints.length)]
    const weightAt = (endpoint: Endpoint, index: number): number =>
      isLeft?.(endpoint) === false ? 0 : (weights?.[index] ?? 1)
    let total = 0
    for (const [index, endpoint] of endpoints.entries()) total += weightAt(endpoint, index)
    let at = this.#random() * total
    let last: Endpoint | undefined
    for (const [index, endpoint] of endpoints.entries()) {
      const weight = weightAt(endpoint, index)
      if (weight === 0) continue
      last = endpoint
      at -= weight
      if (at < 0) break
    }
    return last
  }
}

function isSame(one: Endpoint, other: Endpoint): boolean {
  return one.address === other.address && one.port === other.port
}
