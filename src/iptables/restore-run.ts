/**
 * Runs operations with as few iptables-restore processes as possible: one when nothing fails, and
 * more for very many rules, because iptables-nft-restore takes 1.5 KiB of memory for each. After a
 * failure it retries without the operation whose line the program names, else in halves. Each table
 * is committed as a whole, one after the other, so the tables before the failed one are written
 * already, and a jump must not be inserted into them again.
 * @impure
 */
import { asError, CodedError, MissingFeature } from '../values/errors.ts'
import { iptablesError, type IptablesOperation, missingMatch, OPTIONAL_MATCHES, type RestoreResult } from './types.ts'
import { compareText } from '../values/lists.ts'
import { formatRestore, parseFailure, type RestoreFailure, type RestoreText } from './restore-text.ts'
import { chainKey, type ChainLayout } from './layout.ts'
import { isOneLine, matchesOf } from './rule-text.ts'
import { keyOf } from './diff.ts'

/** Largest number of processes that one run starts, besides one for each batch. */
const MAX_PROCESSES = 24
/** Lines of one restore, chains and rules. It then needs 18 MiB of memory, with 90,000 rules in the kernel already. */
const BATCH_LINES = 15_000
/** Exit code of iptables when a resource is missing, the lock among them (RESOURCE_PROBLEM of xtables.h). */
const RESOURCE_PROBLEM = 4

export interface RestorePrograms {
  /** The keys of our chains and jumps that are there now. */
  present(signal: AbortSignal): Promise<ReadonlySet<string>>
  restore(input: string, signal: AbortSignal): Promise<RestoreResult>
}

/** An operation as it is tried now. `shortfall`: it does less than was requested, and this is its outcome. */
interface Task {
  readonly index: number
  readonly op: IptablesOperation
  readonly shortfall: Error | undefined
}

export class RestoreRun {
  readonly #programs: RestorePrograms
  readonly #layout: ChainLayout
  readonly #signal: AbortSignal
  readonly #outcomes: (Error | undefined)[]
  #processes = 0
  #maxProcesses = MAX_PROCESSES
  /** Why no restore can run now. */
  #unable: Error | undefined

  constructor(programs: RestorePrograms, layout: ChainLayout, signal: AbortSignal, count: number) {
    this.#programs = programs
    this.#layout = layout
    this.#signal = signal
    this.#outcomes = Array.from({ length: count }, () => undefined)
  }

  /**
   * One outcome for each operation, in their order. Rejects only when aborted. @param inUse rules
   * that jump to our chains, by key
   */
  static async run(
    ops: readonly IptablesOperation[],
    programs: RestorePrograms,
    layout: ChainLayout,
    inUse: ReadonlyMap<string, string>,
    signal: AbortSignal,
  ): Promise<readonly (Error | undefined)[]> {
    const run = new RestoreRun(programs, layout, signal, ops.length)
    const tasks = ops.map((op, index) => startingTask(op, index, inUse))
    const isSafe = ({ op }: Task): boolean => rulesOf(op).every(isOneLine)
    run.#settle(
      tasks.filter((task) => !isSafe(task)),
      iptablesError('iptables-unprintable', 'a rule contains a control character that could end its line'),
    )
    const batches = batchesOf(tasks.filter(isSafe), layout)
    run.#maxProcesses = MAX_PROCESSES - 1 + batches.length
    for (const batch of batches) {
      if (run.#unable === undefined) await run.#attempt(batch)
      else run.#settle(batch, run.#unable)
    }
    return run.#outcomes
  }

