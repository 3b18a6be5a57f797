/**
 * Turns listed objects and watch events into changes for the sink. It remembers only the key and
 * version of each object, so that a relist becomes the difference to the objects before; the
 * objects themselves belong to the sink.
 */
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import type { Problem } from '../../values/errors.ts'
import { ApiError, statusError } from '../api/api-error.ts'
import { createIntern, isObject, type JsonObject, type ResourceVersion } from '../objects/findings.ts'
import { INITIAL_EVENTS_END, parseMetadata, parseObject, removal, subjectOf } from '../objects/object-parser.ts'
import type { ObjectSink } from '../source.ts'

export class ObjectStore {
  readonly #kind: ObjectKind
  readonly #sink: Pick<ObjectSink, 'problems'>
  readonly #labels: ReadonlySet<string> | undefined
  readonly #intern = createIntern()
  readonly #versions = new Map<string, ResourceVersion>()
  /** Keys of known objects that this proxy does not serve; few. */
  readonly #withoutValue = new Set<string>()
  /** Keys of known objects with problems; few. */
  readonly #troubled = new Set<string>()
  /**
   * Keys in the list that is being read; undefined outside of a list, and in the first one, after
   * which nothing can be missing.
   */
  #listed: Set<string> | undefined

  /** @param labels those of Nodes that are kept; absent: none */
  constructor(kind: ObjectKind, sink: Pick<ObjectSink, 'problems'>, labels?: ReadonlySet<string>) {
    this.#kind = kind
    this.#sink = sink
    this.#labels = labels
  }

  /** Starts a list and discards one that is incomplete. */
  beginList(): void {
    this.#listed = this.#versions.size === 0 ? undefined : new Set()
  }

  /** Ends the list. Returns the removals of all known objects that it did not contain. */
  endList(): ObjectChange[] {
    const listed = this.#listed
    this.#listed = undefined
    if (listed === undefined || listed.size === this.#versions.size) return []
    const missing = [...this.#versions.keys()].filter((key) => !listed.has(key))
    return missing.map((key) => this.#forget(key)).filter((change) => change !== undefined)
  }

  /** Takes the present state of an object. Returns the change for the sink; undefined without one. */
  put(json: unknown): ObjectChange | undefined {
    const metadata = parseMetadata(this.#kind, json, this.#intern)
    if (metadata === undefined) return this.#reportNameless()
    const { key, resourceVersion } = metadata
    this.#listed?.add(key)
    const known = this.#versions.get(key)
    if (known === resourceVersion && known !== '') return undefined
    const { change, problems } = parseObject(this.#kind, json, metadata, this.#intern, 'api', this.#labels)
    const wasProxied = known !== undefined && !this.#withoutValue.has(key)
    this.#versions.set(key, resourceVersion)
    this.#report(key, problems)
    if (change.value === undefined) this.#withoutValue.add(key)
    else this.#withoutValue.delete(key)
    return change.value !== undefined || wasProxied ? change : undefined
  }

  /** Removes an object. Returns the change for the sink; undefined when the object was never delivered. */
  remove(json: unknown): ObjectChange | undefined {
    const metadata = parseMetadata(this.#kind, json, this.#intern)
    if (metadata === undefined) return this.#reportNameless()
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

  #reportNameless(): undefined {
    const subject = subjectOf(this.#kind, '(no name)')
    const problem: Problem = {
      code: 'missing-field',
      about: 'object',
      subject,
      field: 'metadata.name',
      message: 'must name the object',
    }
    this.#sink.problems(subject, [problem])
    return undefined
  }
}

/** The result of some events of a watch. */
export interface WatchOutcome {
  readonly changes: readonly ObjectChange[]
  /** resourceVersion of the last object or bookmark; '' for none. */
  readonly version: string
  /** The bookmark that ends a streaming list was among them. */
  readonly complete: boolean
  /** The error of an ERROR event or of an unknown one, which ends the watch. */
  readonly failure: ApiError | undefined
}

/**
 * Takes events (metav1 WatchEvent, in the form that their JSON has) into the store, in order.
 * Events before an error still count, later ones do not. Never throws.
 */
export function applyEvents(events: readonly unknown[], store: ObjectStore): WatchOutcome {
  const changes: ObjectChange[] = []
  let version = ''
  let complete = false
  for (const event of events) {
    const { type, object } = isObject(event) ? event : {}
    let change: ObjectChange | undefined
    switch (type) {
      case 'ADDED':
      case 'MODIFIED':
        change = store.put(object)
        break
      case 'DELETED':
        change = store.remove(object)
        break
      case 'BOOKMARK':
        complete ||= endsInitialEvents(metadataOf(object))
        break
      case 'ERROR':
        return { changes, version, complete, failure: statusError(object, { inStream: true }) }
      default: {
        const failure = new ApiError('api-bad-response', 'a watch event of unknown type')
        return { changes, version, complete, failure }
      }
    }
    if (change !== undefined) changes.push(change)
    const { resourceVersion } = metadataOf(object)
    if (typeof resourceVersion === 'string' && resourceVersion !== '') version = resourceVersion
  }
  return { changes, version, complete, failure: undefined }
}

const NO_METADATA: JsonObject = {}

function metadataOf(object: unknown): JsonObject {
  const metadata = isObject(object) ? object['metadata'] : undefined
  return isObject(metadata) ? metadata : NO_METADATA
}

function endsInitialEvents(metadata: JsonObject): boolean {
  const annotations = metadata['annotations']
  return isObject(annotations) && annotations[INITIAL_EVENTS_END] === 'true'
}
