/**
 * Events of a watch to the changes they mean.
 * What could break: what comes before an error in the same piece of the stream still counts, what comes after it does not.
 */
import type { ObjectChange } from '../../service/objects.ts'
import { ApiError, statusError } from '../api/api-error.ts'
import { isObject, type JsonObject } from '../objects/findings.ts'
import { INITIAL_EVENTS_END } from '../objects/metadata.ts'
import type { ObjectStore } from './object-store.ts'

/** What some events of a watch come to. */
export interface WatchOutcome {
  readonly changes: readonly ObjectChange[]
  /** resourceVersion of the last object or bookmark; '' when there was none. */
  readonly version: string
  /** The bookmark that ends a streaming list was among them. */
  readonly complete: boolean
  /** The ERROR event that ended them, or an event that is none. */
  readonly failure: ApiError | undefined
}

/** Takes events (metav1 WatchEvent, as its JSON parses) into the store, in order. Never throws. */
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
        const failure = new ApiError('api-bad-response', 'a watch event of no known type')
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
