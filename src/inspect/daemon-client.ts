/**
 * Asks the daemon of this node over its local socket, for the commands. It never throws: a command
 * goes on with what the kernel tells when no daemon answers, and says what it then cannot know.
 * @impure
 */
import { Agent, type IncomingMessage, request } from 'node:http'
import type { FrontendKey } from '../service/frontends.ts'
import { CodedError } from '../values/errors.ts'
import { VERSION } from '../values/well-known.ts'
import { printable, quote } from '../values/quote.ts'
import { isPlainObject, type Shape, ShapeError } from '../values/shape.ts'
import type { Names } from './names.ts'
import { MAX_PAGE, type Place, placeWords, type RefusalCode, VIEW_FORMAT, VIEW_PATH } from './questions.ts'
import { socketDoubt } from './socket-owner.ts'
import {
  CONNECTIONS_VIEW,
  type ConnectionsView,
  DAEMON_VIEW,
  type DaemonView,
  DRAINS_VIEW,
  OUTLIERS_VIEW,
  type DrainsView,
  type OutliersView,
  type FrontendName,
  NAMES_PAGE,
  type NamesPage,
  POD_VIEW,
  type PodView,
  ROWS_VIEW,
  type RowsView,
  SERVICES_VIEW,
  type ServicesView,
} from './view.ts'

/**
 * Why there is no answer: the socket is off by configuration, no daemon listens, the rights are
 * missing, the answer does not come in time or is not one of a daemon, it has another format; or
 * the daemon's own reason.
 */
export type NoAnswerCode = 'off' | 'no-daemon' | 'not-permitted' | 'no-answer' | 'other-format' | RefusalCode

export interface NoAnswer {
  readonly unknown: NoAnswerCode
  /** For people, printable: `no daemon answers at /run/kube-ipvs/kube-ipvs.sock`. */
  readonly reason: string
}

export type Answered<View> = View | NoAnswer

/** Whether the daemon did not tell what it was asked for. */
export function isUnknown(answer: object): answer is NoAnswer {
  return 'unknown' in answer
}

export interface DaemonClientOptions {
  /** Longest wait for one answer, in milliseconds; default 10,000. */
  readonly deadlineMs?: number
  /** Longest answer; default 64 MiB. The daemon's own limits are far below. */
  readonly maxBytes?: number
  readonly signal?: AbortSignal
}

const DEADLINE_MS = 10_000
const MAX_BYTES = 64 * 1024 * 1024
/** Pages of names that are read, and how often they are read again because the last key of a page was gone. */
const MAX_PAGES = 1000
const MAX_ROUNDS = 3
/** Characters of a reason that the daemon gave. */
const MAX_REASON = 500

/** @param socket `kubeIPVS.socket`; '': the daemon has none */
export function askDaemon(socket: string, options: DaemonClientOptions = {}): DaemonClient {
  return new DaemonClient(socket, socket === '' ? undefined : overSocket(socket, options))
}

/** An answer as it was received. */
export interface ReceivedAnswer {
  readonly status: number | undefined
  /** The header Server; '' without one. */
  readonly server: string
  readonly body: string
}

/** Asks for a path with its query. Rejects when there is no answer. */
export type Ask = (path: string) => Promise<ReceivedAnswer>

/** A client of the same answers that are made in this process, without a socket. */
export function askHere(ask: Ask): DaemonClient {
  return new DaemonClient('', ask)
}

export class DaemonClient {
  /** The path of the socket; '' without one. */
  readonly socket: string
  readonly #get: Ask | undefined

  /** @param get undefined: the daemon has no socket */
  constructor(socket: string, get: Ask | undefined) {
    this.socket = socket
    this.#get = get
  }

  daemon(): Promise<Answered<DaemonView>> {
    return this.#ask(DAEMON_VIEW, VIEW_PATH.daemon)
  }

  /** Every frontend of the daemon, by its key. */
  async names(): Promise<Answered<Names>> {
    let answer: Answered<Names> = failed('no-answer', 'no answer')
    for (let round = 0; round < MAX_ROUNDS; round++) {
      answer = await this.#allPages()
      if (!isUnknown(answer) || answer.unknown !== 'gone') return answer
    }
    return answer
  }

