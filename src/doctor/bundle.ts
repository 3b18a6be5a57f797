/**
 * Bundles: the facts of a node as a file, to be analysed elsewhere. JSON, compressed when the name
 * ends in `.gz`. What a bundle says is hostile until it has passed the shape of facts.
 * @impure
 */
import { readFile, stat, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { CodedError, errorText } from '../values/errors.ts'
import { ShapeError } from '../values/shape.ts'
import { printable } from '../values/quote.ts'
import { FACTS, FACTS_FORMAT, type NodeFacts } from './facts.ts'
import { type JsonSize, jsonSize } from './json-size.ts'

/** The file, and the JSON in a compressed file: the facts of any node are shorter. */
const MAX_BYTES = 8 << 20
/** Facts have no more of either. */
const MAX_SIZE: JsonSize = { depth: 16, values: 200_000 }
const GZIP_MAGIC = [0x1f, 0x8b]

/**
 * Writes a new file that only its owner can read. Rejects with CodedError `bundle-unwritable`, also
 * when the file exists: another program may have put a link there.
 */
export async function writeBundle(path: string, facts: NodeFacts): Promise<void> {
  const json = Buffer.from(`${JSON.stringify(facts, undefined, 1)}\n`)
  const bytes = path.endsWith('.gz') ? await promisify(gzip)(json) : json
  try {
    await writeFile(path, bytes, { flag: 'wx', mode: 0o600 })
  } catch (cause) {
    throw new CodedError('bundle-unwritable', `--bundle: ${errorText(cause)}`, { cause })
  }
}

/** Rejects with CodedError `bundle-unreadable`, or `bundle-invalid`, which names the member and the reason. */
export async function readBundle(path: string): Promise<NodeFacts> {
  return bundleOf(path, await readBundleText(path))
}

/** The facts in the text of a bundle. Throws CodedError `bundle-invalid`. */
export function bundleOf(path: string, text: string): NodeFacts {
  const { depth, values } = jsonSize(text)
  if (depth > MAX_SIZE.depth || values > MAX_SIZE.values)
    throw new CodedError(
      'bundle-invalid',
      `--from ${path}: this is no bundle: it has more than ${MAX_SIZE.values} values, or more than ${MAX_SIZE.depth} within each other`,
    )
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    throw new CodedError('bundle-invalid', `--from ${path}: this is no bundle: ${printable(errorText(cause))}`, {
      cause,
    })
  }
  try {
    // First, because a newer bundle may have another shape.
    const format = formatOf(json)
    if (format > FACTS_FORMAT)
      throw new CodedError(
        'bundle-invalid',
        `the format is ${format}, and this program reads ${FACTS_FORMAT}: use the kube-ipvs that made it, or a newer one`,
      )
    return FACTS(json, '')
  } catch (cause) {
    if (!(cause instanceof CodedError)) throw cause
    const isWhole = cause instanceof ShapeError && cause.path === ''
    const message = isWhole ? `the bundle ${cause.reason}` : cause.message
    throw new CodedError('bundle-invalid', `--from ${path}: ${message}`, { cause })
  }
}

/** 0: it says none. */
function formatOf(json: unknown): number {
  const format = typeof json === 'object' && json !== null && 'format' in json ? json.format : 0
  return typeof format === 'number' ? format : 0
}

async function readBundleText(path: string): Promise<string> {
  try {
    const { size, isFile } = await statOf(path)
    if (!isFile) throw new Error('not a file')
    if (size > MAX_BYTES) throw new Error(`larger than ${MAX_BYTES >> 20} MiB`)
    const bytes = await readFile(path)
    if (!GZIP_MAGIC.every((byte, index) => bytes[index] === byte)) return bytes.toString('utf8')
    return (await promisify(gunzip)(bytes, { maxOutputLength: MAX_BYTES })).toString('utf8')
  } catch (cause) {
    throw new CodedError('bundle-unreadable', `--from ${path}: ${errorText(cause)}`, { cause })
  }
}

async function statOf(path: string): Promise<{ readonly size: number; readonly isFile: boolean }> {
  const found = await stat(path)
  return { size: found.size, isFile: found.isFile() }
}
