/**
 * Runs operations as transactions of bounded size. A transaction is done as a whole or not at all,
 * so after a refusal it is sent again without what was refused: the kernel names every message that
 * it does not take. What it refuses only as a whole is halved until the culprit is alone. What refuses all
 * elements of a set, or all of a table, fails them at once.
 * @impure
 */
import { MAX_BATCH_MESSAGES, type MessageBatch } from '../netlink/batch.ts'
import type { NetlinkConnection, Outcome } from '../netlink/connection.ts'
import { KernelError } from '../netlink/errors.ts'
import { encodeBatchBegin, encodeBatchEnd, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { asError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { newBudget } from '../values/event-loop.ts'
import { operationText } from './item-text.ts'
import { PrivateTableReader } from './reader.ts'
import { missingSet, namedRefusal } from './refusals.ts'
import { elementGroup, groupsOf, type MessageGroup, type MessagePart, SetIds, splitGroup } from './transaction-plan.ts'
import { NFT_FAMILY, nftKey, type NftOperation } from './types.ts'

/** Without the begin and the end of the transaction. */
const MAX_MESSAGES = MAX_BATCH_MESSAGES - 2
/** What one transaction may cost the kernel, in elements and messages; see ELEMENTS_TOGETHER. */
const MAX_WEIGHT = 1000

/** So many are halved: to find a culprit among thousands takes 20, and each waits for all processors. */
const MAX_HALVED = 100

/** A part that the kernel refused, or that cannot be encoded. */
interface Refusal {
  readonly group: MessageGroup
  readonly part: MessagePart
  readonly error: Error
}

/** The end of one transaction: done, refused part by part, or refused as a whole. */
type End = { readonly refusals: readonly Refusal[] } | { readonly failure: Error }

export interface RunOptions {
  readonly netlink: NetlinkConnection
  /** Empty, and empty again afterwards. */
  readonly batch: MessageBatch
  readonly signal: AbortSignal
}

/** One call of `apply`: one outcome for each operation, in the same order. */
export class TransactionRun {
  readonly #netlink: NetlinkConnection
  readonly #batch: MessageBatch
  readonly #ops: readonly NftOperation[]
  readonly #signal: AbortSignal
  readonly #outcomes: (Error | undefined)[]
  readonly #budget = newBudget()
  /** Keys of sets that are replaced, or that the kernel does not have: no elements are deleted from them. */
  readonly #emptied: Set<string>
  /** Keys of sets that are added or replaced. */
  readonly #added: ReadonlySet<string>
  /** Whether an operation has failed. */
  #hasFailed = false
  /** How many transactions were refused as a whole. */
  #halved = 0

  constructor({ netlink, batch, signal }: RunOptions, ops: readonly NftOperation[]) {
    this.#netlink = netlink
    this.#batch = batch
    this.#ops = ops
    this.#signal = signal
    this.#outcomes = new Array<Error | undefined>(ops.length).fill(undefined)
    const sets = ops.filter(({ item, kind }) => item.kind === 'set' && kind !== 'delete')
    this.#added = new Set(sets.map(({ item }) => nftKey(item)))
    this.#emptied = new Set(sets.filter(({ kind }) => kind === 'replace').map(({ item }) => nftKey(item)))
  }

  async outcomes(): Promise<readonly (Error | undefined)[]> {
    await this.#runAll(groupsOf(this.#ops))
    return this.#outcomes
  }

  async #runAll(groups: Iterable<MessageGroup>): Promise<void> {
    let chunk: MessageGroup[] = []
    let [messages, weight] = [0, 0]
    for (const group of groups) {
      const more = messagesIn(group)
      if (chunk.length > 0 && (messages + more > MAX_MESSAGES || weight + group.weight > MAX_WEIGHT)) {
        await this.#run(chunk)
        chunk = []
        ;[messages, weight] = [0, 0]
      }
      chunk.push(group)
      messages += more
      weight += group.weight
    }
    if (chunk.length > 0) await this.#run(chunk)
  }

  async #run(given: readonly MessageGroup[]): Promise<void> {
    this.#signal.throwIfAborted()
    const groups = given.flatMap((group) => this.#left(group))
    if (groups.length === 0) return
    const end = await this.#send(groups)
    if (this.#budget.spent()) await this.#budget.turn()
    if ('failure' in end) return this.#afterFailure(groups, end.failure)
    if (end.refusals.length === 0) return
    await this.#failAtOnce(end.refusals)
    await this.#runAll(this.#without(groups, end.refusals))
  }

  /** The group without operations of which a part has failed, and those that need nothing. */
  #left(group: MessageGroup): readonly MessageGroup[] {
    if (!this.#hasFailed && this.#emptied.size === 0) return [group]
    const left = group.ops.filter((index) => this.#isLeft(index))
    if (left.length === group.ops.length) return [group]
    return left.length === 0 ? [] : [elementGroup(this.#ops, left)]
  }

  #isLeft(index: number): boolean {
    const op = this.#ops[index]
    if (op === undefined || this.#outcomes[index] !== undefined) return false
    return op.kind !== 'delete' || op.item.kind !== 'element' || !this.#emptied.has(setKey(op.item.family, op.item.set))
  }

  /** Whether elements of the set of a refused part have not failed at once. */
  #hasLeft({ ops }: MessageGroup, { set }: MessagePart): boolean {
    return ops.some((index) => {
      const item = this.#ops[index]?.item
      return item?.kind === 'element' && item.set === set?.name && item.family === set.family && this.#isLeft(index)
    })
  }

  /** What is refused because of its table or its set is refused for all elements in it. */
  async #failAtOnce(refusals: readonly Refusal[]): Promise<void> {
    for (const { group, part, error } of refusals) {
      if (!(error instanceof KernelError)) continue
      // The table belongs to another socket.
      const family = part.set?.family ?? this.#ops[group.ops[0] ?? -1]?.item.family
      if (error.code === 'EPERM') this.#failWhere(({ item }) => item.family === family, error)
      else if (error.code === 'ENOENT' && part.set !== undefined && group.ops.length > 1) {
        const { family: of, name } = part.set
        const key = setKey(of, name)
        if (this.#added.has(key) || this.#emptied.has(key) || (await this.#isSet(of, name))) continue
        this.#emptied.add(key)
        this.#failElements(key, missingSet(of, name, error))
      }
    }
  }

  /** Whether there is such a set, or that cannot be found out. */
  async #isSet(family: IpFamily, name: string): Promise<boolean> {
    try {
      const reader = new PrivateTableReader(this.#netlink, { signal: this.#signal })
      return (await reader.set(family, name)) !== undefined
    } catch {
      this.#signal.throwIfAborted()
      return true
    }
  }

  /** Elements that were to be deleted from a set that is not there are gone. */
  #failElements(key: string, error: Error): void {
    const isGone = this.#emptied.has(key) && !this.#added.has(key)
    this.#failWhere(
      ({ kind, item }) =>
        item.kind === 'element' && setKey(item.family, item.set) === key && !(isGone && kind === 'delete'),
      error,
    )
  }

  #failWhere(isMeant: (op: NftOperation) => boolean, error: Error): void {
    for (const [index, op] of this.#ops.entries()) if (isMeant(op)) this.#setOutcome(index, error)
  }

  /** Sets an outcome if there is none. The elements of a set that cannot be written cannot be written either. */
  #setOutcome(index: number, error: Error): void {
    if (this.#outcomes[index] !== undefined) return
    this.#outcomes[index] = error
    this.#hasFailed = true
    const op = this.#ops[index]
    if (op?.item.kind === 'set' && op.kind !== 'delete') this.#failElements(nftKey(op.item), error)
  }

  /** What is sent again after refusals: less than before, or in smaller messages. */
  #without(groups: readonly MessageGroup[], refusals: readonly Refusal[]): readonly MessageGroup[] {
    const split = new Set<MessageGroup>()
    const gone = new Set<MessagePart>()
    for (const { group, part, error } of refusals) {
      const [index, ...more] = group.ops
      if (more.length > 0) {
        if (this.#hasLeft(group, part)) split.add(group)
      } else if (part.isDeletion === true && error instanceof KernelError && error.code === 'ENOENT') gone.add(part)
      else if (index !== undefined) this.#fail(index, error, part)
    }
    return groups.flatMap((group) => {
      if (split.has(group)) return splitGroup(this.#ops, group)
      const parts = group.parts.filter((part) => !gone.has(part))
      return parts.length === 0 ? [] : [{ ...group, parts }]
    })
  }

  /** The kernel refused the transaction without naming a message, or did not get it. */
  async #afterFailure(groups: readonly MessageGroup[], failure: Error): Promise<void> {
    const [only, ...more] = groups
    if (only === undefined) return
    // Closed, lost or late: all outcomes are unknown. EPERM: this process may change nothing.
    if (!(failure instanceof KernelError) || failure.code === 'EPERM' || ++this.#halved > MAX_HALVED) {
      for (const { ops } of groups) for (const index of ops) this.#setOutcome(index, failure)
      return
    }
    if (more.length > 0) {
      const half = groups.length >> 1
      await this.#run(groups.slice(0, half))
      return this.#run(groups.slice(half))
    }
    if (only.ops.length > 1) {
      const singles = splitGroup(this.#ops, only)
      const half = singles.length >> 1
      await this.#runAll(singles.slice(0, half))
      return this.#runAll(singles.slice(half))
    }
    for (const index of only.ops) this.#fail(index, failure, undefined)
  }

  #fail(index: number, error: Error, part: MessagePart | undefined): void {
    const op = this.#ops[index]
    if (op !== undefined && this.#outcomes[index] === undefined)
      this.#setOutcome(index, namedRefusal(error, operationText(op), { ...op, ...part }))
  }

  async #send(groups: readonly MessageGroup[]): Promise<End> {
    const batch = this.#batch
    const parts: { readonly group: MessageGroup; readonly part: MessagePart }[] = []
    try {
      encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
      parts.push({ group: NO_GROUP, part: NO_PART })
      const unencodable: Refusal[] = []
      const ids = new SetIds()
      for (const group of groups)
        for (const part of group.parts) {
          try {
            part.encode(batch, ids)
            while (parts.length < batch.count) parts.push({ group, part })
          } catch (error) {
            unencodable.push({ group, part, error: asError(error) })
          }
          if (this.#budget.spent()) await this.#budget.turn()
        }
      if (unencodable.length > 0) return { refusals: unencodable }
      encodeBatchEnd(batch, NFNL_SUBSYS.NFTABLES)
      return endOf(await this.#netlink.transact(batch, { isTransaction: true }), parts)
    } catch (error) {
      return { failure: asError(error) }
    } finally {
      batch.reset()
    }
  }
}

const NO_GROUP: MessageGroup = { ops: [], parts: [], weight: 0 }
const NO_PART: MessagePart = { messages: 0, encode: () => undefined }

function endOf(
  outcomes: readonly Outcome[],
  parts: readonly { readonly group: MessageGroup; readonly part: MessagePart }[],
): End {
  const refusals: Refusal[] = []
  const seen = new Set<MessagePart>()
  let failure: Error | undefined
  outcomes.forEach((error, index) => {
    if (error === undefined) return
    const { group, part } = parts[index] ?? { group: NO_GROUP, part: NO_PART }
    // Of the begin or the end: it is about the whole transaction.
    if (group === NO_GROUP) failure ??= error
    else if (!seen.has(part)) {
      seen.add(part)
      refusals.push({ group, part, error })
    }
  })
  return refusals.length === 0 && failure !== undefined ? { failure } : { refusals }
}

function setKey(family: IpFamily, name: string): string {
  return `${NFT_FAMILY[family]} set ${name}`
}

function messagesIn({ parts }: MessageGroup): number {
  return parts.reduce((sum, { messages }) => sum + messages, 0)
}
