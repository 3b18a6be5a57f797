/**
 * Events of events.k8s.io/v1 as kube-proxy 1.37 writes them: the objects, and the requests that
 * create and repeat them. Names, reasons, actions and notes are exactly kube-proxy's, because
 * operators and alerts search for them; so are the missing fields (the UID of the Node, an empty
 * note).
 */
import type { Problem } from '../values/errors.ts'
import { ownMember } from '../values/own-member.ts'

/** The object that an Event is about (core/v1 ObjectReference). */
export interface ObjectReference {
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly apiVersion: string
}

/** An occurrence to report as an Event. */
export interface Occurrence {
  readonly regarding: ObjectReference
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly action: string
  /** '' when the reason is enough. */
  readonly note: string
}

/** How often an Event occurred, and when last (UTC with microseconds). */
export interface Series {
  readonly count: number
  readonly lastObservedTime: string
}

/** An Event as it is sent, with its members in Kubernetes' order. */
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

/** A request that creates an Event or updates its series. */
export interface EventRequest {
  readonly method: 'POST' | 'PATCH'
  readonly path: string
  readonly contentType: string
  readonly body: EventObject | { readonly series: Series }
}

const CONTROLLER = 'kube-proxy'
/** Longest name that the API server accepts. */
const MAX_NAME = 253
/** Longest note that the API server accepts, in bytes of UTF-8. */
const MAX_NOTE = 1024

