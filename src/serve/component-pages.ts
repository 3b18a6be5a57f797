/**
 * /statusz and /flagz of the metrics port: name, version, start time and flags of the program, as
 * text for users or as objects of config.k8s.io for programs. Plain `application/json` is refused,
 * as in kube-proxy: a client has to name a version.
 */
import type { HttpAnswer, HttpHeader } from './http-answer.ts'

/** The program as these pages describe it. */
export interface Component {
  readonly name: string
  readonly version: string
  /** The release of Kubernetes whose kube-proxy this program emulates: `1.37`. */
  readonly emulates: string
  /** `node24.21.0`, where kube-proxy has `go1.26.8`. */
  readonly runtime: string
  /** Milliseconds since the epoch. */
  readonly startedMs: number
  /** Values of flags by name, sorted by name. */
  readonly flags: Readonly<Record<string, string>>
}

type Kind = 'Statusz' | 'Flagz'
type Form = { readonly type: string; readonly version: 'v1beta1' | 'v1alpha1' } | 'text' | undefined

const PATHS = ['/configz', '/flagz', '/healthz', '/metrics', '/proxyMode']
const GROUP = 'config.k8s.io'
const STRUCTURED = ['application/json', 'application/yaml']
const WARNING =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.'

/** The answer of /statusz. */
export function statusz(component: Component, accept: string | undefined, nowMs: number): HttpAnswer {
  const { name, startedMs, runtime, version, emulates } = component
  const upSeconds = Math.max(0, Math.floor((nowMs - startedMs) / 1000))
  const lines: readonly (readonly [string, string])[] = [
    ['Started', formatUnixDate(startedMs)],
    ['Up', formatUptime(upSeconds)],
    ['Go version', runtime],
    ['Binary version', version],
    ['Emulation version', emulates],
    ['Paths', PATHS.join(' ')],
  ]
  const text = ['', `${name} statusz`, WARNING, '', ...lines.map((line) => line.join(': ')), ''].join('\n')
  return page('Statusz', component, accept, text, {
    startTime: new Date(startedMs).toISOString().replace(/\.\d+Z$/, 'Z'),
    uptimeSeconds: upSeconds,
    goVersion: runtime,
    binaryVersion: version,
    emulationVersion: emulates,
    paths: PATHS,
  })
}

/** The answer of /flagz. */
export function flagz(component: Component, accept: string | undefined): HttpAnswer {
  const { name, flags } = component
  const lines = Object.entries(flags).map((line) => line.join(': '))
  return page('Flagz', component, accept, ['', `${name} flagz`, WARNING, ...lines, ''].join('\n'), { flags })
}

function page(
  kind: Kind,
  { name }: Component,
  accept: string | undefined,
  text: string,
  fields: Readonly<Record<string, unknown>>,
): HttpAnswer {
  const form = formOf(kind, accept)
  if (form === undefined) return notAcceptable(accept ?? '')
  if (form === 'text') return { status: 200, headers: [['Content-Type', 'text/plain; charset=utf-8']], body: text }
  const { type, version } = form
  const headers: HttpHeader[] = [['Content-Type', `${type};g=${GROUP};v=${version};as=${kind}`]]
  if (version === 'v1alpha1')
    headers.push([
      'Warning',
      `299 - "This version of the ${kind.toLowerCase()} endpoint is deprecated. Please use a newer version."`,
    ])
  // JSON is also valid YAML.
  const object = { kind, apiVersion: `${GROUP}/${version}`, metadata: { name }, ...fields }
  return { status: 200, headers, body: `${JSON.stringify(object)}\n` }
}

/** The first form in the client's order of preference that we support. */
function formOf(kind: Kind, accept: string | undefined): Form {
  if (accept === undefined || accept.trim() === '') return 'text'
  for (const { type, parameters } of mediaTypes(accept)) {
    if (type === '*/*' || type === 'text/*' || type === 'text/plain') return 'text'
    const version = parameters.get('v')
    if (!STRUCTURED.includes(type) || parameters.get('g') !== GROUP || parameters.get('as') !== kind) continue
    if (version === 'v1beta1' || version === 'v1alpha1') return { type, version }
  }
  return undefined
}

interface MediaType {
  readonly type: string
  readonly parameters: ReadonlyMap<string, string>
}

function mediaTypes(accept: string): readonly MediaType[] {
  const ranges = accept.split(',').map((range) => {
    const [type = '', ...rest] = range.split(';').map((part) => part.trim())
    const parameters = new Map(
      rest.map((part) => {
        const [name = '', value = ''] = part.split('=')
        return [name.trim(), value.trim()] as const
      }),
    )
    return { type: type.toLowerCase(), parameters }
  })
  const weight = ({ parameters }: MediaType): number => Number(parameters.get('q') ?? 1)
  return ranges.toSorted((a, b) => weight(b) - weight(a))
}

function notAcceptable(accept: string): HttpAnswer {
  const status = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: 'only the following media types are accepted: application/json, application/yaml, text/plain',
    reason: 'NotAcceptable',
    code: 406,
  }
  const plain = STRUCTURED.some((type) => accept.includes(type))
  return {
    status: 406,
    headers: [['Content-Type', 'application/json']],
    body: plain ? `${JSON.stringify(status)}\n` : JSON.stringify(status, null, 2),
  }
}

const twoDigits = (value: number): string => String(value).padStart(2, '0')

/** `Fri Nov 20 16:11:29 UTC 2026`, like date(1) and Go's UnixDate. */
function formatUnixDate(ms: number): string {
  const [day = '', date = '', month = '', year = '', time = ''] = new Date(ms).toUTCString().split(/,? /)
  return `${day} ${month} ${date.replace(/^0/, ' ')} ${time} UTC ${year}`
}

function formatUptime(seconds: number): string {
  const minutes = Math.floor(seconds / 60)
  return `${Math.floor(minutes / 60)} hr ${twoDigits(minutes % 60)} min ${twoDigits(seconds % 60)} sec`
}
