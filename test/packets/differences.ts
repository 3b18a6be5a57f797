/** The list `differences.yaml` beside this file: which differences between two firewalls are on purpose. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'

/** What a difference is about, as texts. */
export interface Traits {
  readonly firewall: string
  readonly aspect: string
  readonly kind: string
  readonly from: string
  readonly protocol: string
  readonly family: string
  /** What it is with the first firewall, and with this one. */
  readonly reference: string
  readonly found: string
  /** What the packet met in both, whatever the aspect: `answered by a -> nothing`. */
  readonly verdicts: string
  /** The source ranges of the Service, as scenarios name them; `none` without a Service. */
  readonly ranges: string
  /** `INPUT ACCEPT FORWARD DROP` */
  readonly policies: string
}

const TRAITS = [
  'firewall',
  'aspect',
  'kind',
  'from',
  'protocol',
  'family',
  'reference',
  'found',
  'verdicts',
  'ranges',
  'policies',
] as const

/** An entry of the list. */
export interface AllowedDifference {
  readonly firewall: string
  readonly reason: string
  allows(traits: Traits): boolean
}

/** Throws when the text is not a list of such entries. */
export function parseDifferences(text: string): AllowedDifference[] {
  const list: unknown = parse(text) ?? []
  if (!Array.isArray(list)) throw new Error('differences.yaml is not a list')
  return list.map((entry: unknown, index) => {
    const { reason, ...patterns } = Object(entry) as Readonly<Record<string, unknown>> // any value has properties
    const isRight =
      typeof reason === 'string' &&
      typeof patterns['firewall'] === 'string' &&
      Object.entries(patterns).every(([name, value]) => TRAITS.some((one) => one === name) && typeof value === 'string')
    if (!isRight)
      throw new Error(`differences.yaml, entry ${index + 1}: not a firewall, a reason, and ${TRAITS.join()}`)
    const tests = TRAITS.flatMap((name) =>
      patterns[name] === undefined ? [] : [{ name, pattern: new RegExp(`^(?:${patterns[name]})$`) }],
    )
    return {
      firewall: String(patterns['firewall']),
      reason: String(reason),
      allows: (traits) => tests.every(({ name, pattern }) => pattern.test(traits[name])),
    }
  })
}

export const readDifferences = (): AllowedDifference[] =>
  parseDifferences(readFileSync(join(import.meta.dirname, 'differences.yaml'), 'utf8'))
