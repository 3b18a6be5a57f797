/**
 * Reads the configuration file from disk. An unreadable file is an error of the configuration like any other, not an exception.
 * @impure
 */
import { open } from 'node:fs/promises'
import { MAX_CHARACTERS, TOO_LONG } from './document.ts'
import { type DecodedConfiguration, decodeConfiguration, type Refused } from './load.ts'
import { errorText } from '../values/errors.ts'

/** Reads and decodes the file; flags may still change the result. Every failure is returned as a problem that names the file. */
export async function decodeConfigurationFile(path: string): Promise<DecodedConfiguration | Refused> {
  const text = await readText(path)
  return typeof text === 'string' ? decodeConfiguration(text, path) : text
}

/** Go's texts for the errors of opening and reading a path. */
const REASONS: Readonly<Record<string, readonly [operation: string, reason: string]>> = {
  ENOENT: ['open', 'no such file or directory'],
  EACCES: ['open', 'permission denied'],
  ENOTDIR: ['open', 'not a directory'],
  ELOOP: ['open', 'too many levels of symbolic links'],
  ENAMETOOLONG: ['open', 'file name too long'],
  EISDIR: ['read', 'is a directory'],
}

/** The text of a file; of endless devices only as much as is too long. */
async function readText(path: string): Promise<string | Refused> {
  let bytes: Buffer
  try {
    bytes = await readBounded(path)
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
    const [operation, reason] = REASONS[code] ?? ['open', errorText(cause)]
    const message = `failed complete: ${operation} ${path}: ${reason}`
    return { errors: [{ code: 'config-unreadable', about: 'configuration', subject: path, message }] }
  }
  const text = bytes.toString('utf8')
  const error = bytes.length > MAX_CHARACTERS ? TOO_LONG : text.includes('\ufffd') ? utf8Error(bytes) : undefined
  if (error === undefined) return text
  const message = `failed complete: failed to decode: ${error}`
  return { errors: [{ code: 'config-decode', about: 'configuration', subject: path, message }] }
}

/** The first bytes of a file, one more than a configuration may have. */
async function readBounded(path: string): Promise<Buffer> {
  const file = await open(path)
  try {
    const chunks: Buffer[] = []
    let left = MAX_CHARACTERS + 1
    while (left > 0) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(left, CHUNK)))
      if (bytesRead === 0) break
      chunks.push(buffer.subarray(0, bytesRead))
      left -= bytesRead
    }
    return Buffer.concat(chunks)
  } finally {
    await file.close()
  }
}

const CHUNK = 65_536

/** The error of Go's YAML reader for bytes that are not UTF-8. */
function utf8Error(bytes: Buffer): string | undefined {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return undefined
  } catch {
    const at = bytes.findIndex((byte, index) => byte >= 0x80 && !startsLetter(bytes, index))
    const byte = bytes[at] ?? 0
    return byte >= 0xc2 && byte <= 0xf4 ? 'yaml: invalid trailing UTF-8 octet' : 'yaml: invalid leading UTF-8 octet'
  }
}

/** Whether a byte beyond ASCII belongs to a complete letter. */
function startsLetter(bytes: Buffer, index: number): boolean {
  const byte = bytes[index] ?? 0
  const start = byte >= 0xc0 ? index : lastLead(bytes, index)
  const lead = bytes[start] ?? 0
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2
  const letter = bytes.subarray(start, start + length)
  return index - start < length && letter.equals(Buffer.from(letter.toString('utf8'), 'utf8'))
}

function lastLead(bytes: Buffer, index: number): number {
  for (let back = index; back > index - 4 && back >= 0; back--) if ((bytes[back] ?? 0) >= 0xc0) return back
  return index
}
