/**
 * Runs operations on entries as messages of up to 500 entries each.
 * What could break: the kernel leaves a message half done when it refuses one entry. Such a message is sent again entry
 * by entry, so that the refused one is known; adding and deleting must stay harmless when they are repeated.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { MAX_BATCH_MESSAGES, type MessageBatch } from '../netlink/batch.ts'
import { asError } from '../values/errors.ts'
import { definitionOf, MAX_ELEMENTS, type SetDefinition, type SetName } from './catalogue.ts'
import { encodeEntries, MAX_ENTRIES } from './codec-entry.ts'
import type { IpsetConnection } from './connection.ts'
import { type EntryGroup, formatEntryOperation, groupsOf, parametersOf, sameKind } from './diff.ts'
import { codeOf, ipsetError, named } from './errors.ts'
import { recreate } from './recreate.ts'
import type { SetEntryOperation } from './types.ts'

export interface EntryRunOptions {
  /** A set is missing or is of another type: whoever keeps the sets should look at it again. */
  readonly onSetLost: (name: SetName) => void
  /** A set was full and takes more entries now. */
  readonly onGrown: (name: SetName, maxElements: number) => void
}

/** One call of `apply`: one outcome for each operation, in their order. */
export class EntryRun {
  readonly #ops: readonly SetEntryOperation[]
  readonly #ipset: IpsetConnection
  readonly #batch: MessageBatch
  readonly #options: EntryRunOptions
  readonly #signal: AbortSignal
  readonly #outcomes: (Error | undefined)[]
  readonly #waiting: EntryGroup[]

  constructor(
    ops: readonly SetEntryOperation[],
    ipset: IpsetConnection,
    batch: MessageBatch,
    options: EntryRunOptions,
    signal: AbortSignal,
  ) {
    this.#ops = ops
    this.#ipset = ipset
    this.#batch = batch
    this.#options = options
    this.#signal = signal
    this.#waiting = groupsOf(ops)
    this.#outcomes = ops.map(({ set }) =>
      definitionOf(set) === undefined ? ipsetError('ipset-wrong-type', `${set} is no set of ours`) : undefined,
    )
  }

  async outcomes(): Promise<readonly (Error | undefined)[]> {
    while (this.#waiting.length > 0) {
      this.#signal.throwIfAborted()
      const refused = await this.#send(this.#takeDatagram())
      // What has to be sent again comes before what has not been sent yet.
      const again: EntryGroup[] = []
      for (const [group, error] of refused) again.push(...(await this.#afterRefusal(group, error)))
      this.#waiting.unshift(...again)
      if (this.#waiting.length > 0) await nextTurn()
    }
    return this.#outcomes
  }

  /** Groups for one datagram: 500 entries are about a millisecond of the kernel's time. */
  #takeDatagram(): EntryGroup[] {
    let entries = 0
    let count = 0
    for (const group of this.#waiting) {
      entries += group.indexes.length
      if (count > 0 && (entries > MAX_ENTRIES || count >= MAX_BATCH_MESSAGES)) break
      count++
    }
    return this.#waiting.splice(0, count)
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
      // Nothing is known of any of them.
      for (const group of sent) this.#fail(group, asError(error))
    } finally {
      this.#batch.reset()
    }
    return refused
  }

  /** Decides what becomes of a refused message; returns what is to be sent again. */
  async #afterRefusal(group: EntryGroup, error: Error): Promise<readonly EntryGroup[]> {
    const { set, indexes } = group
    try {
      if (codeOf(error) === 'IPSET_ERR_HASH_FULL' && !group.grown) {
        await this.#grow(set, indexes.length)
        return [{ ...group, grown: true }]
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

  /** Twice as large as it is, or as often as it takes; never smaller than a new one. */
  async #grow(set: SetDefinition, more: number): Promise<void> {
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
