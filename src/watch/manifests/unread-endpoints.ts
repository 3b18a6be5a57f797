/**
 * Objects of a manifest that have endpoints of a Service and are not read. In a cluster the control
 * plane makes EndpointSlices of them; in a folder nobody does, so the Service would refuse every
 * connection without a word.
 */
import type { Problem } from '../../values/errors.ts'
import type { Intern, JsonObject } from '../objects/findings.ts'
import { parseMetadata } from '../objects/object-parser.ts'
import { LABEL_SERVICE_NAME } from '../objects/slice-parser.ts'
import { ownMember } from '../../values/own-member.ts'

/** One such object. */
export interface UnreadEndpoints {
  /** `discovery.k8s.io/v1beta1 EndpointSlice`, or `Endpoints`. */
  readonly kind: string
  /** `demo/web` */
  readonly service: string
  /** Line of the file where the object starts, from 1. */
  readonly line: number
}

const V1BETA1 = 'discovery.k8s.io/v1beta1 EndpointSlice'

/** The name of the kind in a problem, by apiVersion and kind. */
const UNREAD: Readonly<Record<string, string>> = { 'v1 Endpoints': 'Endpoints', [V1BETA1]: V1BETA1 }

/** Lists of such objects, with the kind of items that do not name one. */
export const UNREAD_LISTS: Readonly<Record<string, string>> = {
  'v1 EndpointsList': 'v1 Endpoints',
  'discovery.k8s.io/v1beta1 EndpointSliceList': V1BETA1,
}

/** The Service whose endpoints an object has; undefined for every other kind. @param type `v1 Endpoints` */
export function unreadEndpoints(
  type: string,
  json: JsonObject,
  intern: Intern,
): Omit<UnreadEndpoints, 'line'> | undefined {
  const kind = ownMember(UNREAD, type)
  const metadata = kind === undefined ? undefined : parseMetadata('endpointslices', json, intern)
  if (kind === undefined || metadata === undefined) return undefined
  const name = type === V1BETA1 ? metadata.labels[LABEL_SERVICE_NAME] : metadata.name
  return typeof name === 'string' ? { kind, service: `${metadata.namespace}/${name}` } : undefined
}

/**
 * One problem for a file in which Services have nothing but such objects; none when their
 * EndpointSlices are somewhere in the folder too, as in a copy of a cluster.
 * @param hasOnly whether a Service is in the folder, and no EndpointSlice of it
 */
export function problemOfUnread(
  file: string,
  unread: readonly UnreadEndpoints[],
  hasOnly: (service: string) => boolean,
): Problem | undefined {
  const affected = unread.filter(({ service }) => hasOnly(service))
  const [first] = affected
  if (first === undefined) return undefined
  const { kind, service, line } = first
  const name = service.slice(service.indexOf('/') + 1)
  const more = affected.length === 1 ? '' : `; the same for ${affected.length - 1} more`
  return {
    code: 'unread-kind',
    about: 'object',
    subject: `${file}:${line}`,
    message:
      `kind ${kind} is not read, so the Service ${service} has no endpoints: write an EndpointSlice (discovery.k8s.io/v1) ` +
      `with the label ${LABEL_SERVICE_NAME}: ${name}${more}`,
  }
}
