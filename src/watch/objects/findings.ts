/** What a parser finds wrong with one object, gathered while it goes on parsing, and the shapes of unknown JSON. */
import type { Problem } from '../../values/errors.ts'
import { ProblemList } from '../../values/problem-list.ts'
import { isDnsLabel } from './names.ts'

export type JsonObject = { readonly [name: string]: unknown }

/** A value and what is wrong with it. `value` undefined without problems: not an object that we proxy. */
export interface Parsed<T> {
  readonly value: T | undefined
  readonly problems: readonly Problem[]
}

/**
 * Where an object was found. The API server has validated its objects, and what it let through is taken as kube-proxy takes it;
 * in a manifest the parsers check what the API server would have refused and what opens the node to others.
 */
export type Origin = 'api' | 'manifest'

/** Codes of the problems that parsers report. Stable. */
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

const NO_PROBLEMS: readonly Problem[] = []
/** Letters of a wrong value that a message repeats. */
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
    this.#list.add({ code, subject: this.#subject, field, message })
  }
}

/** An object that is not an array; a YAML Map or Date counts as one without fields. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * The path of a member in a message: `spec.ports` of `spec` and `ports`. The functions below take both parts, because
 * almost no path is ever printed and an object has dozens.
 */
function pathOf(at: string, name: string): string {
  return at === '' ? name : `${at}.${name}`
}

/** A member that should be an object: undefined when absent or null, a finding when it is something else. */
export function objectAt(parent: JsonObject, name: string, at: string, findings: Findings): JsonObject | undefined {
  const value = parent[name]
  if (value === undefined || value === null) return undefined
  if (isObject(value)) return value
  findings.add('invalid-field', pathOf(at, name), `must be an object, not ${describe(value)}`)
  return undefined
}

/** A member that should be an array: empty when absent or null, a finding when it is something else. */
export function arrayAt(parent: JsonObject, name: string, at: string, findings: Findings): readonly unknown[] {
  const value = parent[name]
  if (value === undefined || value === null) return []
  if (Array.isArray(value)) return value
  findings.add('invalid-field', pathOf(at, name), `must be a list, not ${describe(value)}`)
  return []
}

/** A member that should be text: '' when absent or null, a finding and '' when it is something else. */
export function textAt(parent: JsonObject, name: string, at: string, findings: Findings): string {
  const value = parent[name]
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  findings.add('invalid-field', pathOf(at, name), `must be text, not ${describe(value)}`)
  return ''
}

/** A member that should be true or false: `absent` when it is not there or null. */
export function booleanAt(parent: JsonObject, name: string, absent: boolean, at: string, findings: Findings): boolean {
  const value = parent[name]
  if (value === undefined || value === null) return absent
  if (typeof value === 'boolean') return value
  findings.add('invalid-field', pathOf(at, name), `must be true or false, not ${describe(value)}`)
  return absent
}

/** The name of a port: '' when absent or null, a finding and undefined when it is not a DNS label (ValidateDNS1123Label). */
export function portNameAt(parent: JsonObject, at: string, findings: Findings): string | undefined {
  const name = textAt(parent, 'name', at, findings)
  if (name === '' || isDnsLabel(name)) return name
  findings.add('invalid-name', pathOf(at, 'name'), `${describe(name)} is not a DNS label`)
  return undefined
}

/** A port from 1 to 65535; 0 when absent, null or 0, a finding and 0 when it is no port. */
export function portAt(parent: JsonObject, name: string, at: string, findings: Findings): number {
  const value = parent[name]
  if (value === undefined || value === null || value === 0) return 0
  if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65536) return value
  findings.add('invalid-port', pathOf(at, name), `must be a number from 1 to 65535, not ${describe(value)}`)
  return 0
}

/** A value in a message: short, and only what it is for anything that is large. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  if (typeof value === 'string')
    return JSON.stringify(value.length > MAX_QUOTED ? `${value.slice(0, MAX_QUOTED)}…` : value)
  return `${typeof value === 'number' || typeof value === 'boolean' ? '' : `${typeof value} `}${String(value)}`
}
