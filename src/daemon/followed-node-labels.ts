/**
 * Labels of all Nodes, followed only while a Service has weights by a label: opened with the first
 * such rule, closed some time after the last one. Any author of a Service can cause this watch, so
 * it lists rarely, however often rules change: a rule with a label that was not named before may
 * have to wait for the next list. Until the labels are known no rule by a label is true.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { NodeLabels } from '../service/node-context.ts'
import type { ObjectChange } from '../service/objects.ts'
import { Pacer } from '../sync/pacer.ts'
import type { Clock } from '../values/clock.ts'
import { CodedError } from '../values/errors.ts'
import type { ObjectSink, Source } from '../watch/source.ts'

/** Opens a source of Nodes that reports these labels of every Node (`Node.labels`) and nothing else of it. */
export type OpenNodeLabels = (labels: ReadonlySet<string>, sink: ObjectSink) => Source

export interface FollowedNodeLabelsOptions {
  /** Absent: the source of objects reports all Nodes with their labels anyway, and `apply` gets them. */
  readonly open?: OpenNodeLabels | undefined
  /** The labels as they are now; undefined: not known. */
  readonly onChange: (labels: NodeLabels | undefined) => void
  readonly now: Clock
  /** Times of lists, in milliseconds; tests shorten them. */
  readonly limit?: { readonly lists: number; readonly periodMs: number; readonly lingerMs: number }
}

/**
 * So many lists may begin in this time: an operator who tries rules is served at once, and a
 * Service that changes all the time costs little. The source stays open for a while after the last
 * rule, so that a rule which soon comes back needs no list.
 */
const LIMIT = { lists: 3, periodMs: 900_000, lingerMs: 60_000 }
/** Changes of labels are reported at most this often. */
const REPORT_MS = 1000

/** Between two looks of `known`, which only a command calls. */
const POLL_MS = 10

type Labels = Readonly<Record<string, string>>

interface Opened {
  source: Source | undefined
  readonly labels: ReadonlySet<string>
  isListed: boolean
}

export class FollowedNodeLabels {
  readonly #options: FollowedNodeLabelsOptions
  /** The labels that the rules of each frontend name, where there are any. */
  readonly #frontends = new Map<FrontendKey, readonly string[]>()
  /** How many frontends name each label. */
  readonly #wanted = new Map<string, number>()
  /** The source that is open, and the labels that it keeps. */
  #opened: Opened | undefined
  /** Since when no rule names a label, while the source is open. */
  #idleSinceMs: number | undefined
  /** When the last lists began, at most as many as the limit. */
  #begunMs: number[] = []
  #nodes = new Map<string, Labels>()
  /** Whether `#nodes` is complete: of the source that is open, or of one before it. */
  #isKnown = false
  #closing: Promise<void> = Promise.resolve()
  #isClosed = false
  readonly #lists: Pacer
  readonly #reports: Pacer

