/**
 * Reads a folder of manifests: which files it holds and what is in those that may have changed.
 * Small files are read at every look, because a file system may show attributes that are out of date.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorText } from '../../values/errors.ts'

/** A file as it was at one look. */
export interface FileState {
  /** Equal exactly when the content is. */
  readonly hash: string
  /** What stat said: size, time of change, inode. */
  readonly attributes: string
  /** The content; undefined when the file was not read because nothing showed that it changed. */
  readonly text: string | undefined
  /** Why it could not be read; '' when it could. */
  readonly error: string
}

/** A folder as it was at one look. */
export interface FolderState {
  /** Another one means another folder behind the same path: something was mounted or unmounted, or a link was switched. */
  readonly identity: string
  /** By name, sorted. Hidden files and folders are left out. */
  readonly files: ReadonlyMap<string, FileState>
}

/** Above this size a file is read again only when its attributes changed. */
const SMALL_BYTES = 256 * 1024
/** A file above this size is not read at all: parsing takes seconds a MiB, and the API server takes no larger objects. */
const MAX_BYTES = 2 * 1024 * 1024

/** Rejects when the folder cannot be read. @param before files of the look before, by name */
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

/** Undefined when it is gone by now, or no file. */
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
