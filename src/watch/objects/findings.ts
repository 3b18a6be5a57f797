/**
 * What the parsers of all kinds share: they read members of unknown JSON, check names, ports and
 * addresses, and collect what is wrong with an object as findings while they continue with the rest
 * of it.
 */
import { parseAddressSloppy } from '../../values/address.ts'
import { type Problem, ProblemList } from '../../values/errors.ts'

export type JsonObject = { readonly [name: string]: unknown }

/** What a parser is given. */
export interface ParserInput {
  readonly json: JsonObject
  readonly metadata: Metadata
  readonly findings: Findings
  readonly intern: Intern
  readonly origin: Origin
  /** The labels of a Node that are kept; absent: none, of a manifest all. */
  readonly labels?: ReadonlySet<string> | undefined
}

/** The metadata that all kinds have in common. */
export interface Metadata {
  /** '' for a Node. */
  readonly namespace: string
  readonly name: string
  /** `namespace/name`; for a Node `name`. */
  readonly key: string
  /** '' in a manifest. */
  readonly resourceVersion: ResourceVersion
  readonly labels: JsonObject
  readonly json: JsonObject
}

/**
 * A resourceVersion, which clients may only compare for equality: a number where the text is one,
 * as etcd's are, because a number takes less memory.
 */
export type ResourceVersion = string | number

/**
 * The source of an object. What the API server has validated is read as kube-proxy reads it. For a
 * manifest the parsers also check what the API server would refuse, and what would give other users
 * access to the node.
 */
export type Origin = 'api' | 'manifest'

/** Returns the shared copy of a text. */
export type Intern = (text: string) => string

/**
 * Shares texts that repeat in thousands of objects: node names, zones, port names, namespaces.
 * @param limit number of different texts; when it is reached all are dropped, so that memory does
 * not grow with the cluster's history. A text that is then stored twice only costs memory.
 */
export function createIntern(limit = 16_384): Intern {
  const shared = new Map<string, string>()
  return (text) => {
    if (text === '') return ''
    const known = shared.get(text)
    if (known !== undefined) return known
    if (shared.size >= limit) shared.clear()
    shared.set(text, text)
    return text
  }
}

/** Stable codes of the problems that parsers report. */
export type FindingCode =
  | 'invalid-field'
  | 'missing-field'
  | 'invalid-name'
  | 'invalid-address'
  | 'wrong-family'
  | 'invalid-port'
  | 'unknown-protocol'
  | 'duplicate-port'
  | 'invalid-range'
  | 'too-many-items'

const NO_PROBLEMS: readonly Problem[] = []
/** Characters of a wrong value that a message repeats. */
const MAX_QUOTED = 60

/** The problems of the object that `subject` names. */
export class Findings {
  readonly #subject: string
  #list: ProblemList | undefined

  constructor(subject: string) {
    this.#subject = subject
  }

  get problems(): readonly Problem[] {
    return this.#list?.problems ?? NO_PROBLEMS
  }

  add(code: FindingCode, field: string, message: string): void {
    this.#list ??= new ProblemList()
    this.#list.add({ code, about: 'object', subject: this.#subject, field, message })
  }
}

/** An object that is not an array. A YAML Map or Date counts as an object without fields. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A value for a message: short, and only its type for large values. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  if (typeof value === 'string')
    return JSON.stringify(value.length > MAX_QUOTED ? `${value.slice(0, MAX_QUOTED)}…` : value)
  return `${typeof value === 'number' || typeof value === 'boolean' ? '' : `${typeof value} `}${String(value)}`
}

/**
 * The path of a member in a message: `spec.ports` for `spec` and `ports`. The functions below take
 * both parts, because almost no path is ever printed and an object has dozens of them.
 */
function pathOf(at: string, name: string): string {
  return at === '' ? name : `${at}.${name}`
}

/** A member that should be an object: undefined when absent or null, a finding for another type. */
export function objectAt(parent: JsonObject, name: string, at: string, findings: Findings): JsonObject | undefined {
  const value = parent[name]
  if (value === undefined || value === null) return undefined
  if (isObject(value)) return value
  findings.add('invalid-field', pathOf(at, name), `must be an object, not ${describe(value)}`)
  return undefined
}

