/**
 * A file that is watched by its content: written in place, replaced by rename, or swapped with a symbolic link as kubelet does with
 * ConfigMaps. It is checked once a second, because some file systems lose the kernel's announcements, and announcements follow a
 * swapped link to the old file. A check that finds no change is one stat. A changed file is read only when it was the same at two
 * checks, so that a file that is being written is not taken for a complete one.
 */
import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { asError } from '../values/errors.ts'

export interface WatchedFileOptions {
  readonly path: string
  /** The content has changed since the last call, or (with a reason) the file cannot be read. */
  readonly onContent: (reason: Error | undefined) => Promise<void>
  /** Default 1000. */
  readonly pollMs?: number
}

export class WatchedFile {
  readonly #options: WatchedFileOptions
  #timer: NodeJS.Timeout | undefined
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
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#check().finally(() => this.start()), this.#options.pollMs ?? 1000)
    this.#timer.unref()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
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