  async #attempt(tasks: readonly Task[]): Promise<void> {
    if (tasks.length === 0) return
    if (this.#processes >= this.#maxProcesses) {
      this.#settle(tasks, iptablesError('iptables-not-tried', `not retried after ${this.#maxProcesses} restores`))
      return
    }
    const input = formatRestore(
      tasks.map(({ op }) => op),
      this.#layout,
    )
    const result = await this.#restore(input.text)
    if (result instanceof Error) {
      this.#unable = result
      return this.#settle(tasks, result)
    }
    if (result.exitCode === 0) return this.#settle(tasks)
    const failure = parseFailure(result.errorText)
    const line = failure.lines[0]
    const failedTable = line === undefined ? undefined : input.tableOfLine[line - 1]
    if (failedTable === undefined) return this.#attemptBlindly(tasks, result.exitCode, failure)
    const { tables } = this.#layout
    const place = ({ op }: Task): number => tables.indexOf(op.table) - tables.indexOf(failedTable)
    this.#settle(tasks.filter((task) => place(task) < 0))
    await this.#attemptWithout(tasks, input, failure)
    await this.#attempt(tasks.filter((task) => place(task) > 0))
  }

  /** Retries the failed table without the operations whose lines were named, or in halves when none was. */
  async #attemptWithout(tasks: readonly Task[], input: RestoreText, failure: RestoreFailure): Promise<void> {
    const failedTable = input.tableOfLine[(failure.lines[0] ?? 0) - 1]
    const inTable = tasks.filter(({ op }) => op.table === failedTable)
    const bad = new Map<Task, string>()
    for (const line of failure.lines) {
      const task = tasks[input.operationOfLine[line - 1] ?? -1]
      if (task !== undefined && task.op.table === failedTable && !bad.has(task)) bad.set(task, lineOf(input, line))
    }
    if (bad.size === 0 && inTable.length > 1) {
      const middle = Math.ceil(inTable.length / 2)
      const sorted = inTable.toSorted((a, b) => rank(a.op) - rank(b.op))
      await this.#attempt(sorted.slice(0, middle))
      await this.#attempt(sorted.slice(middle))
      return
    }
    const rest = inTable.flatMap((task) => {
      const line = bad.get(task)
      if (line === undefined && bad.size > 0) return task
      const lesser = lesserTask(task, line ?? '', failure.reason)
      if (lesser === undefined) this.#settle([task], restoreFailed(line ?? '', failure.reason))
      return lesser ?? []
    })
    await this.#attempt(rest)
  }

  /** Nothing says which table failed: each is retried alone, but not after a lock or with a single table. */
  async #attemptBlindly(tasks: readonly Task[], exitCode: number, failure: RestoreFailure): Promise<void> {
    const error =
      exitCode === RESOURCE_PROBLEM
        ? iptablesError(
            'iptables-locked',
            `the lock or another resource of iptables is not available: ${failure.reason}`,
          )
        : iptablesError('iptables-unnamed-failure', failure.reason)
    if (exitCode === RESOURCE_PROBLEM) this.#unable = error
    const tables = new Set(tasks.map(({ op }) => op.table))
    if (exitCode === RESOURCE_PROBLEM || tables.size < 2) return this.#settle(tasks, error)
    // The first table may have been written. A jump is not inserted again while it is not known whether it is there.
    const there = await this.#present()
    const isJump = ({ op }: Task): boolean => op.kind === 'insert-jump'
    const isLeft = (task: Task): boolean => isJump(task) && (there instanceof Error || there.has(keyOf(task.op)))
    this.#settle(tasks.filter(isLeft), there instanceof Error ? error : undefined)
    for (const table of tables) await this.#attempt(tasks.filter((task) => task.op.table === table && !isLeft(task)))
  }

  async #present(): Promise<ReadonlySet<string> | Error> {
    this.#processes++
    try {
      return await this.#programs.present(this.#signal)
    } catch (error) {
      this.#signal.throwIfAborted()
      return asError(error)
    }
  }

  async #restore(text: string): Promise<RestoreResult | Error> {
    this.#processes++
    try {
      return await this.#programs.restore(text, this.#signal)
    } catch (error) {
      this.#signal.throwIfAborted()
      return error instanceof Error ? error : new CodedError('iptables-restore-failed', String(error))
    }
  }

  #settle(tasks: readonly Task[], error?: Error): void {
    for (const task of tasks) this.#outcomes[task.index] = error ?? task.shortfall
  }
}

/**
 * The operations in one batch, or, if they have very many lines, in several that can be committed
 * one after the other: chains of fixed names that do not exist yet, still empty, because others
 * jump to them; then chains with a hash, each after those that its rules jump to; and at the end
 * all others, which bring the traffic.
 */
