/**
 * The addresses on kube-ipvs0 behind the contract of every kernel table. Key: the address.
 * What could break: IPv6 link-local and loopback addresses on the device are nobody's business, unless a Service of this
 * process wanted one.
 */
import { encodeAddAddress, encodeDeleteAddress } from '../netlink/address-codec.ts'
import { BatchPace } from '../netlink/batch-pace.ts'
import { MessageBatch } from '../netlink/batch.ts'
import type { Outcome } from '../netlink/connection.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { runInBatches } from '../netlink/run-batches.ts'
import type { KernelTable } from '../sync/table.ts'
import { CodedError } from '../values/errors.ts'
import {
  type AddressOperation,
  type BoundAddress,
  diffAddress,
  formatAddressOperation,
  isNeverOurs,
  SERVICE_DEVICE,
  stepAddress,
} from './address-diff.ts'

export class AddressTable implements KernelTable<BoundAddress, AddressOperation> {
  readonly name = 'addresses'
  readonly #rtnetlink: RtnetlinkConnection
  readonly #batch = new MessageBatch(16 << 10)
  readonly #pace = new BatchPace()
  /** Loopback and link-local addresses that this process has bound for a Service. */
  readonly #unusual = new Set<string>()
  #deviceIndex: number | undefined
  /** Hears which addresses have just gone. */
  onUnbound: (addresses: readonly string[]) => void = () => undefined

  constructor(rtnetlink: RtnetlinkConnection) {
    this.#rtnetlink = rtnetlink
  }

  readonly diff = (_key: string, desired: BoundAddress | undefined, live: BoundAddress | undefined) =>
    diffAddress(desired, live)
  readonly equal = (a: BoundAddress, b: BoundAddress) => a.prefixLength === b.prefixLength
  readonly step = (_live: BoundAddress | undefined, op: AddressOperation) => stepAddress(op)
  readonly direction = (op: AddressOperation) => (op.kind === 'bind' ? 'add' : 'remove')
  readonly format = formatAddressOperation

  isOurs(address: string): boolean {
    return !isNeverOurs(address) || this.#unusual.has(address)
  }

  async read(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, BoundAddress>> {
    const index = await this.#lookUpDevice(signal)
    if (index === undefined) return new Map()
    const listed = await this.#rtnetlink.listAddresses({ interfaceIndex: index, signal })
    const wanted = keys === 'all' ? undefined : new Set(keys)
    const found = new Map<string, BoundAddress>()
    for (const { address, prefixLength } of listed)
      if (wanted?.has(address) ?? true) found.set(address, { address, prefixLength })
    return found
  }

  async apply(ops: readonly AddressOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const index = await this.#device(signal)
    if (index instanceof Error) return ops.map(() => index)
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
    const results = await runInBatches(ops, sink, this.#pace, signal)
    const gone = ops.filter((op, index) => op.kind === 'unbind' && results[index] === undefined)
    if (gone.length > 0) this.onUnbound(gone.map(({ address }) => address))
    return results
  }

  /** Index of the device when it was last looked up; undefined when there was none. */
  get deviceIndex(): number | undefined {
    return this.#deviceIndex
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
      return error instanceof Error ? error : new Error(String(error))
    }
  }

  #encode(op: AddressOperation, interfaceIndex: number): void {
    const { address, prefixLength } = op
    switch (op.kind) {
      case 'bind':
        if (isNeverOurs(address)) this.#unusual.add(address)
        return encodeAddAddress(this.#batch, { address, prefixLength, interfaceIndex })
      case 'unbind':
        return encodeDeleteAddress(this.#batch, { address, prefixLength, interfaceIndex })
    }
  }
}
