/**
 * Recorded HTTP exchanges, and requests that are sent as they were recorded. Requests are written
 * and answers parsed by hand, so that headers are compared in their order and no client library
 * adds or hides any.
 */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** One exchange as recorded; `failure` when there was no answer. */
export interface Exchange {
  readonly group: string
  readonly name: string
  readonly request: {
    readonly method: string
    readonly host: string
    readonly path: string
    readonly headers: Readonly<Record<string, string>>
    readonly body?: string
  }
  readonly failure?: string
  readonly status?: number
  readonly reason?: string
  readonly http?: string
  readonly headers?: readonly (readonly [string, string])[]
  readonly body?: string
  /** Of long and binary bodies only this is recorded. */
  readonly bodyBytes?: number
}

export interface Answer {
  readonly http: string
  readonly status: number
  readonly reason: string
  readonly headers: readonly (readonly [string, string])[]
  /** The joined chunks, still compressed. */
  readonly body: Buffer
}

const LIMIT_MS = 20_000
const UNCHUNKED_BYTES = 2048
/** Longer ones, in characters, are not printed when they differ. */
const LONG_BODY = 2000

/** Rejects when the port is closed, or when no complete answer arrives. */
export async function send(host: string, port: number, { request }: Exchange): Promise<Answer> {
  const { method, path, headers, body } = request
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${request.host}`]
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`)
  if (body !== undefined) lines.push(`Content-Length: ${Buffer.byteLength(body)}`)
  const socket = connect(port, host)
  try {
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body ?? ''}`)
    let bytes: Buffer = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
    })
    for (const lateMs = performance.now() + LIMIT_MS; performance.now() < lateMs; await sleep(2)) {
      const answer = cut(bytes, method === 'HEAD')
      if (answer !== undefined) return answer
    }
    throw new Error(`no whole answer to ${method} ${path}`)
  } finally {
    socket.destroy()
  }
}

/** Undefined while the answer is incomplete. */
function cut(bytes: Buffer, isHead: boolean): Answer | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [first = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const [, http = '', status = '', reason = ''] = /^HTTP\/(\S+) (\d+) (.*)$/.exec(first) ?? []
  const headers = lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)] as const)
  const named = new Map(headers)
  const rest = bytes.subarray(end + 4)
  const length = Number(named.get('Content-Length') ?? 0)
  const chunked = named.get('Transfer-Encoding') === 'chunked'
  const body = isHead ? rest : chunked ? joinChunks(rest) : rest.length >= length ? rest : undefined
  return body === undefined ? undefined : { http, status: Number(status), reason, headers, body }
}

function joinChunks(bytes: Buffer): Buffer | undefined {
  const chunks: Buffer[] = []
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) return undefined
    const size = Number.parseInt(bytes.subarray(at, end).toString('latin1'), 16)
    if (bytes.length < end + 2 + size + 2) return undefined
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(bytes.subarray(end + 2, end + 2 + size))
    at = end + 2 + size + 2
  }
}

/**
 * The text that both sides are compared in: values that differ from run to run, and names of
 * programs and versions, are replaced.
 */
export function normaliseText(text: string): string {
  // Members of a JSON object have no order.
  if (text.startsWith('{"kubeproxy.config.k8s.io"')) return JSON.stringify(sorted(JSON.parse(text)))
  return (
    text
      .replace(/("(?:lastUpdated|currentTime|startTime)":\s*)"\d{4}-[^"]*Z"/g, '$1"<time>"')
      .replace(/("uptimeSeconds":)\d+/g, '$1<seconds>')
      // Each process of kube-proxy chooses at random what stands between a name and its value.
      .replace(/^(Started|Up|Go version|Binary version|Emulation version|Paths)[:=]? {1,2}/gm, '$1: ')
      .replace(/^Started: \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d UTC \d{4}$/m, 'Started: <time>')
      .replace(/^Up: \d+ hr \d\d min \d\d sec$/m, 'Up: <time>')
      .replace(/\b(go|node)\d+\.\d+\.\d+\b/g, '<runtime>')
      .replace(/^(Binary version: )\S+$/m, '$1<version>')
      .replace(/("binaryVersion":)"[^"]+"/, '$1"<version>"')
      .replace(
        text.includes(' flagz\n')
          ? /^(?!\S+ flagz$)([a-z][a-z0-9-]*)(?:[:=] ?| {1,2})/gm
          : /^([a-z][a-z0-9-]*)(: |= | {2})/gm,
        '$1: ',
      )
      .replaceAll(/\bkube-(proxy|ipvs)(?= (statusz|flagz)$)/gm, '<program>')
      .replaceAll(/("metadata":\{"name":)"kube-(proxy|ipvs)"/g, '$1"<program>"')
  )
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const members = Object.entries(value).map(([name, member]) => [name, sorted(member)] as const)
  return Object.fromEntries(members.toSorted(([left], [right]) => (left < right ? -1 : 1)))
}

/** Each way in which an answer differs from the recorded one. `bodyOf` converts our body for the comparison. */
export function compare(recorded: Exchange, ours: Answer, bodyOf: (text: string) => string): readonly string[] {
  const mismatches: string[] = []
  const say = (what: string, wanted: unknown, got: unknown): void => {
    if (wanted !== got) mismatches.push(`${what}: recorded ${JSON.stringify(wanted)}, ours ${JSON.stringify(got)}`)
  }
  say('version', recorded.http, ours.http)
  say('status', `${recorded.status} ${recorded.reason}`, `${ours.status} ${ours.reason}`)
  const body = recorded.body ?? ''
  const isWhole = recorded.bodyBytes === undefined && recorded.request.method !== 'HEAD'
  const text = bodyOf(ours.body.toString())
  // A length is compared only where the bodies are equal before they are normalised.
  const sameLength = (isWhole && ours.body.toString() === body) || recorded.status === 404
  const wanted = headerText(recorded.headers ?? [], sameLength)
  // A body that is not compared may be so short that it needs no chunks.
  const isShort = recorded.bodyBytes !== undefined && ours.body.length <= UNCHUNKED_BYTES
  // One that `bodyOf` shortens for the comparison may be so long that it needs them.
  const isLong = text.length <= UNCHUNKED_BYTES && ours.body.length > UNCHUNKED_BYTES
  const [length, chunked] = ['Content-Length: <bytes>', 'Transfer-Encoding: chunked']
  const sized = isShort ? wanted.replace(chunked, length) : isLong ? wanted.replace(length, chunked) : wanted
  say('headers', sized, headerText(ours.headers, sameLength))
  if (isWhole && body.length > LONG_BODY && !body.startsWith('{') && normaliseText(body) !== normaliseText(text))
    mismatches.push(`body: a different one, which begins ${JSON.stringify(text.slice(0, 60))}`)
  else if (isWhole) say('body', normaliseText(body), normaliseText(text))
  else if (recorded.bodyBytes === undefined) say('body', body, text)
  const bytes = new Map(ours.headers).get('Content-Length')
  if (bytes !== undefined && recorded.request.method !== 'HEAD') say('length', Number(bytes), ours.body.length)
  return mismatches
}

function headerText(headers: readonly (readonly [string, string])[], sameLength: boolean): string {
  return headers
    .map(([name, value]) => {
      if (name === 'Date') return 'Date: <date>'
      if (name === 'Process-Start-Time-Unix') return `${name}: ${value.replace(/^\d+$/, '<seconds>')}`
      return name === 'Content-Length' && !sameLength ? `${name}: <bytes>` : `${name}: ${value}`
    })
    .join('\n')
}
