/**
 * A file watched by content: written in place, replaced by rename, or swapped with a symbolic link as kubelet does with
 * ConfigMaps. It is looked at once a second, since announcements of the kernel are lost on some file systems and follow
 * a link that is swapped to the old file; a look that finds nothing is one stat.
 * What could break: a file that is being written must not be taken for a whole one, so it counts once it rests.
 */
import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { asError } from '../values/errors.ts'

export interface WatchedFileOptions {
  readonly path: string
  /** The content is another one than at the last call, or (undefined) cannot be read, with the reason. */
  readonly onContent: (reason: Error | undefined) => Promise<void>
  /** Default 1000. */
  readonly pollMs?: number
}

export class WatchedFile {
  readonly #options: WatchedFileOptions
  #timer: NodeJS.Timeout | undefined
  #closed = false
  /** What stat said last: the content is read when that changes. */
  #seen = ''
  /** It changed at the last look: it counts when it is the same at the next one. */
  #moving = true
  #told: string | undefined

  constructor(options: WatchedFileOptions) {
    this.#options = options
  }

  /** Begins to look; what is there then is told, too. */
  start(): void {
    if (this.#closed) return
    this.#timer = setTimeout(() => void this.#look().finally(() => this.start()), this.#options.pollMs ?? 1000)
    this.#timer.unref()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  async #look(): Promise<void> {
    const { path, onContent } = this.#options
    const seen = await identityOf(path)
    const wasMoving = this.#moving
    this.#moving = seen !== this.#seen
    this.#seen = seen
    if (this.#moving || !wasMoving) return
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
    if (content === this.#told || this.#closed) return
    this.#told = content
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
