/**
 * The chains and jumps of one family as a kernel table. Keys: `nat KUBE-SERVICES` for a chain with all its rules,
 * `nat OUTPUT KUBE-SERVICES` for a jump. A reading is one iptables-save and a change one iptables-restore; starting a process
 * costs more than everything else here, so callers read and write all keys at once.
 * @impure
 */
import type { KernelTable } from '../sync/table.ts'
import type { IpFamily } from '../values/protocol.ts'
import { diffIptables, directionOf, formatIptablesOperation, sameItem, stepIptables } from './diff.ts'
import type { ChainLayout } from './layout.ts'
import { RestoreRun } from './restore-run.ts'
import { targetOf } from './rule-text.ts'
import { foreignReferences, itemsOf, parseSave } from './save-text.ts'
import type { IptablesItem, IptablesOperation, IptablesPrograms, TableId } from './types.ts'

export class IptablesTable implements KernelTable<IptablesItem, IptablesOperation> {
  readonly name: 'chains-IPv4' | 'chains-IPv6'
  readonly family: IpFamily
  readonly #programs: IptablesPrograms
  readonly #layout: ChainLayout
  readonly #suffix: string
  #keepsOthers = false
  /** Rules in the chains of the last restore, by table. */
  #lastWritten: ReadonlyMap<TableId, number> = new Map()
  /** Rules of other programs that jumped to our chains at the last reading, by the key of our chain. */
  #inUse: ReadonlyMap<string, string> = new Map()

  /**
   * @param layout what is read, and in which order it is written
   * @param suffix of the program's name in printed commands, `-legacy`
   */
  constructor(family: IpFamily, programs: IptablesPrograms, layout: ChainLayout, suffix = '') {
    this.family = family
    this.#layout = layout
    this.#suffix = suffix
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
    const saved = parseSave(await this.#programs.save(this.family, signal))
    this.#inUse = foreignReferences(saved, this.#layout)
    const items = itemsOf(saved, this.#layout)
    if (keys === 'all') return items
    const found = new Map<string, IptablesItem>()
    for (const key of keys) {
      const item = items.get(key)
      if (item !== undefined) found.set(key, item)
    }
    return found
  }

  get lastWritten(): ReadonlyMap<TableId, number> {
    return this.#lastWritten
  }

  async apply(ops: readonly IptablesOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    this.#lastWritten = rulesOf(ops)
    const { family } = this
    const programs = {
      save: (stop: AbortSignal) => this.#programs.save(family, stop),
      restore: (input: string, stop: AbortSignal) => this.#programs.restore(family, input, stop),
    }
    return RestoreRun.run(ops, programs, this.#layout, this.#inUse, signal)
  }
}

function rulesOf(ops: readonly IptablesOperation[]): ReadonlyMap<TableId, number> {
  const counts = new Map<TableId, number>()
  for (const op of ops)
    if (op.kind === 'write-chain') counts.set(op.table, (counts.get(op.table) ?? 0) + op.rules.length)
  return counts
}
