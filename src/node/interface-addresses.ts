/**
 * The addresses of the host's interfaces, kept up to date by the kernel's announcements.
 * What could break: an address that goes is believed only after 10 s, because a DHCP renewal or a keepalived flap takes
 * one away for a moment, and node-port connections must survive that. A new one counts at once.
 */
import type { InterfaceAddress as ListedAddress } from '../netlink/address-codec.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { InterfaceAddress } from '../service/node-addresses.ts'
import type { Clock } from '../values/clock.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'

export interface InterfaceAddressesOptions {
  readonly rtnetlink: RtnetlinkConnection
  readonly now: Clock
  /** Hears of the whole list whenever it changed. */
  readonly onChange: (addresses: readonly InterfaceAddress[]) => void
  readonly onError: (error: unknown) => void
  readonly signal: AbortSignal
  /** How long an address that went is still taken as there, default 10,000. */
  readonly removalDelayMs?: number
  /** Least time between two reads, default 1,000: reading costs as much as there are addresses. */
  readonly minPeriodMs?: number
}

export class InterfaceAddresses {
  readonly #options: InterfaceAddressesOptions
  /** Every address that counts, and since when it is gone; undefined while it is there. */
  readonly #known = new Map<string, { readonly address: InterfaceAddress; goneSinceMs: number | undefined }>()
  #timer: NodeJS.Timeout | undefined
  #lastReadMs = Number.NEGATIVE_INFINITY
  #reading = false
  #changedMeanwhile = false

  constructor(options: InterfaceAddressesOptions) {
    this.#options = options
  }

  /** The addresses that count now. */
  get current(): readonly InterfaceAddress[] {
    return Array.from(this.#known.values(), ({ address }) => address)
  }

  /** Reads the addresses now. Rejects when the kernel cannot be read. */
  async read(): Promise<void> {
    const { rtnetlink, signal, now, onChange } = this.#options
    const [links, addresses] = await Promise.all([rtnetlink.listLinks({ signal }), rtnetlink.listAddresses({ signal })])
    const names = new Map(links.map((link) => [link.index, link.name]))
    this.#lastReadMs = now()
    if (this.#take(addresses, names, this.#lastReadMs)) onChange(this.current)
  }

  /** An address or link changed: read again soon. Many calls make one read. */
  changed(): void {
    const { now, minPeriodMs = 1000 } = this.#options
    this.#wake(Math.max(0, this.#lastReadMs + minPeriodMs - now()))
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #wake(delayMs: number): void {
    if (this.#reading) {
      this.#changedMeanwhile = true
      return
    }
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#readAgain(), delayMs)
  }

  async #readAgain(): Promise<void> {
    this.#reading = true
    try {
      await this.read()
    } catch (error) {
      if (this.#options.signal.aborted) return
      this.#options.onError(error)
    } finally {
      this.#reading = false
    }
    if (this.#changedMeanwhile) {
      this.#changedMeanwhile = false
      this.changed()
      return
    }
    const goneSince = Array.from(this.#known.values(), (known) => known.goneSinceMs).filter((at) => at !== undefined)
    const { now, removalDelayMs = 10_000, minPeriodMs = 1000 } = this.#options
    if (goneSince.length > 0) this.#wake(Math.max(minPeriodMs, Math.min(...goneSince) + removalDelayMs - now()))
  }

  /** Takes a list in; whether what counts is different now. */
  #take(addresses: readonly ListedAddress[], names: ReadonlyMap<number, string>, nowMs: number): boolean {
    const { removalDelayMs = 10_000 } = this.#options
    const present = new Set<string>()
    let changed = false
    for (const { address, interfaceIndex } of addresses) {
      const interfaceName = names.get(interfaceIndex)
      // The services' own addresses are many and never count here.
      if (interfaceName === undefined || interfaceName === SERVICE_DEVICE) continue
      const key = `${interfaceName} ${address}`
      present.add(key)
      const known = this.#known.get(key)
      if (known === undefined) changed = true
      this.#known.set(key, { address: known?.address ?? { interfaceName, address }, goneSinceMs: undefined })
    }
    for (const [key, known] of this.#known) {
      if (present.has(key)) continue
      known.goneSinceMs ??= nowMs
      if (nowMs - known.goneSinceMs < removalDelayMs) continue
      this.#known.delete(key)
      changed = true
    }
    return changed
  }
}
