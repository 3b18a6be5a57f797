/**
 * A folder as a layer of an image: a tar archive that depends on names, content and modes only.
 * Owners are 0, times are 0, entries are sorted. The format is ustar (POSIX.1-1988), which all
 * container engines read.
 */
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

export interface Entry {
  /** Relative, without a slash at its end. */
  readonly path: string
  readonly kind: 'file' | 'folder' | 'link'
  /** Permission bits. */
  readonly mode: number
  /** In bytes; 0 for folders and links. */
  readonly size: number
}

/** Everything below a folder, by path; links are not followed. */
export function entriesBelow(top: string): readonly Entry[] {
  const entries: Entry[] = []
  const visit = (folder: string): void => {
    for (const { name } of readdirSync(join(top, folder), { withFileTypes: true }).toSorted(byName)) {
      const path = join(folder, name)
      const stat = lstatSync(join(top, path))
      const kind = stat.isDirectory() ? 'folder' : stat.isSymbolicLink() ? 'link' : 'file'
      entries.push({ path, kind, mode: stat.mode & 0o7777, size: kind === 'file' ? stat.size : 0 })
      if (kind === 'folder') visit(path)
    }
  }
  visit('')
  return entries
}

/** By code units, which no locale changes. */
const byName = (a: { readonly name: string }, b: { readonly name: string }): number => (a.name < b.name ? -1 : 1)

const BLOCK = 512
const TYPE = { file: '0', link: '2', folder: '5' } as const

/** For an archive of files that nobody starts: whatever the umask was when they were written. */
export const plainMode = ({ kind }: Entry): number => (kind === 'folder' ? 0o755 : 0o644)

/** The archive in pieces, in their order. Throws when a path or the target of a link is too long for ustar. */
export function* tarOf(top: string, modeOf = ({ mode }: Entry): number => mode): Generator<Buffer> {
  for (const found of entriesBelow(top)) {
    const entry = { ...found, mode: modeOf(found) }
    const target = entry.kind === 'link' ? readlinkSync(join(top, entry.path)) : ''
    yield header(entry, target)
    if (entry.kind !== 'file') continue
    yield readFileSync(join(top, entry.path))
    yield Buffer.alloc((BLOCK - (entry.size % BLOCK)) % BLOCK)
  }
  yield Buffer.alloc(2 * BLOCK)
}

/** struct posix_header of tar.h. */
function header({ path, kind, mode, size }: Entry, target: string): Buffer {
  const block = Buffer.alloc(BLOCK)
  const { prefix, name } = split(kind === 'folder' ? `${path}/` : path)
  if (target.length > 100) throw new Error(`the target of the link ${path} is too long for a tar archive`)
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`
  block.write(name, 0)
  block.write(octal(kind === 'link' ? 0o777 : mode, 7), 100)
  block.write(octal(0, 7), 108)
  block.write(octal(0, 7), 116)
  block.write(octal(size, 11), 124)
  block.write(octal(0, 11), 136)
  // The checksum is that of the header with spaces in this field.
  block.write(' '.repeat(8), 148)
  block.write(TYPE[kind], 156)
  block.write(target, 157)
  block.write('ustar\x0000', 257)
  block.write(prefix, 345)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)} `, 148)
  return block
}

/** A path of more than 100 bytes is divided at a slash: at most 155 before it and 100 after it. */
function split(path: string): { readonly prefix: string; readonly name: string } {
  if (Buffer.byteLength(path) <= 100) return { prefix: '', name: path }
  const at = path.indexOf('/', path.length - 101)
  const [prefix, name] = [path.slice(0, at), path.slice(at + 1)]
  if (at < 1 || name === '' || Buffer.byteLength(prefix) > 155 || Buffer.byteLength(name) > 100)
    throw new Error(`the path ${path} is too long for a tar archive`)
  return { prefix, name }
}