/** A member that should be an array: empty when absent or null, a finding for another type. */
export function arrayAt(parent: JsonObject, name: string, at: string, findings: Findings): readonly unknown[] {
  const value = parent[name]
  if (value === undefined || value === null) return []
  if (Array.isArray(value)) return value
  findings.add('invalid-field', pathOf(at, name), `must be a list, not ${describe(value)}`)
  return []
}

/** A list of an object may have so many items: reading them takes some milliseconds, and everything else waits. */
export const MAX_ITEMS = 10_000

/** As `arrayAt`, and no more than the first MAX_ITEMS items, with a finding. */
export function shortArrayAt(parent: JsonObject, name: string, at: string, findings: Findings): readonly unknown[] {
  const items = arrayAt(parent, name, at, findings)
  if (items.length <= MAX_ITEMS) return items
  findings.add('too-many-items', pathOf(at, name), `has ${items.length} items, and only ${MAX_ITEMS} are read`)
  return items.slice(0, MAX_ITEMS)
}

/** A member that should be text: '' when absent or null, a finding and '' for another type. */
export function textAt(parent: JsonObject, name: string, at: string, findings: Findings): string {
  const value = parent[name]
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  findings.add('invalid-field', pathOf(at, name), `must be text, not ${describe(value)}`)
  return ''
}

/** A member that should be true or false: `absent` when absent or null. */
export function booleanAt(parent: JsonObject, name: string, absent: boolean, at: string, findings: Findings): boolean {
  const value = parent[name]
  if (value === undefined || value === null) return absent
  if (typeof value === 'boolean') return value
  findings.add('invalid-field', pathOf(at, name), `must be true or false, not ${describe(value)}`)
  return absent
}

/**
 * The name of a port: '' when absent or null, a finding and undefined when it is not a DNS label
 * (ValidateDNS1123Label).
 */
export function portNameAt(parent: JsonObject, at: string, findings: Findings): string | undefined {
  const name = textAt(parent, 'name', at, findings)
  if (name === '' || isDnsLabel(name)) return name
  findings.add('invalid-name', pathOf(at, 'name'), `${describe(name)} is not a DNS label`)
  return undefined
}

/** A port from 1 to 65535; 0 when absent, null or 0, a finding and 0 for anything else. */
export function portAt(parent: JsonObject, name: string, at: string, findings: Findings): number {
  const value = parent[name]
  if (value === undefined || value === null || value === 0) return 0
  if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65536) return value
  findings.add('invalid-port', pathOf(at, name), `must be a number from 1 to 65535, not ${describe(value)}`)
  return 0
}

/**
 * The canonical address of a value in JSON; undefined when it is none. Returns the same text when
 * that is canonical already.
 */
export function addressOf(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  const address = parseAddressSloppy(value)
  return address === value ? value : address
}

/** A time stamp in milliseconds since the epoch; 0 when absent or not one. YAML 1.1 and protobuf give Dates. */
export function timestampMs(value: unknown): number {
  const time = value instanceof Date ? value.getTime() : typeof value === 'string' ? Date.parse(value) : Number.NaN
  return Number.isFinite(time) ? time : 0
}

/**
 * RFC 1123 label (apimachinery pkg/util/validation, 1.37). The name of a Service is one since
 * KEP-5311; before, it could not begin with a digit (RFC 1035).
 */
const LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/
const MAX_SUBDOMAIN = 253

/** The rule for names of namespaces, of Services, and of ports: a DNS label of up to 63 characters. */
export function isDnsLabel(name: string): boolean {
  return LABEL.test(name)
}

/** The rule for names of EndpointSlices and Nodes: DNS labels separated by dots, up to 253 characters. */
export function isDnsSubdomain(name: string): boolean {
  return name.length <= MAX_SUBDOMAIN && SUBDOMAIN.test(name)
}
