/**
 * A kernel table in memory, with the pure half of the real virtual-server table. It fails on request, and a test can change
 * it behind the reconciler's back.
 */
import { VIRTUAL_SERVERS } from '../../src/ipvs/diff.ts'
import type { VirtualServer, VirtualServerOperation } from '../../src/ipvs/types.ts'
import type { TableIo } from '../../src/sync/table.ts'

export class MemoryTable implements TableIo<VirtualServer, VirtualServerOperation> {
  readonly kind = VIRTUAL_SERVERS
  readonly kernel = new Map<string, VirtualServer>()
  readonly applied: string[] = []
  reads = 0
  /** Keys that were read one by one. */
  readKeys = 0
  /** Decides whether the next operation fails, before it does anything. */
  fails: (op: VirtualServerOperation) => boolean = () => false
  failRead = false
  foreign: ReadonlySet<string> = new Set()

  async list(keys: readonly string[] | 'all'): Promise<Map<string, VirtualServer>> {
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

  async apply(ops: readonly VirtualServerOperation[]): Promise<readonly (Error | undefined)[]> {
    return ops.map((op) => {
      if (this.fails(op)) return new Error('injected failure')
      const live = this.kernel.get(op.key)
      const adds = op.kind === 'add-virtual-server'
      if (adds === (live !== undefined)) return new Error(adds ? 'EEXIST' : 'ESRCH')
      const after = VIRTUAL_SERVERS.step(live, op)
      if (after === undefined) this.kernel.delete(op.key)
      else this.kernel.set(op.key, after)
      this.applied.push(VIRTUAL_SERVERS.text(op))
      return undefined
    })
  }

  isOurs(key: string): boolean {
    return !this.foreign.has(key)
  }
}
