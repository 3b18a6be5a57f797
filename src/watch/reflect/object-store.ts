/**
 * What a reflector has delivered: a version for each key, so that a relist arrives as the changes it amounts to.
 * What could break: nothing but keys and versions may be kept here; the objects themselves belong to the sink.
 */
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import type { Problem } from '../../values/errors.ts'
import { createIntern } from '../objects/intern.ts'
import { parseMetadata, type ResourceVersion, subjectOf } from '../objects/metadata.ts'
import { parseObject, removal } from '../objects/object-parser.ts'
import type { ObjectSink } from '../source.ts'

export class ObjectStore {
  readonly #kind: ObjectKind
  readonly #sink: Pick<ObjectSink, 'problems'>
  readonly #intern = createIntern()
  readonly #versions = new Map<string, ResourceVersion>()
  /** Known objects that are none we proxy; few. */
  readonly #withoutValue = new Set<string>()
  /** Known objects with problems; few. */
  readonly #troubled = new Set<string>()
  /** Keys of the list that is on; undefined outside of one. */
  #listed: Set<string> | undefined

  constructor(kind: ObjectKind, sink: Pick<ObjectSink, 'problems'>) {
    this.#kind = kind
    this.#sink = sink
  }

  /** A list starts: what it does not bring is gone when it ends. A list that broke off is forgotten. */
  beginList(): void {
    this.#listed = new Set()
  }

  /** The list is complete: removals of what it did not bring. */
  endList(): ObjectChange[] {
    const listed = this.#listed
    this.#listed = undefined
    if (listed === undefined || listed.size === this.#versions.size) return []
    const gone = [...this.#versions.keys()].filter((key) => !listed.has(key))
    return gone.map((key) => this.#forget(key)).filter((change) => change !== undefined)
  }

  /** An object as it is now: the change it means, undefined when it means none. */
  put(json: unknown): ObjectChange | undefined {
    const metadata = parseMetadata(this.#kind, json, this.#intern)
    if (metadata === undefined) return this.#nameless()
    const { key, resourceVersion } = metadata
    this.#listed?.add(key)
    const known = this.#versions.get(key)
    if (known === resourceVersion && known !== '') return undefined
    const { change, problems } = parseObject(this.#kind, json, metadata, this.#intern)
    const wasProxied = known !== undefined && !this.#withoutValue.has(key)
    this.#versions.set(key, resourceVersion)
    this.#report(key, problems)
    if (change.value === undefined) this.#withoutValue.add(key)
    else this.#withoutValue.delete(key)
    return change.value !== undefined || wasProxied ? change : undefined
  }

  /** An object is gone: the change it means, undefined when we never delivered it. */
  remove(json: unknown): ObjectChange | undefined {
    const metadata = parseMetadata(this.#kind, json, this.#intern)
    if (metadata === undefined) return this.#nameless()
    this.#listed?.delete(metadata.key)
    return this.#forget(metadata.key)
  }

  #forget(key: string): ObjectChange | undefined {
    const known = this.#versions.delete(key)
    this.#report(key, [])
    const wasProxied = known && !this.#withoutValue.delete(key)
    return wasProxied ? removal(this.#kind, key) : undefined
  }

  #report(key: string, problems: readonly Problem[]): void {
    if (problems.length > 0) this.#troubled.add(key)
    else if (!this.#troubled.delete(key)) return
    this.#sink.problems(subjectOf(this.#kind, key), problems)
  }

  #nameless(): undefined {
    const subject = subjectOf(this.#kind, '(no name)')
    const problem = { code: 'missing-field', subject, field: 'metadata.name', message: 'must name the object' }
    this.#sink.problems(subject, [problem])
    return undefined
  }
}
