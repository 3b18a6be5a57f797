/**
 * The io of a table whose items are in a map: all that a test of a kind, of the reconciler or of a
 * dataplane needs of a kernel. It fails on request, and a test can change its items behind the
 * reconciler's back. For example
 *
 *     const table = new MemoryTable(ADDRESSES)
 *     const sync = new TableSync(table)
 *     sync.want('10.96.0.1', hostAddress('10.96.0.1'))
 *     await new Reconciler([reconciled(sync)]).pass({ signal, now, mayRemove: true })
 *     assert.deepEqual(table.applied, ['ip address add 10.96.0.1/32 dev kube-ipvs0'])
 */
import { VIRTUAL_SERVERS } from '../../src/ipvs/diff.ts'
import type { VirtualServer, VirtualServerOperation } from '../../src/ipvs/types.ts'
import type { TableIo, TableKind } from '../../src/sync/table.ts'

export interface MemoryTableOptions<Item, Op> {
  /** Gets the command of each operation that succeeds. Several tables with one list show the order among them. */
  readonly applied?: string[]
  /** Why an operation on this item fails; undefined: it succeeds. */
  readonly refuse?: (op: Op, live: Item | undefined) => Error | undefined
}

export class MemoryTable<Item, Op> implements TableIo<Item, Op> {
  readonly kind: TableKind<Item, Op>
  readonly kernel = new Map<string, Item>()
  readonly applied: string[]
  readonly #refuse: NonNullable<MemoryTableOptions<Item, Op>['refuse']>
  reads = 0
  /** Keys that were read one by one. */
  readKeys = 0
  /** Decides whether the next operation fails, before it does anything. */
  fails: (op: Op) => boolean = () => false
  failRead = false
  foreign: ReadonlySet<string> = new Set()

  constructor(kind: TableKind<Item, Op>, options: MemoryTableOptions<Item, Op> = {}) {
    this.kind = kind
    this.applied = options.applied ?? []
    this.#refuse = options.refuse ?? (() => undefined)
  }

  async list(keys: readonly string[] | 'all'): Promise<Map<string, Item>> {
    this.reads++
    if (keys !== 'all') this.readKeys += keys.length
    if (this.failRead) throw new Error('the table cannot be read')
    const found = new Map<string, Item>()
    for (const key of keys === 'all' ? this.kernel.keys() : keys) {
      const item = this.kernel.get(key)
      if (item !== undefined) found.set(key, structuredClone(item))
    }
    return found
  }

  async apply(ops: readonly Op[]): Promise<readonly (Error | undefined)[]> {
    return ops.map((op) => this.#run(op))
  }

  #run(op: Op): Error | undefined {
    const key = this.kind.key(op)
    const live = this.kernel.get(key)
    const error = this.fails(op) ? new Error('injected failure') : this.#refuse(op, live)
    if (error !== undefined) return error
    const after = this.kind.step(live, op)
    if (after === undefined) this.kernel.delete(key)
    else this.kernel.set(key, after)
    this.applied.push(this.kind.text(op))
    return undefined
  }

  isOurs(key: string): boolean {
    return !this.foreign.has(key)
  }
}

/**
 * Virtual servers in memory, where it is an error as in the kernel to add one that exists and to
 * change one that does not.
 */
export function memoryVirtualServers(): MemoryTable<VirtualServer, VirtualServerOperation> {
  return new MemoryTable(VIRTUAL_SERVERS, {
    refuse: (op, live) => {
      const adds = op.kind === 'add-virtual-server'
      return adds === (live !== undefined) ? new Error(adds ? 'EEXIST' : 'ESRCH') : undefined
    },
  })
}
