/**
 * Parses a Service from unknown JSON. A wrong field is left out and reported; the Service is
 * dropped only when nothing usable is left. The value must not reference the JSON, which is large.
 */
import { annotationField, annotationsText, longestValue } from '../../service/annotations.ts'
import type { Service, ServicePortSpec, TrafficPolicy } from '../../service/objects.ts'
import { familyOf } from '../../values/address.ts'
import { formatCidr, parseCidr } from '../../values/cidr.ts'
import { parseProtocol, type IpFamily } from '../../values/protocol.ts'
import { firstNames } from '../../values/lists.ts'
import { SERVICE_ANNOTATION } from '../../values/well-known.ts'
import {
  addressOf,
  arrayAt,
  describe,
  isObject,
  MAX_ITEMS,
  objectAt,
  portAt,
  portNameAt,
  shortArrayAt,
  textAt,
  timestampMs,
} from './findings.ts'
import type { Findings, Intern, JsonObject, ParserInput } from './findings.ts'

/** Default of ClientIPConfig.timeoutSeconds (core/v1 DefaultClientIPServiceAffinitySeconds): three hours. */
const DEFAULT_AFFINITY_SECONDS = 10_800
/** Longest timeout that API validation allows (MaxClientIPServiceAffinitySeconds): a day. */
const MAX_AFFINITY_SECONDS = 86_400

const SOURCE_RANGES = 'spec.loadBalancerSourceRanges'
/** Addresses that a message lists. */
const MAX_NAMED = 10

/** One empty list for all Services, because an empty array takes 16 bytes. */
const NONE: readonly string[] = []

/** Undefined for a Service without a cluster IP (headless, ExternalName, none assigned) or without a usable port. */
export function parseService({ json, metadata, findings, intern, origin }: ParserInput): Service | undefined {
  const spec = objectAt(json, 'spec', '', findings)
  if (spec === undefined || spec['type'] === 'ExternalName') return undefined
  const clusterIps = parseClusterIps(spec, findings)
  if (clusterIps === undefined) return undefined
  const ports = parsePorts(spec, intern, findings)
  if (ports.length === 0) return undefined
  const type = textAt(spec, 'type', 'spec', findings)
  const rawExternalIps = shortArrayAt(spec, 'externalIPs', 'spec', findings)
  const external = parsePolicy(spec, 'externalTrafficPolicy', findings)
  const hasExternalPolicy =
    type === 'LoadBalancer' ||
    type === 'NodePort' ||
    ((type === 'ClusterIP' || type === '') && rawExternalIps.length > 0)
  const externalTrafficPolicy = hasExternalPolicy ? external : 'Cluster'
  const { ranges: sourceRanges, areRead, areTooMany } = parseSourceRanges(spec, findings)
  // Without its ranges a VIP would be open to everyone.
  const vips = areTooMany === true ? NONE : parseVips(json, findings)
  const healthCheckNodePort = portAt(spec, 'healthCheckNodePort', 'spec', findings)
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    createdAtMs: timestampMs(metadata.json['creationTimestamp']),
    clusterIps,
    ports,
    externalIps: parseAddresses(rawExternalIps, 'spec.externalIPs', findings),
    loadBalancerVips: origin === 'api' || areRead ? vips : guardedVips(vips, sourceRanges, findings),
    sourceRanges,
    internalTrafficPolicy: parsePolicy(spec, 'internalTrafficPolicy', findings),
    externalTrafficPolicy,
    affinityTimeoutSeconds: parseAffinity(spec, findings),
    annotations: parseAnnotations(metadata.json, intern, findings),
    healthCheckNodePort: type === 'LoadBalancer' && externalTrafficPolicy === 'Local' ? healthCheckNodePort : 0,
  }
}

/** The first cluster IP of each family. Undefined for `None`, for an empty field, and when no address is valid. */
function parseClusterIps(spec: JsonObject, findings: Findings): Service['clusterIps'] | undefined {
  const { clusterIP } = spec
  const several = arrayAt(spec, 'clusterIPs', 'spec', findings)
  if (clusterIP === 'None' || several[0] === 'None') return undefined
  const byFamily: { [family in IpFamily]?: string } = {}
  const take = (value: unknown, field: string): void => {
    if (value === undefined || value === null || value === '') return
    const address = addressOf(value)
    if (address === undefined) findings.add('invalid-address', field, `${describe(value)} is not an IP address`)
    else byFamily[familyOf(address)] ??= address
  }
  if (several.length === 0) take(clusterIP, 'spec.clusterIP')
  else for (const [index, value] of several.entries()) take(value, `spec.clusterIPs[${index}]`)
  return byFamily.IPv4 === undefined && byFamily.IPv6 === undefined ? undefined : byFamily
}

