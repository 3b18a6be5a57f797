/**
 * Reads the configuration file from disk. An unreadable file is an error of the configuration like
 * any other, not an exception.
 * @impure
 */
import { isUtf8 } from 'node:buffer'
import { open } from 'node:fs/promises'
import { MAX_CHARACTERS, TOO_LONG } from './document.ts'
import { type DecodedConfiguration, decodeConfiguration, type Refused } from './load.ts'
import { errorText } from '../values/errors.ts'
import { ownMember } from '../values/own-member.ts'

/**
 * Reads and decodes the file; flags may still change the result. Every failure is returned as a
 * problem that names the file.
 */
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
    const [operation, reason] = ownMember(REASONS, code) ?? ['open', errorText(cause)]
    const message = `failed complete: ${operation} ${path}: ${reason}`
    return { errors: [{ code: 'config-unreadable', about: 'configuration', subject: path, message }] }
  }
  const error = bytes.length > MAX_CHARACTERS ? TOO_LONG : isUtf8(bytes) ? undefined : 'the file is not UTF-8'
  if (error === undefined) return bytes.toString('utf8')
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
