/**
 * The sets themselves behind the contract of every kernel table. Key: the set's name.
 * What could break: only the 34 names of the catalogue (and what an interrupted replacement left) are ours; a set of
 * any other name is never touched.
 */
import type { KernelTable } from '../sync/table.ts'
import type { IpFamily } from '../values/protocol.ts'
import { definitionOf, type SetName } from './catalogue.ts'
import type { IpsetConnection } from './connection.ts'
import { named } from './errors.ts'
import { recreate } from './recreate.ts'
import { diffSet, directionOfSet, familyOfSet, formatSetOperation, sameSet, stepSet } from './set-diff.ts'
import type { SetOperation, SetParameters } from './types.ts'

export class SetTable implements KernelTable<SetParameters, SetOperation> {
  readonly name = 'sets'
  readonly #ipset: IpsetConnection
  readonly #families: readonly IpFamily[]

  /** Sets of these families. */
  constructor(ipset: IpsetConnection, families: readonly IpFamily[]) {
    this.#ipset = ipset
    this.#families = families
  }

  readonly diff = diffSet
  readonly equal = sameSet
  readonly step = (_live: SetParameters | undefined, op: SetOperation) => stepSet(op)
  readonly direction = directionOfSet
  readonly format = formatSetOperation

  isOurs(name: SetName): boolean {
    const family = familyOfSet(name)
    return family !== undefined && this.#families.includes(family)
  }

  async read(keys: readonly SetName[] | 'all', signal: AbortSignal): Promise<Map<SetName, SetParameters>> {
    const wanted = keys === 'all' ? undefined : new Set(keys)
    const found = new Map<SetName, SetParameters>()
    for (const { name, type, family, maxElements, firstPort, lastPort, extras } of await this.#ipset.listSets({
      signal,
    }))
      if (this.isOurs(name) && (wanted?.has(name) ?? true))
        found.set(name, { type, family, maxElements, firstPort, lastPort, extras })
    return found
  }

  async apply(ops: readonly SetOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const outcomes: (Error | undefined)[] = []
    for (const op of ops) {
      signal.throwIfAborted()
      try {
        await this.#run(op, signal)
        outcomes.push(undefined)
      } catch (error) {
        signal.throwIfAborted()
        outcomes.push(named(error, formatSetOperation(op)))
      }
    }
    return outcomes
  }

  async #run(op: SetOperation, signal: AbortSignal): Promise<void> {
    if (op.kind === 'destroy-set') return this.#ipset.destroy(op.name)
    const set = definitionOf(op.name)
    if (set === undefined) throw new TypeError(`the set ${op.name} is not in the catalogue`)
    if (op.kind === 'create-set') return this.#ipset.create(set.name, set.type, op.parameters)
    await recreate(this.#ipset, set, op.parameters, { signal })
  }
}
