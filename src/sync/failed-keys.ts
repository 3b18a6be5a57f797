/**
 * Keys of a table whose last operations failed. What a look at all of them would find is counted as they come and are removed,
 * because a tenant can make ten thousand keys fail and health is asked after every pass.
 */
import { CodedError } from '../values/errors.ts'

export interface FailedKey {
  /** How many times in a row, from 1. */
  readonly attempts: number
  readonly error: Error
  /** False for a key that is to be removed. */
  readonly isWanted: boolean
}

/**
 * What goes wrong with a table, whichever key it shows at: rights, memory, a module or device that is gone, answers of the
 * kernel that are lost or make no sense. A Service cannot bring these about, as it can EINVAL (an address that the kernel
 * refuses) or EPROTONOSUPPORT (SCTP where IPVS was built without).
 */
const FAULTS_OF_TABLES: ReadonlySet<string> = new Set([
  'EPERM',
  'ENODEV',
  'ENOMEM',
  'ENOBUFS',
  'netlink-timeout',
  'netlink-overrun',
  'netlink-truncated',
  'netlink-malformed',
  'netlink-closed',
  'genl-family-missing',
  'device-missing',
])

const isFaultOfTable = (error: Error): boolean => error instanceof CodedError && FAULTS_OF_TABLES.has(error.code)

export class FailedKeys {
  readonly #keys = new Map<string, FailedKey>()
  /** Of them, how many are wanted. */
  wanted = 0
  /** Of them, how many failed for a reason that no item has. */
  faultsOfTable = 0

  get(key: string): FailedKey | undefined {
    return this.#keys.get(key)
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }

  set(key: string, failed: FailedKey): void {
    this.delete(key)
    this.#keys.set(key, failed)
    if (failed.isWanted) this.wanted++
    if (isFaultOfTable(failed.error)) this.faultsOfTable++
  }

  delete(key: string): void {
    const failed = this.#keys.get(key)
    if (failed === undefined) return
    this.#keys.delete(key)
    if (failed.isWanted) this.wanted--
    if (isFaultOfTable(failed.error)) this.faultsOfTable--
  }

  entries(): IterableIterator<[key: string, failed: FailedKey]> {
    return this.#keys.entries()
  }
}
