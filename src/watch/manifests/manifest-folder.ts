/**
 * Reads a folder of manifests: its files, and the content of those that may have changed. Small
 * files are read every time, because a file system may report outdated attributes.
 * @impure
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorText } from '../../values/errors.ts'

/** The state of a file at one reading. */
export interface FileState {
  /** Equal exactly when the content is. */
  readonly hash: string
  /** Size, times of change and inode from stat. */
  readonly attributes: string
  /** The content; undefined when it is the same as at the reading before. */
  readonly text: string | undefined
  /** Why the file could not be read; '' when it was read. */
  readonly error: string
}

/** The state of a folder at one reading. */
export interface FolderState {
  /**
   * Device and inode. They change when the path leads to another folder: after a mount, an unmount,
   * or a change of a link.
   */
  readonly identity: string
  /** The files by name, sorted, without hidden files and subfolders. */
  readonly files: ReadonlyMap<string, FileState>
}

/** A file above this size is only read again when its attributes changed. */
const SMALL_BYTES = 256 * 1024
/** A file above this size is refused: parsing takes seconds per MiB, and the API server accepts no larger objects. */
const MAX_BYTES = 2 * 1024 * 1024

/** Rejects when the folder cannot be read. @param before the files of the reading before, by name */
export async function readFolder(directory: string, before: ReadonlyMap<string, FileState>): Promise<FolderState> {
  const { dev, ino } = await stat(directory)
  const names = (await readdir(directory)).filter((name) => /^[^.].*\.(ya?ml|json)$/i.test(name)).toSorted()
  const files = new Map<string, FileState>()
  for (const name of names) {
    const state = await readState(join(directory, name), before.get(name))
    if (state !== undefined) files.set(name, state)
  }
  return { identity: `${dev} ${ino}`, files }
}

/** Undefined when it was removed meanwhile, or is not a file. */
async function readState(path: string, before: FileState | undefined): Promise<FileState | undefined> {
  let attributes = ''
  try {
    const entry = await stat(path, { bigint: true })
    if (!entry.isFile()) return undefined
    const { size, mtimeNs, ctimeNs, ino } = entry
    attributes = `${size} ${mtimeNs} ${ctimeNs} ${ino}`
    if (size > MAX_BYTES) return failed(attributes, `is larger than ${MAX_BYTES} bytes`)
    if (before !== undefined && before.error === '' && size > SMALL_BYTES && before.attributes === attributes)
      return { ...before, text: undefined }
    const bytes = await readFile(path)
    const hash = createHash('sha256').update(bytes).digest('base64')
    return { hash, attributes, text: hash === before?.hash ? undefined : bytes.toString('utf8'), error: '' }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (code === 'ENOENT') return undefined
    return failed(attributes, errorText(error))
  }
}

function failed(attributes: string, error: string): FileState {
  return { hash: `error ${error}`, attributes, text: undefined, error }
}
