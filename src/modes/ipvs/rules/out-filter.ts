/**
 * VIPs of load balancers that the node itself must not reach: their source ranges leave out the node's own address.
 * Traffic from the node to such a VIP has the VIP as its source and would pass the firewall (kubernetes issue 119656).
 * What could break: a frontend that changes or goes must be told, or its rule stays.
 */
import type { AddressFrontend, FrontendKey } from '../../../service/frontends.ts'
import type { IpFamily, Protocol } from '../../../values/protocol.ts'

/** One address, port and protocol that the node must not reach. */
export interface OutFilterVip {
  readonly address: string
  readonly port: number
  readonly protocol: Protocol
}

/** The frontends whose firewall keeps the node out. */
export class OutFilterVips {
  readonly #closed = new Map<FrontendKey, AddressFrontend>()

  /** Takes a frontend in or out; true when the answer of `of` is another one now. */
  set(key: FrontendKey, frontend: AddressFrontend | undefined): boolean {
    if (frontend?.firewall?.allowsNode !== false) return this.#closed.delete(key)
    const isNew = !this.#closed.has(key)
    this.#closed.set(key, frontend)
    return isNew
  }

  of(family: IpFamily): readonly OutFilterVip[] {
    return Array.from(this.#closed.values()).flatMap(({ address, port, servicePort }) =>
      servicePort.family === family ? { address, port, protocol: servicePort.protocol } : [],
    )
  }
}
