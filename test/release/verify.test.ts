/**
 * Signatures of a release. The first one was made by minisign 0.11 of Debian with a throw-away key
 * (`minisign -G -W`, `minisign -Sm SHA256SUMS -t "kube-ipvs 0.1.0"`); the others are made here.
 */
import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, hash, sign } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { NotVerified, SIGNATURE_FILE, SUMS_FILE, verifyRelease, verifySignature } from '../../dev/release/verify.mjs'

const MINISIGN = {
  message: Buffer.from('aaaa  one\nbbbb  two\n'),
  key: `untrusted comment: minisign public key 2142D439541F424F
RWRPQh9UOdRCIYlDRhnhF3ILyjd4vxERGo1JTEbwLh8jnQDeLlXRFjj4
`,
  signature: `untrusted comment: signature of the tests
RURPQh9UOdRCIaUOnw1RDgAiLJPYr4u8JDINLbLIQG1m/XlRhTOYB5VKamvhJ/jDHjYmOgZAu7Eie+AU+DvmDhC8ESAV+2PBswU=
trusted comment: kube-ipvs 0.1.0
xzOVwgQ3tMqbBtZsjoa3mO33HhI0BBGT3DaUarkAEIe0Pmu5KtL+Y0AuLNhNzKiaabhitzjftKUCscixtWyRDA==
`,
}

const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const ID = Buffer.from('0123456789abcdef', 'hex')
const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
const KEY = keyText(Buffer.concat([Buffer.from('Ed'), ID, raw]))

function keyText(bytes: Buffer): string {
  return `untrusted comment: throw-away\n${bytes.toString('base64')}\n`
}

/** As minisign makes it. */
function signed(message: Buffer, trusted: string, { id = ID, algorithm = 'ED' } = {}): string {
  const bare = sign(undefined, hash('blake2b512', message, 'buffer'), privateKey)
  const global = sign(undefined, Buffer.concat([bare, Buffer.from(trusted)]), privateKey)
  const first = Buffer.concat([Buffer.from(algorithm), id, bare]).toString('base64')
  return `untrusted comment: c\n${first}\ntrusted comment: ${trusted}\n${global.toString('base64')}\n`
}

const refuses = (message: Buffer, signature: string, key: string, why: RegExp): void =>
  assert.throws(
    () => verifySignature(message, signature, key),
    (error: unknown) => error instanceof NotVerified && why.test(error.message),
  )

describe('verifySignature', () => {
  it('accepts what minisign has signed, and gives the trusted comment', () => {
    assert.equal(verifySignature(MINISIGN.message, MINISIGN.signature, MINISIGN.key), 'kube-ipvs 0.1.0')
  })

  it('refuses every change of one bit in the message and in the signature of minisign', () => {
    const { message, signature, key } = MINISIGN
    for (let bit = 0; bit < message.length * 8; bit++) {
      const other = Buffer.from(message)
      other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      refuses(other, signature, key, /another content/)
    }
    const [head = '', first = '', ...rest] = signature.split('\n')
    for (let bit = 0; bit < 74 * 8; bit++) {
      const other = Buffer.from(first, 'base64')
      other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      refuses(message, [head, other.toString('base64'), ...rest].join('\n'), key, /another/)
    }
  })

  it('refuses another comment, another key, a signature over the whole file, and what is no signature', () => {
    const message = Buffer.from('x')
    const good = signed(message, 'kube-ipvs 1.2.3')
    assert.equal(verifySignature(message, good, KEY), 'kube-ipvs 1.2.3')
    assert.equal(verifySignature(message, good.replaceAll('\n', '\r\n'), KEY), 'kube-ipvs 1.2.3')
    refuses(message, good.replace('1.2.3', '1.2.4'), KEY, /comment was changed/)
    refuses(message, good.replace('trusted comment: kube', 'kube'), KEY, /no trusted comment/)
    refuses(message, good, MINISIGN.key, /another key/)
    refuses(message, signed(message, 'c', { id: Buffer.alloc(8) }), KEY, /another key/)
    refuses(message, signed(message, 'c', { algorithm: 'Ed' }), KEY, /another kind/)
    refuses(message, good, keyText(Buffer.from('Ed')), /another kind/)
    for (const text of ['', 'x', good.slice(0, 60)]) refuses(message, text, KEY, /no signature|another kind|no trusted/)
  })
})

function release(t: TestContext): { readonly folder: string; readonly write: (name: string, text: string) => void } {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-verify-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text)
  const files = { 'kube-ipvs-1.2.3.tgz': 'chart', 'kube-ipvs-1.2.3.openvex.json': '{}' }
  for (const [name, text] of Object.entries(files)) write(name, text)
  const lines = Object.entries(files).map(
    ([name, text]) => `${createHash('sha256').update(text).digest('hex')}  ${name}\n`,
  )
  write(SUMS_FILE, lines.join(''))
  write(SIGNATURE_FILE, signed(Buffer.from(lines.join('')), 'kube-ipvs 1.2.3'))
  return { folder, write }
}

describe('verifyRelease', () => {
  it('accepts a folder whose files are all signed', async (t) => {
    assert.equal(await verifyRelease(release(t).folder, KEY), 'kube-ipvs 1.2.3')
  })

  it('names a file that was changed, one that is missing and one that was added', async (t) => {
    const { folder, write } = release(t)
    write('kube-ipvs-1.2.3.tgz', 'chart2')
    await assert.rejects(verifyRelease(folder, KEY), /^Error: changed: kube-ipvs-1\.2\.3\.tgz$/)
    rmSync(join(folder, 'kube-ipvs-1.2.3.tgz'))
    await assert.rejects(verifyRelease(folder, KEY), /missing: kube-ipvs-1\.2\.3\.tgz/)
    write('kube-ipvs-1.2.3.tgz', 'chart')
    write('more', 'x')
    await assert.rejects(verifyRelease(folder, KEY), /not signed: more/)
  })

  it('refuses sums that name a file outside the folder, although they are signed', async (t) => {
    const { folder, write } = release(t)
    const sums = `${'0'.repeat(64)}  ../x\n`
    write(SUMS_FILE, sums)
    write(SIGNATURE_FILE, signed(Buffer.from(sums), 'c'))
    await assert.rejects(verifyRelease(folder, KEY), /a line that is none/)
  })
})
