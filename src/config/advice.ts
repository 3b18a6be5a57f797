/**
 * What to do with a file that holds a configuration, but not in the form that --config takes. The
 * error has kube-proxy's words, which say only what the file is not.
 */
import type { ConfigurationDocument } from './document.ts'
import { KIND } from './schema.ts'

/** One sentence; undefined when nothing better than the error is known. */
export function adviceOn({ value, others }: Pick<ConfigurationDocument, 'value' | 'others'>): string | undefined {
  const { kind, data, metadata } = membersOf(value)
  if (kind === 'ConfigMap') return configMapAdvice(membersOf(data), membersOf(metadata))
  if (!others.some((other) => membersOf(other)['kind'] === KIND)) return undefined
  return `The file has ${others.length + 1} documents, of which only the first counts: put the ${KIND} first, or into a file of its own.`
}

/** A name that a shell takes as it is. */
const PLAIN = /^[a-z0-9][a-z0-9.-]{0,252}$/
const USUAL_KEY = 'config.conf'

function configMapAdvice(data: Members, metadata: Members): string {
  const key = Object.keys(data).find((name) => String(data[name]).includes(KIND)) ?? USUAL_KEY
  const { name, namespace = 'default' } = metadata
  const isPlain = [name, namespace, key].every((text) => typeof text === 'string' && PLAIN.test(text))
  const command = isPlain
    ? `: kubectl -n ${String(namespace)} get configmap ${String(name)} -o jsonpath='{.data.${key.replaceAll('.', String.raw`\.`)}}'`
    : ''
  return `The file is the ConfigMap around a configuration; --config takes the text of its key ${JSON.stringify(key.slice(0, 100))} alone${command}`
}

type Members = Readonly<Record<string, unknown>>

function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
