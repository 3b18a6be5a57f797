/**
 * Why a document is no KubeProxyConfiguration: a value of the wrong type, with its line and its
 * field, or a document of another kind. kube-proxy refuses the same documents in the words of Go's
 * decoders.
 */
import type * as z from 'zod'
import { quote } from '../values/quote.ts'
import { type ConfigurationDocument, formatPath, type Path } from './document.ts'
import { API_VERSION, KIND } from './schema.ts'
import { valueAt } from './values.ts'

/** The first value of the wrong type; undefined when no issue is about one. */
export function decodeError(
  issues: readonly z.core.$ZodIssue[],
  { value, lineOf }: Pick<ConfigurationDocument, 'value' | 'lineOf'>,
): string | undefined {
  const [first] = issues
    .filter(({ code }) => code !== 'unrecognized_keys')
    .sort((a, b) => compareInOrder(a.path, b.path, value))
  if (first === undefined) return undefined
  const line = lineOf(first.path)
  const where = `${line === undefined ? '' : `line ${line}: `}${formatPath(first.path)}`
  return `${where}: ${first.message.replace(/^Invalid input: /, '')}`
}

/** The order of two places in a document: keys as in the document, list items by position. */
export function compareInOrder(a: Path, b: Path, document: unknown): number {
  for (let depth = 0; depth < Math.min(a.length, b.length); depth++) {
    const [left, right] = [a[depth], b[depth]]
    if (left === right) continue
    if (typeof left === 'number' && typeof right === 'number') return left - right
    const keys = Object.keys(valueAt(document, a.slice(0, depth)) ?? {})
    return keys.indexOf(String(left)) - keys.indexOf(String(right))
  }
  return a.length - b.length
}

/** The version of the types inside kube-proxy. */
const INTERNAL = 'kubeproxy.config.k8s.io/__internal'
/** A name in an error is cut to this length. */
const MAX_SHOWN = 200

export function isInternal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'apiVersion' in value && value.apiVersion === INTERNAL
}

/** Why a document has another kind than ours; undefined when it has not. */
export function kindError(value: unknown): string | undefined {
  if ((value ?? null) !== null && (typeof value !== 'object' || Array.isArray(value)))
    return `expected a ${KIND}, received ${typeName(value)}`
  const words: Record<'apiVersion' | 'kind', string> = { apiVersion: '', kind: '' }
  // Go ignores upper and lower case in these names, and the last one counts.
  for (const [key, found] of Object.entries(value ?? {}))
    for (const name of ['apiVersion', 'kind'] as const) {
      if (key.toLowerCase() !== name.toLowerCase() || found === null) continue
      if (typeof found !== 'string') return `${name}: expected string, received ${typeName(found)}`
      words[name] = found
    }
  const { apiVersion, kind } = words
  if (kind === '') return 'kind is missing'
  if (apiVersion === '' || apiVersion.endsWith('/')) return 'apiVersion is missing'
  if ((apiVersion === API_VERSION || apiVersion === INTERNAL) && kind === KIND) return undefined
  const shown = [kind, apiVersion].map((text) => quote(text.slice(0, MAX_SHOWN)))
  return `expected kind ${quote(KIND)} of version ${quote(API_VERSION)}, received ${shown.join(' of version ')}`
}

const typeName = (value: unknown): string => (Array.isArray(value) ? 'array' : typeof value)
