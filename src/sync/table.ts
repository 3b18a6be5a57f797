/**
 * The contract every kernel table keeps: read, diff, apply. The reconciler only runs that loop.
 * What could break: `step` must agree with the kernel and with `diff`: stepping through diff(b, a) from a gives b,
 * up to draining; a test holds every table to it.
 */

export type TableName =
  | 'sets'
  | 'set-entries'
  | 'chains-IPv4'
  | 'chains-IPv6'
  | 'device'
  | 'addresses'
  | 'virtual-servers'

/** Whether an operation brings something or takes something away; decides when in a plan it runs. */
export type Direction = 'add' | 'remove'

export interface KernelTable<Item, Op> {
  readonly name: TableName
  /** Live items of these keys (absent ones are left out), or of the whole table. Rejects when the kernel cannot be read. */
  read(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, Item>>
  /** Operations that turn `live` into `desired`, in a safe order. Pure. `idle` names parts that were seen to be without connections. */
  diff(key: string, desired: Item | undefined, live: Item | undefined, idle?: ReadonlySet<string>): readonly Op[]
  /** Whether two items are the same in every part that is written or read. Pure. */
  equal(a: Item, b: Item): boolean
  /** What one successful operation makes of a live item. Pure. */
  step(live: Item | undefined, op: Op): Item | undefined
  direction(op: Op): Direction
  /** Runs the operations in order; one outcome each, in the same order: undefined for success, else the reason. Rejects only when aborted. */
  apply(ops: readonly Op[], signal: AbortSignal): Promise<readonly (Error | undefined)[]>
  /** Whether a pass may remove this live item that nothing wants. */
  isOurs(key: string, live: Item): boolean
  /**
   * Whether these removals of one key may run although something else of that key failed: what is left of `live` does its
   * work without them. Absent: never, because the failure may have been their replacement. Pure.
   */
  canSpare?(live: Item | undefined, removals: readonly Op[]): boolean
  /** The operation as the command an operator would type. */
  format(op: Op): string
}
