/**
 * The addresses on kube-ipvs0 in the kernel, the io of ADDRESSES, and which of them are wanted.
 * IPv6 link-local and loopback addresses on the device stay, unless a Service of this process
 * wanted one.
 * @impure
 */
import { encodeAddAddress, encodeDeleteAddress } from '../netlink/address-codec.ts'
import { MessageBatch } from '../netlink/batch.ts'
import type { Outcome } from '../netlink/connection.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { runInBatches } from '../netlink/run-batches.ts'
import type { FrontendKey } from '../service/frontends.ts'
import type { Outcomes, TableIo } from '../sync/table.ts'
import { familyOf } from '../values/address.ts'
import { asError, CodedError } from '../values/errors.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'
import {
  ADDRESSES,
  type AddressOperation,
  type Binding,
  type BoundAddress,
  isNeverOurs,
  isSameBinding,
  liveAddresses,
} from './address-diff.ts'
import { addressOfKey } from './types.ts'

/** The requests that the table makes. */
type AddressRequests = Pick<RtnetlinkConnection, 'getLink' | 'listAddresses' | 'transact'>

/** What the table needs beside its requests. */
export interface AddressTableOptions {
  /**
   * The kernel refuses IPv6 addresses on a device where IPv6 is switched off: switches it on.
   * Returns an error that says what keeps it off, and `unchanged` when it is not off. Default:
   * nothing is switched on.
   */
  readonly switchOnIpv6?: () => 'changed' | 'unchanged' | CodedError
  /** Called with the addresses that were just removed. */
  readonly onUnbound?: (addresses: readonly string[]) => void
}

export class AddressTable implements TableIo<BoundAddress, AddressOperation> {
  readonly kind = ADDRESSES
  readonly #rtnetlink: AddressRequests
  readonly #batch = new MessageBatch(16 << 10)
  /** Loopback and link-local addresses that this process has bound for a Service. */
  readonly #unusual = new Set<string>()
  readonly #options: AddressTableOptions
  #deviceIndex: number | undefined
  /** The operations of the current `apply`, and how many of them have been sent. */
  #running: readonly AddressOperation[] = []
  #sent = 0
  /** Called when an operation found no device. */
  onDeviceMissing: () => void = () => undefined

  constructor(rtnetlink: AddressRequests, options: AddressTableOptions = {}) {
    this.#rtnetlink = rtnetlink
    this.#options = options
  }

  isOurs(address: string): boolean {
    return !isNeverOurs(address) || this.#unusual.has(address)
  }

