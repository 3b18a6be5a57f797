/**
 * A file that is watched by its content: written in place, replaced by rename, or swapped with a
 * symbolic link as kubelet does with ConfigMaps. It is checked after the kernel has announced a
 * change in its folder, and every ten seconds, because some file systems announce nothing and the
 * file may be a link into another folder. A check that finds no change is one stat, in the thread
 * pool: a network file system that hangs must stop no more than the checks. A changed file is read
 * only when it was the same at two checks a second apart, so that a file that is being written is
 * not taken for a complete one.
 */
import { createHash } from 'node:crypto'
import { type FSWatcher, watch } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { asError } from '../values/errors.ts'

export interface WatchedFileOptions {
  readonly path: string
  /** The content has changed since the last call, or (with a reason) the file cannot be read. */
  readonly onContent: (reason: Error | undefined) => Promise<void>
  /** Time between two checks of a file that changes, and from an announcement to the check. Default 1000. */
  readonly pollMs?: number
}

/** So many times as long is the time between two checks of a file that rests: each check wakes the process. */
const REST_FACTOR = 10

export class WatchedFile {
  readonly #options: WatchedFileOptions
  #timer: NodeJS.Timeout | undefined
  /** When the timer fires. */
  #dueMs = 0
  #announcements: FSWatcher | undefined
  #isChecking = false
  /** Announced while a check was under way. */
  #isAnnounced = false
  #isClosed = false
  /** The file at the last check, as stat identifies it. */
  #identity = ''
  #wasChanging = true
  /** Digest of the content at the last call of `onContent`, or the reason that was given. */
  #reported: string | undefined

  constructor(options: WatchedFileOptions) {
    this.#options = options
  }

  /** Starts to check; the content at the start is reported, too. */
  start(): void {
    try {
      this.#announcements = watch(dirname(this.#options.path), { persistent: false }, () => this.#announced())
      // The folder is gone, or the kernel has no more watches for this user: the checks go on.
      this.#announcements.on('error', () => this.#announcements?.close())
    } catch {
      // As above.
    }
    this.#checkIn(this.#pollMs)
  }

  close(): void {
    this.#isClosed = true
    this.#announcements?.close()
    clearTimeout(this.#timer)
  }

  get #pollMs(): number {
    return this.#options.pollMs ?? 1000
  }

  #announced(): void {
    if (this.#isChecking) this.#isAnnounced = true
    else if (this.#dueMs - performance.now() > this.#pollMs) this.#checkIn(this.#pollMs)
  }

  #checkIn(milliseconds: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#timer)
    this.#dueMs = performance.now() + milliseconds
    this.#timer = setTimeout(() => void this.#checkNow(), milliseconds)
    this.#timer.unref()
  }

  async #checkNow(): Promise<void> {
    this.#isChecking = true
    this.#isAnnounced = false
    try {
      await this.#check()
    } finally {
      this.#isChecking = false
      const mayChange = this.#wasChanging || this.#isAnnounced
      this.#checkIn(mayChange ? this.#pollMs : this.#pollMs * REST_FACTOR)
    }
  }

  async #check(): Promise<void> {
    const { path, onContent } = this.#options
    const identity = await identityOf(path)
    const isChanging = identity !== this.#identity
    const hasSettled = this.#wasChanging && !isChanging
    this.#identity = identity
    this.#wasChanging = isChanging
    if (!hasSettled) return
    let error: Error | undefined
    let content: string
    try {
      content = createHash('sha256')
        .update(await readFile(path))
        .digest('hex')
    } catch (cause) {
      error = asError(cause)
      content = error.message
    }
    if (content === this.#reported || this.#isClosed) return
    this.#reported = content
    await onContent(error)
    // It may have read another content, which this digest does not stand for.
    if ((await identityOf(path)) !== identity) this.#reported = undefined
  }
}

async function identityOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true })
    return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`
  } catch (error) {
    return String(error)
  }
}