  /** @param named `namespace/name`, or the address and port that are won */
  services(named: string | Place): Promise<Answered<ServicesView>> {
    return this.#ask(
      SERVICES_VIEW,
      VIEW_PATH.services,
      typeof named === 'string' ? { service: named } : placeWords(named),
    )
  }

  rows(): Promise<Answered<RowsView>> {
    return this.#ask(ROWS_VIEW, VIEW_PATH.rows)
  }

  drains(): Promise<Answered<DrainsView>> {
    return this.#ask(DRAINS_VIEW, VIEW_PATH.drains)
  }

  /** An earlier version of the daemon does not know the question. */
  outliers(): Promise<Answered<OutliersView>> {
    return this.#ask(OUTLIERS_VIEW, VIEW_PATH.outliers)
  }

  /** @param pod `namespace/name` */
  pod(pod: string): Promise<Answered<PodView>> {
    return this.#ask(POD_VIEW, VIEW_PATH.pod, { pod })
  }

  /** @param targets IPs, or `IP:port` */
  connections(targets: readonly string[], withUdp: boolean): Promise<Answered<ConnectionsView>> {
    return this.#ask(CONNECTIONS_VIEW, VIEW_PATH.connections, [
      ...targets.map((target) => ['to', target] as const),
      ...(withUdp ? [['udp', '1'] as const] : []),
    ])
  }

  async #allPages(): Promise<Answered<Names>> {
    const names = new Map<FrontendKey, FrontendName>()
    let after: FrontendKey | undefined
    for (let count = 0; count < MAX_PAGES; count++) {
      const page: Answered<NamesPage> = await this.#ask(NAMES_PAGE, VIEW_PATH.names, {
        limit: String(MAX_PAGE),
        ...(after === undefined ? {} : { after }),
      })
      if (isUnknown(page)) return page
      for (const name of page.frontends) names.set(name.key, name)
      after = page.frontends.at(-1)?.key
      if (!page.more || after === undefined) return names
    }
    return failed('no-answer', `the daemon has more than ${MAX_PAGES * MAX_PAGE} frontends`)
  }

  async #ask<View extends object>(
    shape: Shape<View>,
    path: string,
    parameters: Readonly<Record<string, string>> | readonly (readonly [name: string, value: string])[] = {},
  ) {
    if (this.#get === undefined) return failed('off', 'the daemon has no local socket: kubeIPVS.socket is empty')
    const pairs = Array.isArray(parameters) ? parameters : Object.entries(parameters)
    const query = new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, value])).toString()
    try {
      return this.#read(shape, await this.#get(`${path}${query === '' ? '' : `?${query}`}`))
    } catch (error) {
      return this.#failure(error)
    }
  }

  #read<View extends object>(shape: Shape<View>, { status, server, body }: ReceivedAnswer): Answered<View> {
    let json: unknown
    try {
      json = JSON.parse(body)
    } catch {
      return this.#stranger()
    }
    if (!isPlainObject(json) || typeof json['format'] !== 'number') return this.#stranger()
    const version = /^kube-ipvs\/([\w.+-]{1,40})$/.exec(server)?.[1] ?? 'of an unknown version'
    if (json['format'] !== VIEW_FORMAT)
      return failed(
        'other-format',
        `the daemon is kube-ipvs ${version} and answers in format ${json['format']}, this command is kube-ipvs ${VERSION} and reads ` +
          `format ${VIEW_FORMAT}: run the command of the daemon's version`,
      )
    if (status === 200)
      try {
        return shape(json, '')
      } catch (error) {
        if (!(error instanceof ShapeError)) throw error
        return failed(
          'other-format',
          `the daemon is kube-ipvs ${version}, and its answer does not have the member ${quote(error.path.slice(0, MAX_REASON))} as ` +
            `kube-ipvs ${VERSION} reads it: run the command of the daemon's version`,
        )
      }
    const { error } = json
    if (!isPlainObject(error) || typeof error['code'] !== 'string' || typeof error['message'] !== 'string')
      return this.#stranger()
    return failed(error['code'] as RefusalCode, printable(error['message'].slice(0, MAX_REASON)))
  }

  /** Something else listens at the path. */
  #stranger(): NoAnswer {
    return failed('no-answer', `what answers at ${quote(this.socket)} is not kube-ipvs`)
  }

  #failure(error: unknown): NoAnswer {
    const code = isPlainObject(error) ? error['code'] : undefined
    const place = quote(this.socket)
    switch (code) {
      case 'ENOENT':
      case 'ENOTDIR':
      case 'ECONNREFUSED':
      case 'ENOTSOCK':
        return failed('no-daemon', `no daemon answers at ${place}`)
      case 'EACCES':
      case 'EPERM':
        return failed('not-permitted', `only root may ask the daemon at ${place}`)
      case 'EPROTOTYPE':
        return this.#stranger()
      case 'socket-doubtful':
        return failed('no-answer', `the daemon was not asked, because ${error instanceof Error ? error.message : ''}`)
      case 'ABORT_ERR':
        return failed('no-answer', `the daemon at ${place} did not answer in time`)
      default: {
        const text = error instanceof Error ? error.message : String(error)
        return failed('no-answer', `the daemon at ${place} did not answer: ${printable(text.slice(0, MAX_REASON))}`)
      }
    }
  }
}

function failed(unknown: NoAnswerCode, reason: string): NoAnswer {
  return { unknown, reason }
}

/** Asks over a Unix socket, with one connection for all questions. */
function overSocket(socketPath: string, options: DaemonClientOptions): Ask {
  const { deadlineMs = DEADLINE_MS, maxBytes = MAX_BYTES, signal } = options
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  return async (path) => {
    const doubt = await socketDoubt(socketPath)
    if (doubt !== undefined) throw new CodedError('socket-doubtful', doubt)
    const late = AbortSignal.timeout(deadlineMs)
    const anyOf = signal === undefined ? late : AbortSignal.any([signal, late])
    return new Promise((resolve, reject) => {
      const asked = request({ socketPath, path, agent, signal: anyOf })
      asked.on('error', reject)
      asked.on('response', (response) => {
        readBody(response, maxBytes).then(resolve, reject)
      })
      asked.end()
    })
  }
}

async function readBody(response: IncomingMessage, maxBytes: number): Promise<ReceivedAnswer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    // Chunks are Buffers because no text encoding is set.
    bytes += chunk.length
    if (bytes > maxBytes) {
      response.destroy()
      throw new Error(`the answer is longer than ${maxBytes} bytes`)
    }
    chunks.push(chunk)
  }
  const { statusCode: status, headers } = response
  return { status, server: String(headers['server'] ?? ''), body: Buffer.concat(chunks).toString() }
}