  async list(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, BoundAddress>> {
    const index = await this.#lookUpDevice(signal)
    if (index === undefined) return new Map()
    const listed = await this.#rtnetlink.listAddresses({ interfaceIndex: index, signal })
    if (keys === 'all') return liveAddresses(listed)
    const wanted = new Set(keys)
    return liveAddresses(listed.filter(({ address }) => wanted.has(address)))
  }

  async apply(ops: readonly AddressOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const index = await this.#device(signal)
    if (index instanceof Error) {
      if (isDeviceMissing(index)) this.onDeviceMissing()
      return ops.map(() => index)
    }
    const sink = {
      encode: (op: AddressOperation): void => this.#encode(op, index),
      commit: async (): Promise<readonly Outcome[]> => {
        try {
          return await this.#rtnetlink.transact(this.#batch)
        } finally {
          this.#batch.reset()
        }
      },
    }
    const run = (some: readonly AddressOperation[]) => runInBatches(some, sink, signal)
    this.#running = ops
    this.#sent = 0
    const results = await run(ops)
      .then((first) => this.#retryRefused(ops, first, run))
      .finally(() => {
        this.#running = []
      })
    const outcomes = results.map((outcome, index) =>
      ops[index]?.kind === 'unbind' && isGone(outcome) ? undefined : outcome,
    )
    const removed = ops.filter(
      (op, index) => op.kind === 'unbind' && op.replaced !== true && outcomes[index] === undefined,
    )
    if (removed.length > 0) this.#options.onUnbound?.(removed.map(({ address }) => address))
    return outcomes
  }

  /** Index of the device at the last lookup; undefined when there was none. */
  get deviceIndex(): number | undefined {
    return this.#deviceIndex
  }

  /**
   * Whether an address will have exactly this binding after the operations that were sent and are
   * not in the mirror yet; undefined when none of them concerns it.
   */
  isBoundSoon(binding: Binding & { readonly address: string }): boolean | undefined {
    for (let index = Math.min(this.#sent, this.#running.length) - 1; index >= 0; index--) {
      const op = this.#running[index]
      if (op?.address === binding.address && isSameBinding(op, binding)) return op.kind === 'bind'
    }
    return undefined
  }

  /** Tries those again that the kernel refused because IPv6 is switched off on the device. */
  async #retryRefused(
    ops: readonly AddressOperation[],
    outcomes: Outcomes,
    run: (ops: readonly AddressOperation[]) => Promise<Outcomes>,
  ): Promise<Outcomes> {
    const refused = ops.filter((op, index) => isRefusal(op, outcomes[index]))
    const answer = refused.length === 0 ? 'unchanged' : (this.#options.switchOnIpv6?.() ?? 'unchanged')
    if (answer === 'unchanged') return outcomes
    const again = answer === 'changed' ? await run(refused) : refused.map(() => answer)
    const results = again.values()
    return ops.map((op, index) => (isRefusal(op, outcomes[index]) ? results.next().value : outcomes[index]))
  }

  async #lookUpDevice(signal: AbortSignal): Promise<number | undefined> {
    this.#deviceIndex = (await this.#rtnetlink.getLink(SERVICE_DEVICE, { signal }))?.index
    return this.#deviceIndex
  }

  async #device(signal: AbortSignal): Promise<number | Error> {
    try {
      return (
        (await this.#lookUpDevice(signal)) ??
        new CodedError('device-missing', `the link ${SERVICE_DEVICE} does not exist`)
      )
    } catch (error) {
      signal.throwIfAborted()
      return asError(error)
    }
  }

  #encode(op: AddressOperation, interfaceIndex: number): void {
    const { address, prefixLength, peer } = op
    this.#sent++
    switch (op.kind) {
      case 'bind':
        if (isNeverOurs(address)) this.#unusual.add(address)
        return encodeAddAddress(this.#batch, { address, prefixLength, interfaceIndex, peer })
      case 'unbind':
        return encodeDeleteAddress(this.#batch, { address, prefixLength, interfaceIndex, peer })
    }
  }
}

function isDeviceMissing(error: Error): boolean {
  return error instanceof CodedError && error.code === 'device-missing'
}

/** The kernel's answer where IPv6 is switched off on the device. */
function isRefusal(op: AddressOperation, outcome: Error | undefined): boolean {
  const isForbidden = outcome instanceof CodedError && outcome.code === 'EACCES'
  return isForbidden && op.kind === 'bind' && familyOf(op.address) === 'IPv6'
}

/**
 * With a primary IPv4 address the kernel also deletes the secondary ones of its subnet, unless
 * promote_secondaries is set.
 */
function isGone(outcome: Error | undefined): boolean {
  return outcome instanceof CodedError && outcome.code === 'EADDRNOTAVAIL'
}

/**
 * Which addresses the node answers for: those of the frontends that are bound, each once, until its
 * last frontend is removed.
 */
export class WantedAddresses {
  readonly #bound = new Set<FrontendKey>()
  readonly #counts = new Map<string, number>()

  /** Every wanted address, once. */
  addresses(): IterableIterator<string> {
    return this.#counts.keys()
  }

  /** Whether any frontend wants it. */
  has(address: string): boolean {
    return this.#counts.has(address)
  }

  /**
   * Sets whether this frontend wants its address bound. Returns the address when it becomes wanted,
   * or is wanted by no frontend any more.
   */
  set(key: FrontendKey, bind: boolean): { readonly address: string; readonly wanted: boolean } | undefined {
    if (bind === this.#bound.has(key)) return undefined
    const address = addressOfKey(key)
    const before = this.#counts.get(address) ?? 0
    if (bind) {
      this.#bound.add(key)
      this.#counts.set(address, before + 1)
      return before === 0 ? { address, wanted: true } : undefined
    }
    this.#bound.delete(key)
    if (before > 1) this.#counts.set(address, before - 1)
    else this.#counts.delete(address)
    return before === 1 ? { address, wanted: false } : undefined
  }
}
