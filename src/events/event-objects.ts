/**
 * Events of events.k8s.io/v1 as kube-proxy 1.36 writes them: what happened, as the objects and patches that say so.
 * What could break: names, reasons, actions and notes are what people and alerts look for; they are kube-proxy's to the
 * letter, and so is what is missing (the UID of the Node, an empty note).
 */

/** What an Event is about (core/v1 ObjectReference). */
export interface ObjectReference {
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly apiVersion: string
}

/** Something that people should hear of. */
export interface Happening {
  readonly regarding: ObjectReference
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly action: string
  /** '' when the reason says it all. */
  readonly note: string
}

/** How often it happened, and when last (UTC with microseconds). */
export interface Series {
  readonly count: number
  readonly lastObservedTime: string
}

/** An Event as it is sent; the order of its members is that of Kubernetes. */
export interface EventObject {
  readonly kind: 'Event'
  readonly apiVersion: 'events.k8s.io/v1'
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly eventTime: string
  readonly series?: Series
  readonly reportingController: string
  readonly reportingInstance: string
  readonly action: string
  readonly reason: string
  readonly regarding: ObjectReference
  readonly note?: string
  readonly type: 'Normal' | 'Warning'
  readonly deprecatedSource: Readonly<Record<string, never>>
  readonly deprecatedFirstTimestamp: null
  readonly deprecatedLastTimestamp: null
}

/** A request that tells the API server of an Event or of its repetition. */
export interface EventRequest {
  readonly method: 'POST' | 'PATCH'
  readonly path: string
  readonly contentType: string
  readonly body: EventObject | { readonly series: Series }
}

const CONTROLLER = 'kube-proxy'
/** The API server takes no longer ones. */
const MAX_NAME = 253
const MAX_NOTE = 1024

/** The proxy of this node starts. The Node is named without its UID, as kube-proxy does. */
export function proxyStarting(nodeName: string): Happening {
  const regarding = { kind: 'Node', name: nodeName, apiVersion: 'v1' }
  return { regarding, type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', note: '' }
}

/** The health check port of a Service cannot be opened. */
export function healthCheckFailed(
  service: { readonly namespace: string; readonly name: string },
  note: string,
): Happening {
  const { namespace, name } = service
  const regarding = { kind: 'Service', namespace, name, apiVersion: 'v1' }
  return { regarding, type: 'Warning', reason: 'FailedToStartServiceHealthcheck', action: 'Listen', note }
}

/**
 * The Event of what happened. `nanos` (nanoseconds of Unix time) makes its name unique, `hostName` is that of the machine,
 * whatever the Node is called. About what has no namespace it is written in `default`.
 */
export function eventOf(happening: Happening, hostName: string, nanos: bigint): EventObject {
  const { regarding, type, reason, action, note } = happening
  const suffix = `.${nanos.toString(16)}`
  const fits = regarding.name.length + suffix.length <= MAX_NAME
  return {
    kind: 'Event',
    apiVersion: 'events.k8s.io/v1',
    metadata: {
      name: `${fits ? regarding.name : CONTROLLER}${suffix}`,
      namespace: regarding.namespace ?? 'default',
    },
    eventTime: microTime(Number(nanos / 1_000_000n)),
    reportingController: CONTROLLER,
    reportingInstance: `${CONTROLLER}-${hostName}`,
    action,
    reason,
    regarding,
    ...(note === '' ? {} : { note: note.slice(0, MAX_NOTE) }),
    type,
    deprecatedSource: {},
    deprecatedFirstTimestamp: null,
    deprecatedLastTimestamp: null,
  }
}

/** Writes an Event anew, with the series it has by now. */
export function createRequest(event: EventObject, series: Series | undefined): EventRequest {
  const { kind, apiVersion, metadata, eventTime, ...rest } = event
  const body = series === undefined ? event : { kind, apiVersion, metadata, eventTime, series, ...rest }
  return { method: 'POST', path: pathOf(event), contentType: 'application/json', body }
}

/** Says of an Event that is there how often it happened by now. */
export function repeatRequest(event: EventObject, series: Series): EventRequest {
  const path = `${pathOf(event)}/${encodeURIComponent(event.metadata.name)}`
  return { method: 'PATCH', path, contentType: 'application/strategic-merge-patch+json', body: { series } }
}

/** metav1.MicroTime of a time in milliseconds of Unix time: `2026-01-02T03:04:05.678000Z`. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace(/Z$/, '000Z')
}

function pathOf({ metadata }: EventObject): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(metadata.namespace)}/events`
}
