/**
 * `node dev/release/verify.mjs FOLDER --key KEY.pub`: whether the files of a release are those that
 * the maintainers signed with minisign (Ed25519 over BLAKE2b-512). Plain JavaScript for Node 20,
 * without npm packages, for machines that have neither minisign nor this repository's Node.
 */
import { createHash, createPublicKey, verify } from 'node:crypto'
import { createReadStream, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

export const SUMS_FILE = 'SHA256SUMS'
export const SIGNATURE_FILE = `${SUMS_FILE}.minisig`

/** A problem that the person who verifies has to read. */
export class NotVerified extends Error {}

const KEY_BYTES = 42
const SIGNATURE_BYTES = 74
/** Algorithm of a key (and of signatures over whole files, which are not accepted), and of signatures over BLAKE2b-512. */
const [ED25519, HASHED] = ['Ed', 'ED']
/** Of an Ed25519 key as DER, before its 32 bytes (RFC 8410). */
const DER_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/**
 * The trusted comment of a signature that is right; throws NotVerified otherwise.
 * @param {Buffer} message @param {string} signatureText @param {string} keyText
 */
export function verifySignature(message, signatureText, keyText) {
  const key = linesOf(keyText, 'public key')
  const keyBytes = decoded(key[1], KEY_BYTES, ED25519, 'public key')
  const [, first, comment = '', second] = linesOf(signatureText, 'signature')
  const signature = decoded(first, SIGNATURE_BYTES, HASHED, 'signature')
  if (!comment.startsWith('trusted comment: ')) throw new NotVerified('the signature has no trusted comment')
  const trusted = comment.slice('trusted comment: '.length)
  if (!signature.subarray(2, 10).equals(keyBytes.subarray(2, 10)))
    throw new NotVerified('the signature is of another key')
  const publicKey = createPublicKey({
    key: Buffer.concat([DER_PREFIX, keyBytes.subarray(10)]),
    format: 'der',
    type: 'spki',
  })
  const bare = signature.subarray(10)
  const hashed = createHash('blake2b512').update(message).digest()
  if (!verify(undefined, hashed, publicKey, bare)) throw new NotVerified('the signature is of another content')
  const commented = Buffer.concat([bare, Buffer.from(trusted)])
  if (!verify(undefined, commented, publicKey, Buffer.from(second ?? '', 'base64')))
    throw new NotVerified('the trusted comment was changed')
  return trusted
}

/** @param {string} text @param {string} what */
function linesOf(text, what) {
  const lines = text.split(/\r?\n/)
  if (lines[0]?.startsWith('untrusted comment: ') !== true) throw new NotVerified(`this is no ${what} of minisign`)
  return lines
}

/** @param {string | undefined} line @param {number} length @param {string} algorithm @param {string} what */
function decoded(line, length, algorithm, what) {
  const bytes = Buffer.from(line ?? '', 'base64')
  if (bytes.length !== length || bytes.toString('latin1', 0, 2) !== algorithm)
    throw new NotVerified(`this ${what} is of another kind`)
  return bytes
}

/**
 * Files of a folder against its SHA256SUMS, and that against its signature. Returns the trusted
 * comment.
 * @param {string} folder @param {string} keyText
 */
export async function verifyRelease(folder, keyText) {
  const sums = readFileSync(join(folder, SUMS_FILE))
  const trusted = verifySignature(sums, readFileSync(join(folder, SIGNATURE_FILE), 'utf8'), keyText)
  const listed = new Map(sums.toString().trimEnd().split('\n').map(sumOf))
  const present = readdirSync(folder).filter((name) => name !== SUMS_FILE && name !== SIGNATURE_FILE)
  const extra = present.filter((name) => !listed.has(name))
  if (extra.length > 0) throw new NotVerified(`not signed: ${extra.join(', ')}`)
  for (const [name, sha256] of listed) {
    if (!present.includes(name)) throw new NotVerified(`missing: ${name}`)
    const actual = createHash('sha256')
    for await (const piece of createReadStream(join(folder, name))) actual.update(piece)
    if (actual.digest('hex') !== sha256) throw new NotVerified(`changed: ${name}`)
  }
  return trusted
}

/** Name and digest. @param {string} line @returns {[string, string]} */
function sumOf(line) {
  const [, sha256, name] = /^([0-9a-f]{64}) [ *]([\w.+-]+)$/.exec(line) ?? []
  if (sha256 === undefined || name === undefined) throw new NotVerified(`${SUMS_FILE} has a line that is none: ${line}`)
  return [name, sha256]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { key: { type: 'string' } } })
  const [folder] = positionals
  if (folder === undefined || values.key === undefined) throw new Error('usage: verify.mjs FOLDER --key KEY.pub')
  try {
    const trusted = await verifyRelease(folder, readFileSync(values.key, 'utf8'))
    process.stdout.write(`All files in ${folder} are signed: ${trusted}\n`)
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
  }
}