function batchesOf(tasks: readonly Task[], { hashedChains }: ChainLayout): readonly (readonly Task[])[] {
  if (tasks.reduce((lines, { op }) => lines + linesOf(op), 0) <= BATCH_LINES) return [tasks]
  const placeOf = ({ op }: Task): number =>
    op.kind === 'write-chain' ? hashedChains.findIndex((pattern) => pattern.test(op.chain)) : -1
  const empty = tasks.flatMap((task) =>
    task.op.kind === 'write-chain' && task.op.before === undefined && placeOf(task) < 0
      ? { ...task, op: { ...task.op, rules: [] } }
      : [],
  )
  const batches: (readonly Task[])[] = [empty]
  let batch: Task[] = []
  let lines = 0
  const hashed = tasks
    .map((task) => ({ task, place: placeOf(task) }))
    .filter(({ place }) => place >= 0)
    .sort((a, b) => a.place - b.place || compareText(a.task.op.chain, b.task.op.chain))
  for (const { task } of hashed) {
    if (batch.length > 0 && lines + linesOf(task.op) > BATCH_LINES) {
      batches.push(batch)
      batch = []
      lines = 0
    }
    batch.push(task)
    lines += linesOf(task.op)
  }
  return [...batches, batch, tasks.filter((task) => placeOf(task) < 0)]
}

function linesOf(op: IptablesOperation): number {
  return 1 + rulesOf(op).length
}

function rulesOf(op: IptablesOperation): readonly string[] {
  switch (op.kind) {
    case 'write-chain':
      return op.rules
    case 'delete-chain':
      return []
    case 'insert-jump':
    case 'move-jump':
    case 'delete-jump':
      return [op.rule]
  }
}

/** A chain that rules of other programs jump to cannot be deleted. It is emptied, after which it has no effect. */
function startingTask(op: IptablesOperation, index: number, inUse: ReadonlyMap<string, string>): Task {
  const foreign = op.kind === 'delete-chain' ? inUse.get(chainKey(op.table, op.chain)) : undefined
  if (foreign === undefined) return { index, op, shortfall: undefined }
  return { index, op: emptied(op), shortfall: chainInUse(op, `-t ${op.table} ${foreign} leads to it`) }
}

/** What can be tried instead of an operation that failed at this line; undefined when nothing can. */
function lesserTask(task: Task, line: string, reason: string): Task | undefined {
  const { op, index } = task
  // An operation that was reduced once is not reduced again.
  if (task.shortfall !== undefined && !(task.shortfall instanceof MissingFeature)) return undefined
  if (op.kind === 'delete-chain') return { index, op: emptied(op), shortfall: chainInUse(op, reason) }
  if (op.kind !== 'write-chain') return undefined
  // A refusal of the kernel (legacy) names no line: then the rules with a match that may be missing are left out first.
  const suspects = line === '' ? op.rules : [line]
  const missing = OPTIONAL_MATCHES.find((match) => suspects.some((rule) => matchesOf(rule).includes(match)))
  if (missing !== undefined) {
    const rules = op.rules.filter((rule) => !matchesOf(rule).includes(missing))
    const message = `${chainKey(op.table, op.chain)} is without its rules that need the match ${missing}: ${reason}${line === '' ? '' : ` (${line})`}`
    return { index, op: { ...op, rules }, shortfall: missingMatch(missing, message) }
  }
  // Rules that jump to a new chain can be written when it is empty; an existing chain keeps its rules.
  return op.before === undefined && op.rules.length > 0
    ? { index, op: { ...op, rules: [] }, shortfall: restoreFailed(line, reason) }
    : undefined
}

function emptied({ table, chain }: IptablesOperation): IptablesOperation {
  return { kind: 'write-chain', table, chain, before: [], rules: [] }
}

function chainInUse({ table, chain }: IptablesOperation, reason: string): CodedError {
  const message = `the chain ${chain} of ${table} was emptied but could not be deleted: ${reason}`
  return iptablesError('iptables-chain-in-use', message)
}

function restoreFailed(line: string, reason: string): CodedError {
  return iptablesError('iptables-restore-failed', line === '' ? reason : `${reason} (${line})`)
}

function lineOf(input: RestoreText, line: number): string {
  return input.text.split('\n')[line - 1] ?? ''
}

/** Chains before jumps, additions before removals: the first half must not depend on the second. */
function rank(op: IptablesOperation): number {
  return { 'write-chain': 0, 'insert-jump': 1, 'move-jump': 1, 'delete-jump': 2, 'delete-chain': 3 }[op.kind]
}
