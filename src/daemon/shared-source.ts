/**
 * The source of objects that all proxies of this process use, one after another: a switch of the
 * mode asks the API server for nothing. It is opened before the kernel is, which saves a cold start
 * the time that the API server needs to answer.
 */
import { withKnown } from '../service/node-state.ts'
import type { Node, ObjectChange, ObjectKind } from '../service/objects.ts'
import type { AppliedObjects } from '../sync/applied-objects.ts'
import { newBudget } from '../values/event-loop.ts'
import type { Problem } from '../values/errors.ts'
import type { ObjectSink, Source } from '../watch/source.ts'

type Report =
  | { readonly changes: readonly ObjectChange[] }
  | { readonly listed: ObjectKind }
  | { readonly subject: string; readonly problems: readonly Problem[] }

/** From this many kept changes on, those that later ones replace are dropped. */
const MANY_CHANGES = 20_000
/** Changes that are handed over in one call. */
const PORTION = 100

export class SharedSource {
  readonly #source: Source
  /** What was reported before the first proxy has started, in order. */
  #kept: Report[] = []
  #keptChanges = 0
  #compactAt: number
  /** Undefined until the first proxy has started. */
  #receiver: ObjectSink | undefined
  /**
   * Nodes as last seen, also after they are gone, because a proxy uses the last known one. The API
   * server reports only this node's.
   */
  readonly #nodes = new Map<string, { readonly node: Node; readonly isGone: boolean }>()
  readonly #listed = new Set<ObjectKind>()
  /** Present problems of the source, by subject. */
  readonly #problems = new Map<string, readonly Problem[]>()
  /** Objects that were removed since `hold`, of which parts that the proxies share may still know. */
  readonly #removed = new Map<string, ObjectChange>()

  /** @param manyChanges tests lower it */
  constructor(open: (sink: ObjectSink) => Source, manyChanges = MANY_CHANGES) {
    this.#compactAt = manyChanges
    this.#source = open({
      apply: (changes) => {
        for (const change of changes) if (change.kind === 'nodes') this.#remember(change.key, change.value)
        if (this.#receiver === undefined) this.#keep({ changes })
        else this.#receiver.apply(changes)
      },
      listed: (kind) => {
        this.#listed.add(kind)
        if (this.#receiver === undefined) this.#keep({ listed: kind })
        else this.#receiver.listed(kind)
      },
      problems: (subject, problems) => {
        if (problems.length === 0) this.#problems.delete(subject)
        else this.#problems.set(subject, problems)
        if (this.#receiver === undefined) this.#keep({ subject, problems })
        else this.#receiver.problems(subject, problems)
      },
    })
  }

  /** Delivers what was reported so far, and from now on everything. Called once, for the first proxy. */
  deliverTo(sink: ObjectSink): void {
    this.#receiver = sink
    for (const report of this.#kept) {
      if ('changes' in report) sink.apply(report.changes)
      else if ('listed' in report) sink.listed(report.listed)
      else sink.problems(report.subject, report.problems)
    }
    this.#kept = []
  }

  /** The proxy stops: from now on changes only keep its objects up to date. */
  hold(objects: AppliedObjects): void {
    this.#receiver = {
      apply: (changes) => this.#keepUp(changes, objects),
      listed: () => undefined,
      problems: () => undefined,
    }
  }

  /**
   * Delivers everything that is known to the next proxy, in portions, and from now on everything.
   * @param objects of the proxy before, as given to `hold`
   */
  async handOver(objects: AppliedObjects, sink: ObjectSink): Promise<void> {
    this.#receiver = {
      // What changes meanwhile is as new as what is still to be delivered, or newer.
      apply: (changes) => {
        this.#keepUp(changes, objects)
        sink.apply(changes)
      },
      listed: () => undefined,
      problems: (subject, problems) => sink.problems(subject, problems),
    }
    for (const [key, { node, isGone }] of this.#nodes) {
      sink.apply([{ kind: 'nodes', key, value: node }])
      if (isGone) sink.apply([{ kind: 'nodes', key, value: undefined }])
    }
    sink.apply([...this.#removed.values()])
    const budget = newBudget()
    let portion: ObjectChange[] = []
    for (const change of objects.additions()) {
      portion.push(change)
      const isDue = budget.spentBySteps()
      if (portion.length < PORTION && !isDue) continue
      sink.apply(portion)
      portion = []
      if (isDue) await budget.turn()
    }
    sink.apply(portion)
    for (const [subject, problems] of this.#problems) sink.problems(subject, problems)
    this.#receiver = sink
    this.#removed.clear()
    for (const kind of this.#listed) sink.listed(kind)
  }

  /** Resolves when everything in the source has ended; nothing is delivered afterwards. */
  close(): Promise<void> {
    return this.#source.close()
  }

  #remember(key: string, node: Node | undefined): void {
    const known = this.#nodes.get(key)?.node
    const last = node === undefined ? known : withKnown(node, known)
    if (last !== undefined) this.#nodes.set(key, { node: last, isGone: node === undefined })
  }

  #keepUp(changes: readonly ObjectChange[], objects: AppliedObjects): void {
    for (const change of changes) {
      objects.apply(change)
      const key = `${change.kind} ${change.key}`
      if (change.kind !== 'nodes' && change.value === undefined) this.#removed.set(key, change)
      else this.#removed.delete(key)
    }
  }

  #keep(report: Report): void {
    this.#kept.push(report)
    if ('changes' in report) this.#keptChanges += report.changes.length
    if (this.#keptChanges >= this.#compactAt) this.#compact()
  }

  /** The kernel may open late, and objects that change all the time must not take more memory than they are large. */
  #compact(): void {
    const latest = new Map<string, ObjectChange>()
    for (const report of this.#kept)
      if ('changes' in report) for (const change of report.changes) latest.set(`${change.kind} ${change.key}`, change)
    // Nobody knows yet what was removed.
    const changes = Array.from(latest.values()).filter(({ value }) => value !== undefined)
    this.#kept = [
      { changes },
      ...Array.from(this.#problems, ([subject, problems]) => ({ subject, problems })),
      ...Array.from(this.#listed, (listed) => ({ listed })),
    ]
    this.#keptChanges = changes.length
    this.#compactAt = Math.max(this.#compactAt, 2 * changes.length)
  }
}