/** The proxy of this node starts. The reference to the Node has no UID, as in kube-proxy. */
export function proxyStarting(nodeName: string): Occurrence {
  const regarding = { kind: 'Node', name: nodeName, apiVersion: 'v1' }
  return { regarding, type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', note: '' }
}

/** The proxy of this node runs in iptables mode because nobody has chosen a mode. */
export function modeIsDefault(nodeName: string, note: string): Occurrence {
  const regarding = { kind: 'Node', name: nodeName, apiVersion: 'v1' }
  return { regarding, type: 'Warning', reason: 'KubeProxyDefaultMode', action: 'StartKubeProxy', note }
}

/**
 * The proxy of this node runs in iptables mode because the kernel cannot do ipvs mode. kube-proxy
 * has no such Event.
 */
export function fellBack(nodeName: string, note: string): Occurrence {
  const regarding = { kind: 'Node', name: nodeName, apiVersion: 'v1' }
  return { regarding, type: 'Warning', reason: 'FallbackToIptables', action: 'StartKubeProxy', note }
}

/** Another program keeps changing what the proxy of this node writes. kube-proxy has no such Event. */
export function rivalWrites(nodeName: string, note: string): Occurrence {
  const regarding = { kind: 'Node', name: nodeName, apiVersion: 'v1' }
  return { regarding, type: 'Warning', reason: 'AnotherProxyWrites', action: 'Repair', note }
}

/** The proxy of this node runs in ipvs mode again, after a fallback. kube-proxy has no such Event. */
export function returnedToIpvs(nodeName: string, note: string): Occurrence {
  const regarding = { kind: 'Node', name: nodeName, apiVersion: 'v1' }
  return { regarding, type: 'Normal', reason: 'ReturnedToIpvs', action: 'StartKubeProxy', note }
}

/** The health check port of a Service cannot be opened. */
export function healthCheckFailed(
  service: { readonly namespace: string; readonly name: string },
  note: string,
): Occurrence {
  const { namespace, name } = service
  const regarding = { kind: 'Service', namespace, name, apiVersion: 'v1' }
  return { regarding, type: 'Warning', reason: 'FailedToStartServiceHealthcheck', action: 'Listen', note }
}

/** A node port of a Service cannot be opened at a loopback address of a node. kube-proxy has no such Event. */
export function localhostNodePortFailed(
  service: { readonly namespace: string; readonly name: string },
  note: string,
): Occurrence {
  const { namespace, name } = service
  const regarding = { kind: 'Service', namespace, name, apiVersion: 'v1' }
  return { regarding, type: 'Warning', reason: 'FailedToListenAtLocalhost', action: 'Listen', note }
}

/** The codes of problems that are Events of their Service. */
const SERVICE_PROBLEMS: Readonly<Record<string, { readonly reason: string; readonly action: string }>> = {
  'invalid-annotation': { reason: 'InvalidAnnotation', action: 'ReadAnnotations' },
  'scheduler-missing': { reason: 'SchedulerMissing', action: 'ReadAnnotations' },
  'no-room': { reason: 'NoRoom', action: 'ShareRoom' },
}

/**
 * An annotation of a Service has no effect, or the Service is not served completely; undefined: the
 * problem is about something else, or about what only one node sees. kube-proxy has no such Event.
 */
export function problemOfService({ code, subject, field = '', message }: Problem): Occurrence | undefined {
  const known = ownMember(SERVICE_PROBLEMS, code)
  const [, namespace, name] = /^service ([^/]+)\/(.+)$/.exec(subject) ?? []
  if (known === undefined || namespace === undefined || name === undefined) return undefined
  const regarding = { kind: 'Service', namespace, name, apiVersion: 'v1' }
  return { regarding, type: 'Warning', ...known, note: `${field}: ${message}` }
}

/** The Events of decisions about endpoints. */
export function judgedEndpoints(
  nodeName: string,
  decisions: readonly Parameters<typeof judgedEndpoint>[1][],
): readonly Occurrence[] {
  return decisions.flatMap((decision) => judgedEndpoint(nodeName, decision) ?? [])
}

/**
 * An endpoint does not answer and gets no new connections from a node, or answers again; undefined
 * for a trial. kube-proxy has no such Event. The note says nothing that differs from one time to the
 * next, so that a series repeats it.
 */
export function judgedEndpoint(
  nodeName: string,
  { kind, owner, realServer }: { readonly kind: string; readonly owner: string; readonly realServer: string },
): Occurrence | undefined {
  const [namespace = '', name = ''] = owner.split('/')
  const regarding = { kind: 'Service', namespace, name, apiVersion: 'v1' }
  const action = 'JudgeEndpoints'
  if (kind === 'suspected') {
    const note = `endpoint ${realServer} returns no packet to node ${nodeName} and gets no new connections from it until it answers`
    return { regarding, type: 'Warning', reason: 'EndpointDoesNotAnswer', action, note }
  }
  if (kind !== 'answered') return undefined
  const note = `endpoint ${realServer} answers node ${nodeName} again and gets new connections from it`
  return { regarding, type: 'Normal', reason: 'EndpointAnswers', action, note }
}

/**
 * The Event of an occurrence. An Event about an object without a namespace is in `default`.
 * @param hostName name of the machine, which may differ from that of the Node
 * @param nanos nanoseconds of Unix time, which make the name of the Event unique
 */
export function eventOf(occurrence: Occurrence, hostName: string, nanos: bigint): EventObject {
  const { regarding, type, reason, action, note } = occurrence
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
    ...(note === '' ? {} : { note: cut(note) }),
    type,
    deprecatedSource: {},
    deprecatedFirstTimestamp: null,
    deprecatedLastTimestamp: null,
  }
}

/** Creates an Event, with its series if it has occurred more than once. */
export function createRequest(event: EventObject, series: Series | undefined): EventRequest {
  const { kind, apiVersion, metadata, eventTime, ...rest } = event
  const body = series === undefined ? event : { kind, apiVersion, metadata, eventTime, series, ...rest }
  return { method: 'POST', path: pathOf(event), contentType: 'application/json', body }
}

/** Updates the series of an existing Event. */
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

/** As much of a note as the API server accepts, with whole characters. */
function cut(note: string): string {
  return note.slice(0, new TextEncoder().encodeInto(note, new Uint8Array(MAX_NOTE)).read)
}
