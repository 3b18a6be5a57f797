/**
 * Parses an EndpointSlice from unknown JSON. Absent and null conditions mean ready, serving and not
 * terminating; only the first address of an endpoint is used.
 */
import type { EndpointSlice, SliceEndpoint, SlicePort } from '../../service/objects.ts'
import { familyOf, specialAddress } from '../../values/address.ts'
import { present } from '../../values/lists.ts'
import { parseProtocol, type IpFamily } from '../../values/protocol.ts'
import { addressOf, arrayAt, booleanAt, describe, isObject, objectAt, portAt, portNameAt } from './findings.ts'
import { textAt, timestampMs } from './findings.ts'
import type { Findings, Intern, JsonObject, Origin, ParserInput } from './findings.ts'

/** LabelServiceName of discovery.k8s.io/v1. */
export const LABEL_SERVICE_NAME = 'kubernetes.io/service-name'

/** EndpointsLastChangeTriggerTime of core/v1: RFC 3339 with nanoseconds. */
export const LAST_CHANGE_TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time'

/** The conditions of an endpoint without that field. */
const NO_CONDITIONS: JsonObject = {}

/** Undefined for a slice of host names or of an unknown address type, and for one that names no Service. */
export function parseSlice({ json, metadata, findings, intern, origin }: ParserInput): EndpointSlice | undefined {
  const addressType = json['addressType']
  if (addressType !== 'IPv4' && addressType !== 'IPv6') {
    if (addressType !== 'FQDN')
      findings.add('invalid-field', 'addressType', `${describe(addressType)} is not IPv4, IPv6 or FQDN`)
    return undefined
  }
  const serviceName = metadata.labels[LABEL_SERVICE_NAME]
  if (typeof serviceName !== 'string' || serviceName === '') {
    findings.add('missing-field', `metadata.labels["${LABEL_SERVICE_NAME}"]`, 'must name the Service of this slice')
    return undefined
  }
  const ports = arrayAt(json, 'ports', '', findings)
  const endpoints = arrayAt(json, 'endpoints', '', findings)
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    serviceName,
    family: addressType,
    triggeredAtMs: triggeredAtMs(metadata.json['annotations']),
    ports: present(ports.map((item, index) => parsePort(item, index, intern, findings))),
    endpoints: present(
      endpoints.map((item, index) => parseEndpoint(item, index, addressType, intern, findings, origin)),
    ),
  }
}

/** An invalid time counts as absent, as in kube-proxy. */
function triggeredAtMs(annotations: unknown): number {
  const text = isObject(annotations) ? annotations[LAST_CHANGE_TRIGGER_TIME] : undefined
  return text === undefined ? 0 : timestampMs(text)
}

/** Undefined without a finding for a port that is null or 0: that means all ports, which a proxy cannot serve. */
function parsePort(item: unknown, index: number, intern: Intern, findings: Findings): SlicePort | undefined {
  const field = `ports[${index}]`
  if (!isObject(item)) {
    findings.add('invalid-field', field, `must be an object, not ${describe(item)}`)
    return undefined
  }
  const port = portAt(item, 'port', field, findings)
  if (port === 0) return undefined
  const protocolText = textAt(item, 'protocol', field, findings) || 'TCP'
  const protocol = parseProtocol(protocolText)
  if (protocol === undefined) {
    findings.add('unknown-protocol', `${field}.protocol`, `${describe(protocolText)} is not TCP, UDP or SCTP`)
    return undefined
  }
  const name = portNameAt(item, field, findings)
  return name === undefined ? undefined : { name: intern(name), protocol, port }
}

/** Paths of the members of an endpoint, for messages. */
interface EndpointPaths {
  readonly field: string
  readonly conditions: string
  readonly hints: string
}

/**
 * Paths by index, made once: a slice has at most 1,000 endpoints (discovery/v1 validation), a
 * cluster may have 100,000.
 */
const ENDPOINT_PATHS: EndpointPaths[] = []
const MAX_ENDPOINT_PATHS = 1000

function endpointPaths(index: number): EndpointPaths {
  const made = ENDPOINT_PATHS[index]
  if (made !== undefined) return made
  const field = `endpoints[${index}]`
  const paths = { field, conditions: `${field}.conditions`, hints: `${field}.hints` }
  if (index < MAX_ENDPOINT_PATHS) ENDPOINT_PATHS[index] = paths
  return paths
}

function parseEndpoint(
  item: unknown,
  index: number,
  family: IpFamily,
  intern: Intern,
  findings: Findings,
  origin: Origin,
): SliceEndpoint | undefined {
  const paths = endpointPaths(index)
  const { field } = paths
  if (!isObject(item)) {
    findings.add('invalid-field', field, `must be an object, not ${describe(item)}`)
    return undefined
  }
  const first = arrayAt(item, 'addresses', field, findings)[0]
  const address = addressOf(first)
  if (address === undefined) {
    findings.add('invalid-address', `${field}.addresses[0]`, `${describe(first)} is not an IP address`)
    return undefined
  }
  if (familyOf(address) !== family) {
    findings.add('wrong-family', `${field}.addresses[0]`, `${describe(first)} is not of family ${family}`)
    return undefined
  }
  // The API server refuses most of these addresses (ValidateEndpointIP, CVE-2021-25737), the kernel the others.
  const special = origin === 'manifest' ? specialAddress(address) : undefined
  if (special !== undefined) {
    findings.add('invalid-address', `${field}.addresses[0]`, `${address} is ${special} and cannot be an endpoint`)
    return undefined
  }
  const conditions = objectAt(item, 'conditions', field, findings) ?? NO_CONDITIONS
  const hints = objectAt(item, 'hints', field, findings)
  const zoneHints = hints && parseHints(hints, 'forZones', paths.hints, intern, findings)
  const nodeHints = hints && parseHints(hints, 'forNodes', paths.hints, intern, findings)
  const ready = booleanAt(conditions, 'ready', true, paths.conditions, findings)
  const serving = booleanAt(conditions, 'serving', true, paths.conditions, findings)
  const terminating = booleanAt(conditions, 'terminating', false, paths.conditions, findings)
  const nodeName = intern(textAt(item, 'nodeName', field, findings))
  const zone = intern(textAt(item, 'zone', field, findings))
  // Most endpoints have no hints, and need no copy. In a cluster without zones none has a member for it.
  const endpoint: SliceEndpoint =
    zone === ''
      ? { address, ready, serving, terminating, nodeName }
      : { address, ready, serving, terminating, nodeName, zone }
  if (zoneHints === undefined && nodeHints === undefined) return endpoint
  return {
    ...endpoint,
    ...(zoneHints === undefined ? {} : { zoneHints }),
    ...(nodeHints === undefined ? {} : { nodeHints }),
  }
}

/** Names of `hints.forZones` or `hints.forNodes` (KEP-2433, KEP-3015); undefined when there are none. */
function parseHints(
  hints: JsonObject,
  name: 'forZones' | 'forNodes',
  path: string,
  intern: Intern,
  findings: Findings,
): readonly string[] | undefined {
  const names: string[] = []
  for (const [index, item] of arrayAt(hints, name, path, findings).entries()) {
    const hint = isObject(item) ? item['name'] : undefined
    if (typeof hint === 'string' && hint !== '') names.push(intern(hint))
    else findings.add('invalid-field', `${path}.${name}[${index}].name`, `must be a name, not ${describe(hint)}`)
  }
  return names.length === 0 ? undefined : names
}
