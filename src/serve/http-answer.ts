/**
 * Answers as values, in the shapes of Go's net/http, which probes, scrapers and scripts of kube-proxy are used to.
 * What could break: the order of headers and the ends of lines in bodies are compared with recordings.
 */

export interface HttpAnswer {
  readonly status: number
  /** In the order in which they are sent; Date and what concerns the length follow. */
  readonly headers: readonly HttpHeader[]
  /** Content-Type of an answer for which Go guessed it: such a one stands behind the length. */
  readonly guessedType?: string
  readonly body: string | Uint8Array
}

export type HttpHeader = readonly [name: string, value: string]

/** The part of a request that decides about an answer. */
export interface HttpRequest {
  readonly method: string
  /** Decoded, without the query; '' when the target is none that a server has (`*`, broken escapes). */
  readonly path: string
  /** Without the question mark, as sent. */
  readonly query: string
  /** Value of a header by its name in lower case; several are joined by commas. */
  header(name: string): string | undefined
  /** The body as text; rejects when it is longer than a few KiB or does not come. */
  readBody(): Promise<string>
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal
}

export type Answering = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>

const NO_SNIFF: HttpHeader = ['X-Content-Type-Options', 'nosniff']
const TEXT: HttpHeader = ['Content-Type', 'text/plain; charset=utf-8']

export const NOT_FOUND: HttpAnswer = { status: 404, headers: [TEXT, NO_SNIFF], body: '404 page not found\n' }

export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, headers: [TEXT, NO_SNIFF], body }
}

export function jsonAnswer(body: string, status = 200, more: readonly HttpHeader[] = []): HttpAnswer {
  return { status, headers: [['Content-Type', 'application/json'], NO_SNIFF, ...more], body }
}

/** http.Redirect: a page only for GET, its type for HEAD as well. */
export function redirectAnswer(method: string, status: 302 | 307, location: string): HttpAnswer {
  const reason = status === 302 ? 'Found' : 'Temporary Redirect'
  const hasPage = method === 'GET' || method === 'HEAD'
  return {
    status,
    headers: [...(hasPage ? [['Content-Type', 'text/html; charset=utf-8'] as const] : []), ['Location', location]],
    body: method === 'GET' ? `<a href="${escapeHtml(location)}">${reason}</a>.\n\n` : '',
  }
}

/** Go's htmlEscape. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&${ESCAPES[letter] ?? ''};`)
}

const ESCAPES: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': '#34', "'": '#39' }

/** Path and query of a request's target; a target with scheme and host counts by its path. */
export function splitTarget(target: string): { readonly path: string; readonly query: string } {
  const [, local = ''] = /^(?:https?:\/\/[^/?]*)?(.*)$/i.exec(target) ?? []
  const mark = local.indexOf('?')
  const path = mark < 0 ? local : local.slice(0, mark)
  const query = mark < 0 ? '' : local.slice(mark + 1)
  if (path === '' && local !== target) return { path: '/', query }
  try {
    return { path: path.startsWith('/') ? decodeURIComponent(path) : '', query }
  } catch {
    return { path: '', query }
  }
}

/** Value of a query parameter, undefined when it is not there. */
export function queryValue(query: string, name: string): string | undefined {
  return new URLSearchParams(query).get(name) ?? undefined
}

/** Go's ServeMux asks for the short form of a path: no `//`, no dots. A slash at the end stays. */
export function cleanPath(path: string): string {
  const kept: string[] = []
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue
    if (part === '..') kept.pop()
    else kept.push(part)
  }
  const short = `/${kept.join('/')}`
  return kept.length > 0 && path.endsWith('/') ? `${short}/` : short
}