  constructor(options: FollowedNodeLabelsOptions) {
    this.#options = options
    const { now } = options
    this.#lists = new Pacer({ minPeriodMs: () => 0, now, run: async () => this.#open() })
    this.#reports = new Pacer({
      minPeriodMs: () => REPORT_MS,
      now,
      run: async () => {
        this.#report()
        return undefined
      },
    })
  }

  /** Call it for each changed frontend; undefined: it is gone. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    const named = frontend?.servicePort.choices.weights?.labels ?? NONE
    const before = this.#frontends.get(key) ?? NONE
    if (named === before) return
    let isChanged = false
    for (const label of named) {
      const count = this.#wanted.get(label) ?? 0
      this.#wanted.set(label, count + 1)
      isChanged ||= count === 0
    }
    for (const label of before) {
      const count = (this.#wanted.get(label) ?? 1) - 1
      if (count > 0) this.#wanted.set(label, count)
      else isChanged = this.#wanted.delete(label)
    }
    if (named.length === 0) this.#frontends.delete(key)
    else this.#frontends.set(key, named)
    if (isChanged && this.#options.open !== undefined) this.#lists.request()
  }

  /** Takes in Nodes of a source that reports all of them with their labels; only without `open`. */
  apply(changes: readonly ObjectChange[]): void {
    if (this.#options.open !== undefined || !this.#take(changes)) return
    this.#isKnown = true
    this.#report()
  }

  /** The labels of Nodes as far as they are known; undefined: not at all. */
  get labels(): NodeLabels | undefined {
    return this.#isKnown ? this.#nodes : undefined
  }

  /**
   * Uses what another proxy of this process knew, until a source has listed. They are forgotten if
   * no rule names a label.
   */
  adopt(labels: NodeLabels): void {
    if (this.#options.open === undefined) return
    this.#nodes = new Map(labels)
    this.#isKnown = true
    this.#report()
    this.#lists.request()
  }

  /** Resolves when all labels that rules name now are known. Rejects with `source-timeout`. */
  async known(deadlineMs: number): Promise<void> {
    const endMs = this.#options.now() + deadlineMs
    while (this.isAwaited) {
      if (this.#options.now() > endMs)
        throw new CodedError('source-timeout', `no complete list of the labels of nodes within ${deadlineMs / 1000} s`)
      await sleep(POLL_MS)
    }
  }

  /** Whether a rule names a label that is not known yet. */
  get isAwaited(): boolean {
    if (this.#options.open === undefined || this.#wanted.size === 0) return false
    const { isListed, labels } = this.#opened ?? { isListed: false, labels: NO_LABELS }
    return !isListed || [...this.#wanted.keys()].some((label) => !labels.has(label))
  }

  /** How many Nodes have a label that a rule names. */
  get nodeCount(): number {
    return this.#wanted.size === 0 ? 0 : this.#nodes.size
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#lists.close()
    await this.#reports.close()
    await this.#opened?.source?.close()
    await this.#closing
  }

  /** Opens, replaces or closes the source if the rules want that. Resolves to when to look again. */
  #open(): number | undefined {
    const { open, now } = this.#options
    const opened = this.#opened
    const labels = new Set(this.#wanted.keys())
    if (open === undefined || this.#isClosed) return undefined
    const { lists, periodMs, lingerMs } = this.#options.limit ?? LIMIT
    if (labels.size === 0) {
      if (opened === undefined && !this.#isKnown) return undefined
      this.#idleSinceMs ??= now()
      if (now() < this.#idleSinceMs + lingerMs) return this.#idleSinceMs + lingerMs
      this.#discard()
      this.#nodes = new Map()
      this.#isKnown = false
      this.#report()
      return undefined
    }
    this.#idleSinceMs = undefined
    if (opened !== undefined && [...labels].every((label) => opened.labels.has(label))) return undefined
    const [oldest = 0] = this.#begunMs
    if (this.#begunMs.length === lists && oldest + periodMs > now()) return oldest + periodMs
    this.#begunMs = [...this.#begunMs, now()].slice(-lists)
    this.#discard()
    // The labels of the source before stay in force until the new one has listed.
    const nodes = new Map<string, Labels>()
    const current: Opened = { source: undefined, labels, isListed: false }
    const sink: ObjectSink = {
      apply: (changes) => {
        if (this.#opened !== current) return
        const isChanged = take(nodes, changes)
        if (isChanged && current.isListed) this.#reports.request()
      },
      listed: () => {
        if (this.#opened !== current) return
        current.isListed = true
        this.#nodes = nodes
        this.#isKnown = true
        this.#report()
      },
      // What is wrong with a Node is reported by the source of objects.
      problems: () => undefined,
    }
    this.#opened = current
    current.source = open(labels, sink)
    return undefined
  }

  #discard(): void {
    this.#idleSinceMs = undefined
    const source = this.#opened?.source
    this.#opened = undefined
    if (source !== undefined) this.#closing = Promise.all([this.#closing, source.close()]).then(() => undefined)
  }

  #take(changes: readonly ObjectChange[]): boolean {
    return take(this.#nodes, changes)
  }

  /** A copy, because contexts are compared by identity. */
  #report(): void {
    if (!this.#isClosed) this.#options.onChange(this.#isKnown ? new Map(this.#nodes) : undefined)
  }
}

const NONE: readonly string[] = []
const NO_LABELS: ReadonlySet<string> = new Set()

/** Returns whether a label has changed. */
function take(nodes: Map<string, Labels>, changes: readonly ObjectChange[]): boolean {
  let isChanged = false
  for (const { kind, key, value } of changes) {
    if (kind !== 'nodes') continue
    const labels = value?.labels
    if (sameLabels(nodes.get(key), labels)) continue
    isChanged = true
    if (labels === undefined) nodes.delete(key)
    else nodes.set(key, labels)
  }
  return isChanged
}

function sameLabels(a: Labels | undefined, b: Labels | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && a[name] === b[name])
}
