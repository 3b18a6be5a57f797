/** Parses the Node of this proxy from unknown JSON. */
import type { Node } from '../../service/objects.ts'
import { formatCidr, parseCidr } from '../../values/cidr.ts'
import { addressOf, arrayAt, describe, isObject, objectAt, textAt } from './findings.ts'
import type { Findings, Intern, JsonObject, ParserInput } from './findings.ts'

/** LabelTopologyZone of core/v1. */
export const LABEL_ZONE = 'topology.kubernetes.io/zone'

export function parseNode({ json, metadata, findings, intern, origin, labels }: ParserInput): Node {
  const spec = objectAt(json, 'spec', '', findings) ?? {}
  const status = objectAt(json, 'status', '', findings) ?? {}
  const zone = metadata.labels[LABEL_ZONE]
  const deletedAt = metadata.json['deletionTimestamp']
  const kept = origin === 'manifest' || labels !== undefined ? parseLabels(metadata.labels, labels, intern) : undefined
  return {
    name: metadata.name,
    zone: typeof zone === 'string' ? zone : '',
    addresses: parseAddresses(status, findings),
    podCidrs: parsePodCidrs(spec, findings),
    taintKeys: parseTaints(spec, findings),
    deleting: deletedAt !== undefined && deletedAt !== null,
    ...(kept && { labels: kept }),
  }
}

/** The labels with these names, or all; undefined for none. */
function parseLabels(
  labels: JsonObject,
  names: ReadonlySet<string> | undefined,
  intern: Intern,
): Readonly<Record<string, string>> | undefined {
  const kept: [string, string][] = []
  for (const name of names ?? Object.keys(labels)) {
    const value = Object.hasOwn(labels, name) ? labels[name] : undefined
    if (typeof value === 'string') kept.push([intern(name), intern(value)])
  }
  return kept.length === 0 ? undefined : Object.fromEntries(kept)
}

/** InternalIP addresses, then ExternalIP ones, in any order of the object, each once. Other types are ignored. */
function parseAddresses(status: JsonObject, findings: Findings): readonly string[] {
  const internal: string[] = []
  const external: string[] = []
  for (const [index, item] of arrayAt(status, 'addresses', 'status', findings).entries()) {
    const field = `status.addresses[${index}]`
    if (!isObject(item)) {
      findings.add('invalid-field', field, `must be an object, not ${describe(item)}`)
      continue
    }
    const list = item['type'] === 'InternalIP' ? internal : item['type'] === 'ExternalIP' ? external : undefined
    if (list === undefined) continue
    const address = addressOf(item['address'])
    if (address === undefined)
      findings.add('invalid-address', `${field}.address`, `${describe(item['address'])} is not an IP address`)
    else list.push(address)
  }
  return [...new Set([...internal, ...external])]
}

function parsePodCidrs(spec: JsonObject, findings: Findings): readonly string[] {
  const several = arrayAt(spec, 'podCIDRs', 'spec', findings)
  const items = several.length > 0 ? several : [spec['podCIDR']]
  const cidrs: string[] = []
  for (const [index, item] of items.entries()) {
    if (item === undefined || item === null || item === '') continue
    const cidr = typeof item === 'string' ? parseCidr(item) : undefined
    const field = several.length > 0 ? `spec.podCIDRs[${index}]` : 'spec.podCIDR'
    if (cidr === undefined) findings.add('invalid-range', field, `${describe(item)} is not a CIDR`)
    else cidrs.push(formatCidr(cidr))
  }
  return cidrs
}

function parseTaints(spec: JsonObject, findings: Findings): readonly string[] {
  const keys: string[] = []
  for (const [index, item] of arrayAt(spec, 'taints', 'spec', findings).entries()) {
    const key = isObject(item) ? textAt(item, 'key', `spec.taints[${index}]`, findings) : ''
    if (key !== '') keys.push(key)
  }
  return keys
}
