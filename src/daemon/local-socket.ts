/**
 * The local socket of the daemon, in the file system: its folder, what an earlier process left at
 * its path, and retries. It never fails the daemon, and it removes nothing but a socket that nobody
 * listens on.
 */
import type { BigIntStats } from 'node:fs'
import { lstat, mkdir, unlink } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname } from 'node:path'
import { folderDoubt } from '../inspect/socket-owner.ts'
import type { Responder } from '../serve/http-answer.ts'
import { HttpListener } from '../serve/http-listener.ts'
import { Backoff } from '../values/backoff.ts'
import { CodedError, errorText } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

export interface LocalSocketOptions {
  /** `kubeIPVS.socket`, not empty. */
  readonly path: string
  readonly answer: Responder
  readonly log: Log
  /** Called when the socket has opened, and after each attempt that failed. */
  readonly onChange?: (isOpen: boolean) => void
  /**
   * Wait after the first failure, in milliseconds; each further wait is twice as long, up to five
   * minutes. Default 1,000.
   */
  readonly retryMs?: number
  /** Whether a process listens on a socket. A test replaces it. */
  readonly isAnswered?: (path: string) => Promise<boolean>
}

const RETRY_MS = 1000
const LAST_RETRY_MS = 300_000
/** Commands of root ask one question after another; a few may run at the same time. */
const CONNECTIONS = 8
/** Who listens accepts a connection at once, even if it hangs. */
const CONNECT_MS = 1000
const FOLDER_MODE = 0o700

export class LocalSocket {
  readonly #options: LocalSocketOptions
  #listener: HttpListener | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  readonly #backoff: Backoff
  /** The reason that was logged last; '' when the socket is open. */
  #logged = ''

  constructor(options: LocalSocketOptions) {
    this.#options = options
    this.#backoff = new Backoff({ firstMs: options.retryMs ?? RETRY_MS, maxMs: LAST_RETRY_MS })
  }

  /** Opens the socket now or, as long as that is impossible, later. Never rejects; resolves after the first attempt. */
  async open(): Promise<void> {
    try {
      await this.#prepare()
      if (!this.#isClosed) await this.#listen()
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Closes the socket with all its connections, and removes it. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#listener?.close()
  }

  /** Makes the folder, and the path free. Rejects with the reason why that is impossible. */
  async #prepare(): Promise<void> {
    const { path, isAnswered: asks = isAnswered } = this.#options
    const folder = dirname(path)
    // Not `recursive`, which never ends below /proc: mkdir says ENOENT there although the parent exists.
    await mkdir(folder, { mode: FOLDER_MODE }).catch((error: unknown) => {
      if (!isCode(error, 'EEXIST')) throw error
    })
    const doubt = await folderDoubt(folder)
    if (doubt !== undefined) throw new CodedError('socket-folder', doubt)
    const there = await fileAt(path)
    if (there === undefined) return
    if (!there.isSocket())
      throw new CodedError('socket-path', 'the path has a file that is no socket, which is never removed')
    // A process that starts at the same time may have put its own socket there while this one was asked.
    if ((await asks(path)) || !isSameFile(there, await fileAt(path))) throw new CodedError('socket-taken', TAKEN)
    if (!this.#isClosed) await unlink(path)
  }

  /** Resolves when the socket listens. */
  #listen(): Promise<void> {
    const { path, answer, log } = this.#options
    return new Promise((resolve, reject) => {
      let isOpen = false
      const listener = new HttpListener({
        path,
        answer,
        limits: { connections: CONNECTIONS },
        onOpen: () => {
          isOpen = true
          this.#opened()
          resolve()
        },
        onFailure: (error) => {
          listener.close()
          if (isOpen) this.#failed(error)
          else reject(error)
        },
        retryMs: () => LAST_RETRY_MS,
        onError: (error) => log.error('A question at the local socket could not be answered', { socket: path, error }),
      })
      this.#listener = listener
      listener.open()
    })
  }

  #opened(): void {
    const { path, log, onChange } = this.#options
    onChange?.(true)
    if (this.#logged === '') log.verbose(2, 'The local socket is open', { socket: path })
    else log.info('The local socket is open now', { socket: path })
    this.#backoff.reset()
    this.#logged = ''
  }

  #failed(error: unknown): void {
    if (this.#isClosed) return
    const { path, log, onChange } = this.#options
    onChange?.(false)
    const reason = errorText(error)
    // A reason that lasts is logged once.
    if (reason !== this.#logged)
      log.warn(
        'Cannot open the local socket of kubeIPVS.socket; status, explain, top, drain and diff know less, and it is tried again',
        { socket: path, reason },
      )
    this.#logged = reason
    this.#timer = setTimeout(() => void this.open(), this.#backoff.next()).unref()
  }
}

const TAKEN = 'another process listens on it'

/** What is at a path; undefined for nothing. */
async function fileAt(path: string): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true })
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined
    throw error
  }
}

function isSameFile(one: BigIntStats, other: BigIntStats | undefined): boolean {
  return other !== undefined && one.ino === other.ino && one.dev === other.dev && one.ctimeNs === other.ctimeNs
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/**
 * Whether a process listens on a socket. What is unknown counts as answered, because a socket that
 * is in use must not be removed.
 */
function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path })
    const end = (isThere: boolean): void => {
      socket.destroy()
      resolve(isThere)
    }
    socket.setTimeout(CONNECT_MS, () => end(true))
    socket.on('connect', () => end(true))
    socket.on('error', (error) => end(!isCode(error, 'ECONNREFUSED')))
  })
}
