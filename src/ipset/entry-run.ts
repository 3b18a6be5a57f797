/**
 * Runs operations on entries as messages of up to 500 entries each. When the kernel refuses one
 * entry, the message is applied in part. It is then sent again entry by entry, to find the refused
 * one; repeated additions and deletions are harmless.
 * @impure
 */
import { MAX_BATCH_MESSAGES, type MessageBatch } from '../netlink/batch.ts'
import { asError } from '../values/errors.ts'
import { newBudget } from '../values/event-loop.ts'
import { definitionOf, MAX_ELEMENTS, type SetDefinition, type SetName } from './catalogue.ts'
import { encodeEntries, MAX_ENTRIES } from './codec-entry.ts'
import type { SetRequests } from './connection.ts'
import { type EntryGroup, formatEntryOperation, groupsOf, parametersOf, sameKind } from './diff.ts'
import { codeOf, ipsetError, named } from './errors.ts'
import { recreate } from './recreate.ts'
import type { SetEntryOperation } from './types.ts'

export interface EntryRunOptions {
  /** A set is missing or has another type: the caller should read the sets again. */
  readonly onSetLost: (name: SetName) => void
  /** A full set was enlarged. */
  readonly onGrown: (name: SetName, maxElements: number) => void
}

/** One call of `apply`: one outcome for each operation, in the same order. */
export class EntryRun {
  readonly #ops: readonly SetEntryOperation[]
  readonly #ipset: SetRequests
  readonly #batch: MessageBatch
  readonly #options: EntryRunOptions
  readonly #signal: AbortSignal
  readonly #outcomes: (Error | undefined)[]
  readonly #unsent: EntryGroup[]

  constructor(
    ops: readonly SetEntryOperation[],
    ipset: SetRequests,
    batch: MessageBatch,
    options: EntryRunOptions,
    signal: AbortSignal,
  ) {
    this.#ops = ops
    this.#ipset = ipset
    this.#batch = batch
    this.#options = options
    this.#signal = signal
    this.#unsent = groupsOf(ops)
    this.#outcomes = ops.map(({ set }) =>
      definitionOf(set) === undefined ? ipsetError('ipset-wrong-type', `${set} is no set of ours`) : undefined,
    )
  }

  async outcomes(): Promise<readonly (Error | undefined)[]> {
    const budget = newBudget()
    while (this.#unsent.length > 0) {
      this.#signal.throwIfAborted()
      const refused = await this.#send(this.#takeDatagram())
      // Groups to send again are sent before new ones.
      const again: EntryGroup[] = []
      for (const [group, error] of refused) again.push(...(await this.#afterRefusal(group, error)))
      this.#unsent.unshift(...again)
      if (budget.spent()) await budget.turn()
    }
    return this.#outcomes
  }

  /** Groups for one datagram: 500 entries are about a millisecond of the kernel's time. */
  #takeDatagram(): EntryGroup[] {
    let entries = 0
    let count = 0
    for (const group of this.#unsent) {
      entries += group.indexes.length
      if (count > 0 && (entries > MAX_ENTRIES || count >= MAX_BATCH_MESSAGES)) break
      count++
    }
    return this.#unsent.splice(0, count)
  }

  async #send(groups: readonly EntryGroup[]): Promise<readonly (readonly [EntryGroup, Error])[]> {
    const refused: [EntryGroup, Error][] = []
    const sent: EntryGroup[] = []
    for (const group of groups) {
      try {
        encodeEntries(this.#batch, group.kind === 'add-entry' ? 'ADD' : 'DEL', group.set, this.#texts(group))
        sent.push(group)
      } catch (error) {
        refused.push([group, asError(error)])
      }
    }
    try {
      const outcomes = await this.#ipset.transact(this.#batch)
      outcomes.forEach((outcome, index) => {
        const group = sent[index]
        if (outcome !== undefined && group !== undefined)
          refused.push([group, named(outcome, this.#about(group), kindOf(group.set))])
      })
    } catch (error) {
      // The outcomes of all of them are unknown.
      for (const group of sent) this.#fail(group, asError(error))
    } finally {
      this.#batch.reset()
    }
    return refused
  }

  /** Handles a refused message; returns the groups to send again. */
  async #afterRefusal(group: EntryGroup, error: Error): Promise<readonly EntryGroup[]> {
    const { set, indexes } = group
    try {
      if (codeOf(error) === 'IPSET_ERR_HASH_FULL' && !group.isEnlarged) {
        await this.#enlarge(set, indexes.length)
        return [{ ...group, isEnlarged: true }]
      }
      if (codeOf(error) === 'ENOENT') {
        this.#options.onSetLost(set.name)
        this.#fail(group, error)
        return []
      }
      if (!(await this.#isRightType(set))) {
        this.#options.onSetLost(set.name)
        this.#fail(
          group,
          ipsetError('ipset-wrong-type', `the set ${set.name} is not of type ${set.type}`, { cause: error }),
        )
        return []
      }
    } catch (unexpected) {
      this.#signal.throwIfAborted()
      this.#fail(group, asError(unexpected))
      return []
    }
    if (indexes.length > 1) return indexes.map((index) => ({ ...group, indexes: [index] }))
    this.#fail(group, error)
    return []
  }

  async #isRightType(set: SetDefinition): Promise<boolean> {
    const live = await this.#ipset.getSet(set.name, { signal: this.#signal })
    return live !== undefined && sameKind(live, parametersOf(set))
  }

  /** Doubles the size of a set until the entries fit; never smaller than a new set. */
  async #enlarge(set: SetDefinition, more: number): Promise<void> {
    const live = await this.#ipset.getSet(set.name, { signal: this.#signal })
    const hashSize = live?.hashSize ?? 0
    let maxElements = Math.max(MAX_ELEMENTS, 2 * (live?.maxElements ?? 0))
    while (maxElements < (live?.elements ?? 0) + more) maxElements *= 2
    await recreate(
      this.#ipset,
      set,
      { ...parametersOf(set), maxElements },
      {
        signal: this.#signal,
        ...(hashSize > 0 ? { hashSize } : {}),
      },
    )
    this.#options.onGrown(set.name, maxElements)
  }

  #texts(group: EntryGroup): string[] {
    return group.indexes.map((index) => this.#ops[index]?.entry ?? '')
  }

  #about(group: EntryGroup): string {
    const [first] = group.indexes
    const op = first === undefined ? undefined : this.#ops[first]
    return op === undefined ? group.set.name : formatEntryOperation(op)
  }

  #fail(group: EntryGroup, error: Error): void {
    for (const index of group.indexes) this.#outcomes[index] = error
  }
}

function kindOf(set: SetDefinition): 'hash' | 'bitmap' {
  return set.type === 'bitmap:port' ? 'bitmap' : 'hash'
}
