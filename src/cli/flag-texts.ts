/**
 * Flags as /flagz shows them: every flag of the daemon with its value, given or by default. This is what the command line
 * says, not what is in force; with --config the two differ.
 */
import { formatDuration } from '../config/duration.ts'
import { isDuration } from '../config/values.ts'
import { FLAGS, type Flag, type FlagValues } from './flags.ts'

/** Text by name, in the order of names. */
export function flagTexts(values: FlagValues): Readonly<Record<string, string>> {
  const given = new Map<string, unknown>(Object.entries(values))
  const texts = Object.entries(FLAGS).flatMap(([key, flag]) => {
    if (!flag.commands.includes('run')) return []
    const value = given.get(key)
    return [[flag.name, value === undefined ? defaultOf(flag) : textOf(flag, value)] as const]
  })
  return Object.fromEntries(texts.toSorted(([left], [right]) => (left < right ? -1 : 1)))
}

function defaultOf({ kind, default: fallback }: Flag): string {
  return fallback ?? (kind === 'boolean' ? 'false' : '')
}

function textOf({ kind }: Flag, value: unknown): string {
  if (typeof value === 'number' && kind !== 'version' && kind !== 'output' && isDuration(kind))
    return formatDuration(value)
  if (Array.isArray(value))
    return value.every((item) => typeof item === 'string') ? `[${value.join(',')}]` : pairs(value)
  return typeof value === 'object' && value !== null ? pairs(Object.entries(value)) : String(value)
}

/** `a=1,b=2` of pairs and of objects with two fields. */
function pairs(items: readonly unknown[]): string {
  return items.map((item) => (Array.isArray(item) ? item : Object.values(Object(item))).join('=')).join(',')
}
