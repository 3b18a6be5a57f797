/**
 * The chains and jumps of one family as a kernel table. Keys: `nat KUBE-SERVICES` for a chain with all its rules,
 * `nat OUTPUT KUBE-SERVICES` for a jump. A reading is one iptables-save and a change one iptables-restore; starting a process
 * costs more than everything else here, so callers read and write all keys at once.
 * @impure
 */
import type { KernelTable } from '../sync/table.ts'
import { asError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { diffIptables, directionOf, formatIptablesOperation, sameItem, stepIptables } from './diff.ts'
import type { ChainLayout } from './layout.ts'
import type { NftPlace } from './nft-rules.ts'
import { placeKey, readRules, type UnprintableTable } from './read-rules.ts'
import { RestoreRun } from './restore-run.ts'
import { targetOf } from './rule-text.ts'
import { foreignReferences, itemsOf } from './save-text.ts'
import type { IptablesItem, IptablesOperation, IptablesPrograms, NftAccess, TableId } from './types.ts'

export interface IptablesTableOptions {
  /** Of the program's name in printed commands, `-legacy`. */
  readonly suffix?: string
  /** Absent: the back end is legacy. */
  readonly nft?: NftAccess | undefined
  /** Called after each reading, with the tables that the program cannot print. */
  readonly onRead?: (family: IpFamily, unprintable: readonly UnprintableTable[]) => void
}

export class IptablesTable implements KernelTable<IptablesItem, IptablesOperation> {
  readonly name: 'chains-IPv4' | 'chains-IPv6'
  readonly family: IpFamily
  readonly #programs: IptablesPrograms
  readonly #layout: ChainLayout
  readonly #suffix: string
  readonly #nft: NftAccess | undefined
  readonly #onRead: NonNullable<IptablesTableOptions['onRead']>
  #keepsOthers = false
  /** Rules in the chains of the last restore, by table. */
  #lastWritten: ReadonlyMap<TableId, number> = new Map()
  /** Rules of other programs that jumped to our chains at the last reading, by the key of our chain. */
  #inUse: ReadonlyMap<string, string> = new Map()
  /** Where rules are that iptables cannot delete by their text, by `placeKey`. */
  #places: ReadonlyMap<string, readonly NftPlace[]> = new Map()

  /** @param layout what is read, and in which order it is written */
  constructor(
    family: IpFamily,
    programs: IptablesPrograms,
    layout: ChainLayout,
    { suffix = '', nft, onRead = () => undefined }: IptablesTableOptions = {},
  ) {
    this.family = family
    this.#layout = layout
    this.#suffix = suffix
    this.#nft = nft
    this.#onRead = onRead
    this.name = `chains-${family}`
    this.#programs = programs
  }

  readonly diff = (_key: string, desired: IptablesItem | undefined, live: IptablesItem | undefined) =>
    diffIptables(this.#withOthers(desired, live), live)
  readonly equal = sameItem
  readonly step = (_live: IptablesItem | undefined, op: IptablesOperation) => stepIptables(op)
  readonly direction = directionOf
  readonly format = (op: IptablesOperation) => formatIptablesOperation(op, this.family, this.#suffix)

  /**
   * From now on rules that lead to chains of other modes stay, in front of ours, so that those chains get the traffic until
   * `replaceOthers`.
   */
  keepOthers(): void {
    this.#keepsOthers = true
  }

  replaceOthers(): void {
    this.#keepsOthers = false
  }

  #withOthers(desired: IptablesItem | undefined, live: IptablesItem | undefined): IptablesItem | undefined {
    if (!this.#keepsOthers || desired?.kind !== 'chain' || live?.kind !== 'chain') return desired
    const kept = live.rules.filter((rule) => this.#layout.isOfOthers(desired.table, targetOf(rule) ?? ''))
    return kept.length === 0 ? desired : { ...desired, rules: [...kept, ...desired.rules] }
  }

  /** `read` finds only the named chains and the jumps of exactly our text. */
  isOurs(): boolean {
    return true
  }

  async read(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, IptablesItem>> {
    const items = await this.#readItems(signal)
    if (keys === 'all') return items
    const found = new Map<string, IptablesItem>()
    for (const key of keys) {
      const item = items.get(key)
      if (item !== undefined) found.set(key, item)
    }
    return found
  }

  async #readItems(signal: AbortSignal): Promise<Map<string, IptablesItem>> {
    const source = { family: this.family, programs: this.#programs, nft: this.#nft }
    const { saved, unprintable, places } = await readRules(source, this.#layout, signal)
    this.#inUse = foreignReferences(saved, this.#layout)
    this.#places = places
    this.#onRead(this.family, unprintable)
    return itemsOf(saved, this.#layout)
  }

  get lastWritten(): ReadonlyMap<TableId, number> {
    return this.#lastWritten
  }

  async apply(ops: readonly IptablesOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    this.#lastWritten = rulesOf(ops)
    const outcomes: (Error | undefined)[] = ops.map(() => undefined)
    const restored: number[] = []
    // Their chains cannot be deleted before them.
    for (const [index, op] of ops.entries()) {
      const places = this.#placesOf(op)
      if (places.length === 0) restored.push(index)
      else outcomes[index] = await this.#delete(places, signal)
    }
    const { family } = this
    const programs = {
      present: async (stop: AbortSignal) => new Set((await this.#readItems(stop)).keys()),
      restore: (input: string, stop: AbortSignal) => this.#programs.restore(family, input, stop),
    }
    const rest = restored.flatMap((index) => ops[index] ?? [])
    const results = await RestoreRun.run(rest, programs, this.#layout, this.#inUse, signal)
    for (const [at, index] of restored.entries()) outcomes[index] = results[at]
    return outcomes
  }

  #placesOf(op: IptablesOperation): readonly NftPlace[] {
    if (op.kind !== 'delete-jump') return []
    return this.#places.get(placeKey(op.table, op.chain, op.rule)) ?? []
  }

  async #delete(places: readonly NftPlace[], signal: AbortSignal): Promise<Error | undefined> {
    try {
      await this.#nft?.deleteRules(this.family, places, signal)
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      return asError(error)
    }
  }
}

function rulesOf(ops: readonly IptablesOperation[]): ReadonlyMap<TableId, number> {
  const counts = new Map<TableId, number>()
  for (const op of ops)
    if (op.kind === 'write-chain') counts.set(op.table, (counts.get(op.table) ?? 0) + op.rules.length)
  return counts
}
