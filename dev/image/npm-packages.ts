/**
 * npm packages of the image as folders: from node_modules if npm installed them there, otherwise (packages for another
 * architecture) with `npm pack` into the cache, compared with the digest of package-lock.json.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { Unmet, finish, projectFolder, say, tail } from '../progress.mjs'

/** Node's binary unpacked, and its package. */
const NEEDED_MIB = 400

export interface NpmPackage {
  readonly name: string
  readonly version: string
  /** An SPDX expression. */
  readonly license: string
  /** Absolute. */
  readonly folder: string
  /** `sha512-...` of package-lock.json. */
  readonly integrity: string
}

/** @param folder relative to the repository, as package-lock.json names it: `node_modules/winston` */
export function installedPackage(folder: string): NpmPackage {
  return describe(folder, join(projectFolder, folder))
}

/** Rejects with Unmet when the package is neither installed nor to be had. */
export async function npmPackage(name: string, env: NodeJS.ProcessEnv): Promise<NpmPackage> {
  const folder = `node_modules/${name}`
  if (existsSync(join(projectFolder, folder, 'package.json'))) return installedPackage(folder)
  const { version, integrity } = locked(folder)
  const store = join(cacheFolder(env), 'image')
  const unpacked = join(
    store,
    `npm-${Buffer.from(integrity.replace(/^sha512-/, ''), 'base64')
      .toString('hex')
      .slice(0, 32)}`,
  )
  if (!existsSync(unpacked)) await unpackInto(unpacked, store, `${name}@${version}`, integrity)
  return describe(folder, unpacked)
}

async function unpackInto(unpacked: string, store: string, spec: string, integrity: string): Promise<void> {
  say(`Fetching ${spec} ...`)
  const fresh = unfinishedFolder(store, NEEDED_MIB)
  try {
    const packed = await finish('npm', ['pack', spec, '--ignore-scripts', '--loglevel=error'], { cwd: fresh })
    const [file] = readdirSync(fresh).filter((one) => one.endsWith('.tgz'))
    if (packed.code !== 0 || file === undefined) throw new Unmet(`${spec} is not to be had: ${tail(packed.output, 3)}`)
    const digest = createHash('sha512')
      .update(readFileSync(join(fresh, file)))
      .digest('base64')
    if (`sha512-${digest}` !== integrity) throw new Error(`${spec} does not have the digest of package-lock.json`)
    const folder = join(fresh, 'unpacked')
    mkdirSync(folder)
    const { code, output } = await finish('tar', ['-xzf', join(fresh, file), '-C', folder, '--strip-components=1'])
    if (code !== 0) throw new Unmet(`${spec} could not be unpacked: ${tail(output, 3)}`)
    renameSync(folder, unpacked)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

function locked(folder: string): { readonly version: string; readonly integrity: string } {
  const lock = JSON.parse(readFileSync(join(projectFolder, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version: string; readonly integrity: string }>>
  } // npm's format
  const entry = lock.packages[folder]
  if (entry === undefined) throw new Error(`package-lock.json has no ${folder}`)
  return entry
}

function describe(folder: string, path: string): NpmPackage {
  const { version, integrity } = locked(folder)
  const manifest = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as {
    readonly name: string
    readonly version: string
    readonly license?: string
  } // npm's format
  if (manifest.version !== version)
    throw new Error(`${path} has version ${manifest.version}, and package-lock.json ${version}: run npm ci`)
  return { name: manifest.name, version, integrity, folder: path, license: manifest.license ?? 'NOASSERTION' }
}
