/**
 * Whether a document is a KubeProxyConfiguration at all, as apimachinery's decoders find out.
 * What could break: the texts are recorded; some of them hold the whole document, which is cut when it is long.
 */
import { quote } from '../values/quote.ts'
import { goTypeOf } from './decode-error.ts'
import { API_VERSION, KIND } from './schema.ts'

const SCHEME = '"pkg/runtime/scheme.go:111"'
const STRUCT = String.raw`struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`
/** kube-proxy puts all of a file into its error; a line that long helps nobody. */
const MOST_SHOWN = 4_000

/** The version of the types inside kube-proxy. */
const INTERNAL = 'kubeproxy.config.k8s.io/__internal'

export function isInternal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'apiVersion' in value && value.apiVersion === INTERNAL
}

/** What is wrong; undefined when apiVersion and kind are ours. */
export function kindError(value: unknown, text: string): { readonly error: string } | undefined {
  const fail = (error: string) => ({ error })
  const mismatch = (found: unknown, target: string) =>
    fail(`couldn't get version/kind; json parse error: json: cannot unmarshal ${goTypeOf(found)} into Go ${target}`)
  const shown = text.length <= MOST_SHOWN ? text : `${text.slice(0, MOST_SHOWN)}…`
  const entries = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : []
  if (value !== null && value !== undefined && goTypeOf(value) !== 'object')
    return mismatch(value, `value of type ${STRUCT}`)
  const words: Record<'apiVersion' | 'kind', string> = { apiVersion: '', kind: '' }
  // encoding/json does not look at capitals here, and the last one counts.
  for (const [key, found] of entries)
    for (const name of ['apiVersion', 'kind'] as const) {
      if (key.toLowerCase() !== name.toLowerCase() || found === null) continue
      if (typeof found !== 'string') return mismatch(found, `struct field .${name} of type string`)
      words[name] = found
    }
  const { apiVersion, kind } = words
  const slashes = apiVersion.split('/').length - 1
  if (slashes > 1) return fail(`unexpected GroupVersion string: ${apiVersion}`)
  if (kind === '') return fail(`Object 'Kind' is missing in '${shown}'`)
  if (apiVersion === '' || apiVersion.endsWith('/')) return fail(`Object 'apiVersion' is missing in '${shown}'`)
  if ((apiVersion === API_VERSION || apiVersion === INTERNAL) && kind === KIND) return undefined
  return fail(
    `no kind ${quote(kind)} is registered for version ${quote(apiVersion.replace(/^\//, ''))} in scheme ${SCHEME}`,
  )
}