function parsePorts(spec: JsonObject, intern: Intern, findings: Findings): readonly ServicePortSpec[] {
  const ports: ServicePortSpec[] = []
  const names = new Set<string>()
  const numbers = new Set<string>()
  const items = shortArrayAt(spec, 'ports', 'spec', findings)
  if (items.length === 0) findings.add('missing-field', 'spec.ports', 'must hold at least one port')
  for (const [index, item] of items.entries()) {
    const field = `spec.ports[${index}]`
    const port = parsePort(item, field, intern, findings)
    if (port === undefined) continue
    const number = `${port.port}/${port.protocol}`
    if (names.has(port.name) || numbers.has(number)) {
      const what = names.has(port.name) ? `name ${describe(port.name)}` : number
      findings.add('duplicate-port', field, `an earlier port of this Service has ${what} already`)
      continue
    }
    names.add(port.name)
    numbers.add(number)
    ports.push(port)
  }
  // A copy has no room for more (see `present`).
  return ports.slice()
}

function parsePort(item: unknown, field: string, intern: Intern, findings: Findings): ServicePortSpec | undefined {
  if (!isObject(item)) {
    findings.add('invalid-field', field, `must be an object, not ${describe(item)}`)
    return undefined
  }
  const protocolText = textAt(item, 'protocol', field, findings) || 'TCP'
  const protocol = parseProtocol(protocolText)
  if (protocol === undefined) {
    findings.add('unknown-protocol', `${field}.protocol`, `${describe(protocolText)} is not TCP, UDP or SCTP`)
    return undefined
  }
  const known = findings.problems.length
  const port = portAt(item, 'port', field, findings)
  if (port === 0) {
    if (findings.problems.length === known)
      findings.add('invalid-port', `${field}.port`, `must be a number from 1 to 65535, not ${describe(item['port'])}`)
    return undefined
  }
  const name = portNameAt(item, field, findings)
  if (name === undefined) return undefined
  return { name: intern(name), protocol, port, nodePort: portAt(item, 'nodePort', field, findings) }
}

/** The valid addresses in order, each once. Empty texts are dropped without a finding, as in kube-proxy. */
function parseAddresses(items: readonly unknown[], path: string, findings: Findings): readonly string[] {
  if (items.length === 0) return NONE
  const addresses = new Set<string>()
  for (const [index, item] of items.entries()) {
    if (item === '' || item === null) continue
    const address = addressOf(item)
    if (address === undefined)
      findings.add('invalid-address', `${path}[${index}]`, `${describe(item)} is not an IP address`)
    else addresses.add(address)
  }
  return addresses.size === 0 ? NONE : [...addresses]
}

/** Load balancer VIPs (KEP-1860): ingress points with an address and `ipMode` VIP, which is the default. */
function parseVips(json: JsonObject, findings: Findings): readonly string[] {
  const path = 'status.loadBalancer.ingress'
  const status = objectAt(json, 'status', '', findings)
  const balancer = status && objectAt(status, 'loadBalancer', 'status', findings)
  const items = balancer === undefined ? [] : shortArrayAt(balancer, 'ingress', 'status.loadBalancer', findings)
  if (items.length === 0) return NONE
  const vips = new Set<string>()
  for (const [index, item] of items.entries()) {
    if (!isObject(item)) {
      findings.add('invalid-field', `${path}[${index}]`, `must be an object, not ${describe(item)}`)
      continue
    }
    const mode = item['ipMode'] ?? 'VIP'
    if (mode === 'Proxy' || (item['ip'] ?? '') === '') continue
    const address = addressOf(item['ip'])
    if (mode !== 'VIP')
      findings.add('invalid-field', `${path}[${index}].ipMode`, `${describe(mode)} is not VIP or Proxy`)
    else if (address === undefined)
      findings.add('invalid-address', `${path}[${index}].ip`, `${describe(item['ip'])} is not an IP address`)
    else vips.add(address)
  }
  return vips.size === 0 ? NONE : [...vips]
}

interface SourceRanges {
  readonly ranges: readonly string[]
  /** No range of the Service was invalid. */
  readonly areRead: boolean
  /** There are more than MAX_ITEMS, so that none was read. */
  readonly areTooMany?: boolean
}

