/**
 * HTTP answers as values, in the form of Go's net/http, on which probes, scrapers and scripts for
 * kube-proxy rely. The order of headers and the line ends of bodies are compared with recordings.
 */

/** One HTTP answer. */
export interface HttpAnswer {
  readonly status: number
  /** In the order in which they are sent; Date and Content-Length follow. */
  readonly headers: readonly HttpHeader[]
  /** A Content-Type that Go guesses from the body: it is sent after Content-Length. */
  readonly guessedType?: string
  readonly body: string | Uint8Array
}

export type HttpHeader = readonly [name: string, value: string]

/** The part of a request on which an answer depends. */
export interface HttpRequest {
  readonly method: string
  /** Decoded, without the query; '' if the target is no path (`*`, broken escapes). */
  readonly path: string
  /** Without the question mark, as sent. */
  readonly query: string
  /** Value of a header by its lower-case name; several values are joined by commas. */
  header(name: string): string | undefined
  /** Reads the body as text; rejects if it is longer than a few KiB or does not arrive. */
  readBody(): Promise<string>
  /** Aborted when the client closes the connection. */
  readonly signal: AbortSignal
}

/** Answers one request. */
export type Responder = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>

const NO_SNIFF: HttpHeader = ['X-Content-Type-Options', 'nosniff']
const TEXT: HttpHeader = ['Content-Type', 'text/plain; charset=utf-8']

/** Go's http.NotFound. */
export const NOT_FOUND: HttpAnswer = { status: 404, headers: [TEXT, NO_SNIFF], body: '404 page not found\n' }

/** A plain text answer with the headers of Go's http.Error. */
export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, headers: [TEXT, NO_SNIFF], body }
}

/** A JSON answer with the headers of kube-proxy. @param more further headers */
export function jsonAnswer(body: string, status = 200, more: readonly HttpHeader[] = []): HttpAnswer {
  return { status, headers: [['Content-Type', 'application/json'], NO_SNIFF, ...more], body }
}

/** Go's http.Redirect: GET gets a page, HEAD its Content-Type. */
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

/** Path and query of a request target; scheme and host of an absolute target are dropped. */
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

/** Value of a query parameter; undefined if the query does not have it. */
export function queryValue(query: string, name: string): string | undefined {
  return new URLSearchParams(query).get(name) ?? undefined
}

/** The short form of a path, to which Go's ServeMux redirects: no `//` and no dots. A trailing slash stays. */
export function cleanPath(path: string): string {
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue
    if (part === '..') parts.pop()
    else parts.push(part)
  }
  const short = `/${parts.join('/')}`
  return parts.length > 0 && path.endsWith('/') ? `${short}/` : short
}
