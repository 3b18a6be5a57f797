/**
 * A kernel table in memory, with the pure half of the real virtual-server table. It fails on request, and a test can change
 * it behind the reconciler's back.
 */
import {
  diffVirtualServer,
  sameVirtualServer,
  servesWithout,
  stepVirtualServer,
  stepVirtualServerThrough,
} from '../../src/ipvs/diff.ts'
import { formatOperation } from '../../src/ipvs/text.ts'
import { directionOf, type VirtualServer, type VirtualServerOperation } from '../../src/ipvs/types.ts'
import type { KernelTable } from '../../src/sync/table.ts'

export class MemoryTable implements KernelTable<VirtualServer, VirtualServerOperation> {
  readonly name = 'virtual-servers'
  readonly kernel = new Map<string, VirtualServer>()
  readonly applied: string[] = []
  reads = 0
  /** Keys that were read one by one. */
  readKeys = 0
  /** Decides whether the next operation fails, before it does anything. */
  fails: (op: VirtualServerOperation) => boolean = () => false
  failRead = false
  foreign: ReadonlySet<string> = new Set()

  async read(keys: readonly string[] | 'all'): Promise<Map<string, VirtualServer>> {
    this.reads++
    if (keys !== 'all') this.readKeys += keys.length
    if (this.failRead) throw new Error('the table cannot be read')
    const wanted = keys === 'all' ? [...this.kernel.keys()] : keys
    return new Map(
      wanted.flatMap((key) => {
        const item = this.kernel.get(key)
        return item === undefined ? [] : [[key, structuredClone(item)] as const]
      }),
    )
  }

  diff = diffVirtualServer
  equal = sameVirtualServer
  step = stepVirtualServer
  stepAll = stepVirtualServerThrough
  direction = directionOf
  canSpare = servesWithout
  format = formatOperation

  async apply(ops: readonly VirtualServerOperation[]): Promise<readonly (Error | undefined)[]> {
    return ops.map((op) => {
      if (this.fails(op)) return new Error('injected failure')
      const live = this.kernel.get(op.key)
      const adds = op.kind === 'add-virtual-server'
      if (adds === (live !== undefined)) return new Error(adds ? 'EEXIST' : 'ESRCH')
      const after = stepVirtualServer(live, op)
      if (after === undefined) this.kernel.delete(op.key)
      else this.kernel.set(op.key, after)
      this.applied.push(formatOperation(op))
      return undefined
    })
  }

  isOurs(key: string): boolean {
    return !this.foreign.has(key)
  }
}