const NO_RANGES: SourceRanges = { ranges: NONE, areRead: true }

function parseSourceRanges(spec: JsonObject, findings: Findings): SourceRanges {
  const items = arrayAt(spec, 'loadBalancerSourceRanges', 'spec', findings)
  if (items.length === 0) {
    const given = spec['loadBalancerSourceRanges'] ?? items
    return Array.isArray(given) ? NO_RANGES : { ranges: NONE, areRead: false }
  }
  if (items.length > MAX_ITEMS) {
    const message = `has ${items.length} items, more than ${MAX_ITEMS}: load-balancer addresses are left out`
    findings.add('too-many-items', SOURCE_RANGES, message)
    return { ranges: NONE, areRead: false, areTooMany: true }
  }
  const ranges = new Set<string>()
  let areRead = true
  for (const [index, item] of items.entries()) {
    const range = typeof item === 'string' ? parseCidr(item.trim()) : undefined
    if (range !== undefined) ranges.add(formatCidr(range))
    else {
      areRead = false
      findings.add('invalid-range', `${SOURCE_RANGES}[${index}]`, `${describe(item)} is not a CIDR`)
    }
  }
  return { ranges: ranges.size === 0 ? NONE : [...ranges], areRead }
}

/**
 * The VIPs that a valid range of their family restricts, for a manifest with an invalid range.
 * kube-proxy ignores such a range, because the API server refuses it; in a manifest a typing error
 * must not open a VIP to everyone.
 */
function guardedVips(vips: readonly string[], ranges: readonly string[], findings: Findings): readonly string[] {
  const families = new Set(ranges.map(familyOf))
  const guarded = vips.filter((vip) => families.has(familyOf(vip)))
  if (guarded.length === vips.length) return vips
  const open = vips.filter((vip) => !families.has(familyOf(vip)))
  const message = `leave no range for ${firstNames(open, MAX_NAMED)}: left out, because everyone could connect`
  findings.add('invalid-range', SOURCE_RANGES, message)
  return guarded
}

function parsePolicy(
  spec: JsonObject,
  name: 'internalTrafficPolicy' | 'externalTrafficPolicy',
  findings: Findings,
): TrafficPolicy {
  const policy = spec[name]
  if (policy === 'Local') return 'Local'
  if (policy !== undefined && policy !== null && policy !== '' && policy !== 'Cluster')
    findings.add('invalid-field', `spec.${name}`, `${describe(policy)} is not Cluster or Local`)
  return 'Cluster'
}

function parseAffinity(spec: JsonObject, findings: Findings): number {
  const affinity = spec['sessionAffinity'] ?? 'None'
  if (affinity !== 'ClientIP') {
    if (affinity !== 'None' && affinity !== '')
      findings.add('invalid-field', 'spec.sessionAffinity', `${describe(affinity)} is not None or ClientIP`)
    return 0
  }
  const path = 'spec.sessionAffinityConfig'
  const config = objectAt(spec, 'sessionAffinityConfig', 'spec', findings)
  const clientIp = config && objectAt(config, 'clientIP', path, findings)
  const seconds = clientIp?.['timeoutSeconds'] ?? DEFAULT_AFFINITY_SECONDS
  if (typeof seconds === 'number' && Number.isInteger(seconds) && seconds > 0 && seconds <= MAX_AFFINITY_SECONDS)
    return seconds
  const field = `${path}.clientIP.timeoutSeconds`
  findings.add('invalid-field', field, `must be a number from 1 to ${MAX_AFFINITY_SECONDS}, not ${describe(seconds)}`)
  return DEFAULT_AFFINITY_SECONDS
}

/** Each value is cut at one character more than is allowed, so that it stays too long. */
function parseAnnotations(metadata: JsonObject, intern: Intern, findings: Findings): string {
  const annotations = metadata['annotations']
  if (!isObject(annotations)) return ''
  let found: Map<string, string> | undefined
  for (const name of Object.values(SERVICE_ANNOTATION)) {
    if (!Object.hasOwn(annotations, name)) continue
    const value = annotations[name]
    if (typeof value === 'string') {
      found ??= new Map()
      found.set(name, value.slice(0, longestValue(name) + 1))
    } else findings.add('invalid-field', annotationField(name), `must be text, not ${describe(value)}`)
  }
  return found === undefined ? '' : intern(annotationsText(found))
}
