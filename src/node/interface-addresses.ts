/**
 * The addresses of the host's interfaces, updated by the kernel's announcements. A removed address
 * still counts for 10 s, because a DHCP renewal or a keepalived failover removes one for a moment,
 * and node-port connections must survive that. A new address counts at once.
 * @impure
 */
import type { InterfaceAddress as ListedAddress } from '../netlink/address-codec.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { InterfaceAddress } from '../service/node-addresses.ts'
import type { Clock } from '../values/clock.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'

export interface InterfaceAddressesOptions {
  readonly rtnetlink: Pick<RtnetlinkConnection, 'listAddresses' | 'listLinks'>
  readonly now: Clock
  /** Called with the whole list after each change. */
  readonly onChange: (addresses: readonly InterfaceAddress[]) => void
  readonly onError: (error: unknown) => void
  readonly signal: AbortSignal
  /** How long a removed address still counts; default 10,000. */
  readonly removalDelayMs?: number
  /** Shortest time between two reads, default 1,000: the cost of a read grows with the number of addresses. */
  readonly minPeriodMs?: number
}

/** From a failed read to the next one, unless an announcement comes first. */
const RETRY_MS = 5000

export class InterfaceAddresses {
  readonly #options: InterfaceAddressesOptions
  /** Every address that counts; `goneSinceMs` is undefined while the kernel has the address. */
  readonly #known = new Map<string, { readonly address: InterfaceAddress; goneSinceMs: number | undefined }>()
  #timer: NodeJS.Timeout | undefined
  #lastReadMs = Number.NEGATIVE_INFINITY
  #reading = false
  #changedMeanwhile = false
  #isKnown = false

  constructor(options: InterfaceAddressesOptions) {
    this.#options = options
  }

  /** Whether they could be read at least once. */
  get isKnown(): boolean {
    return this.#isKnown
  }

  /** The addresses that count at the moment. */
  get current(): readonly InterfaceAddress[] {
    return Array.from(this.#known.values(), ({ address }) => address)
  }

  /** Reads the addresses. Rejects if the kernel cannot be read. */
  async read(): Promise<void> {
    const { rtnetlink, signal, now, onChange } = this.#options
    const [links, addresses] = await Promise.all([rtnetlink.listLinks({ signal }), rtnetlink.listAddresses({ signal })])
    if (signal.aborted) return
    const names = new Map(links.map((link) => [link.index, link.name]))
    this.#lastReadMs = now()
    const isFirst = !this.#isKnown
    this.#isKnown = true
    if (this.#take(addresses, names, this.#lastReadMs) || isFirst) onChange(this.current)
  }

  /** Schedules a read after an address or link changed. Many calls cause one read. */
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
      this.#reading = false
      if (!this.#changedMeanwhile) {
        // No announcement may follow.
        this.#wake(RETRY_MS)
        return
      }
    } finally {
      this.#reading = false
    }
    if (this.#options.signal.aborted) return
    if (this.#changedMeanwhile) {
      this.#changedMeanwhile = false
      this.changed()
      return
    }
    const goneSince = Array.from(this.#known.values(), (known) => known.goneSinceMs).filter((at) => at !== undefined)
    const { now, removalDelayMs = 10_000, minPeriodMs = 1000 } = this.#options
    if (goneSince.length > 0) this.#wake(Math.max(minPeriodMs, Math.min(...goneSince) + removalDelayMs - now()))
  }

  /** Applies a list of the kernel; returns whether the addresses that count have changed. */
  #take(addresses: readonly ListedAddress[], names: ReadonlyMap<number, string>, nowMs: number): boolean {
    const { removalDelayMs = 10_000 } = this.#options
    const present = new Set<string>()
    let changed = false
    for (const { address, interfaceIndex } of addresses) {
      const interfaceName = names.get(interfaceIndex)
      // The device with the addresses of Services never counts, and its addresses may be thousands.
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
