/**
 * npm packages of the image as folders, whose files are those of the archive with the digest of
 * package-lock.json: SBOM and provenance name that digest. Archives come with `npm pack`, from
 * npm's own cache where they are in it, and stay unpacked in ours.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
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

/**
 * Installed packages, of which every file is compared with the archive. Rejects with Unmet when an
 * archive is not to be had, and with an error that names the file when one differs.
 * @param folders relative to the repository, as package-lock.json names them:
 * `node_modules/winston`
 */
export async function installedPackages(
  folders: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<readonly NpmPackage[]> {
  const archives = await unpacked(folders, env)
  return folders.map((folder, index) => {
    const installed = join(projectFolder, folder)
    requireSameFiles(installed, archives[index] ?? '')
    return describe(folder, installed)
  })
}

/** A package, installed or not. Rejects as `installedPackages` does. */
export async function npmPackage(name: string, env: NodeJS.ProcessEnv): Promise<NpmPackage> {
  const folder = `node_modules/${name}`
  const [archive = ''] = await unpacked([folder], env)
  return describe(folder, archive)
}

/** The archives of packages, unpacked in the cache. */
async function unpacked(folders: readonly string[], env: NodeJS.ProcessEnv): Promise<readonly string[]> {
  const store = join(cacheFolder(env), 'image')
  const wanted = folders.map((folder) => {
    const { version, integrity } = locked(folder)
    const hex = Buffer.from(integrity.replace(/^sha512-/, ''), 'base64').toString('hex')
    const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
    return { path: join(store, `npm-${hex.slice(0, 32)}`), spec: `${name}@${version}`, integrity }
  })
  const missing = new Map(wanted.filter(({ path }) => !existsSync(path)).map((one) => [one.integrity, one]))
  if (missing.size > 0) await unpackInto(store, missing)
  return wanted.map(({ path }) => path)
}

interface Wanted {
  readonly path: string
  readonly spec: string
  readonly integrity: string
}

/** @param wanted by their integrity */
async function unpackInto(store: string, wanted: ReadonlyMap<string, Wanted>): Promise<void> {
  const specs = Array.from(wanted.values(), ({ spec }) => spec)
  say(`Fetching ${specs.length === 1 ? specs[0] : `${specs.length} npm packages`} ...`)
  const fresh = unfinishedFolder(store, NEEDED_MIB)
  try {
    const flags = ['--prefer-offline', '--ignore-scripts', '--loglevel=error']
    const packed = await finish('npm', ['pack', ...specs, ...flags], { cwd: fresh })
    if (packed.code !== 0) throw new Unmet(`${specs.join(', ')} are not to be had: ${tail(packed.output, 3)}`)
    const left = new Map(wanted)
    for (const file of readdirSync(fresh).filter((one) => one.endsWith('.tgz'))) {
      const digest = createHash('sha512')
        .update(readFileSync(join(fresh, file)))
        .digest('base64')
      const one = left.get(`sha512-${digest}`)
      if (one === undefined) throw new Error(`${file} does not have the digest of package-lock.json`)
      left.delete(one.integrity)
      const folder = join(fresh, digest.replaceAll('/', '_'))
      mkdirSync(folder)
      const { code, output } = await finish('tar', ['-xzf', join(fresh, file), '-C', folder, '--strip-components=1'])
      if (code !== 0) throw new Unmet(`${one.spec} could not be unpacked: ${tail(output, 3)}`)
      keep(folder, one.path)
    }
    const [lost] = left.values()
    if (lost !== undefined) throw new Unmet(`npm pack gave no archive of ${lost.spec}`)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

/** Another process may have unpacked the same archive meanwhile. */
function keep(folder: string, path: string): void {
  try {
    renameSync(folder, path)
  } catch (error) {
    if (!existsSync(path)) throw error
  }
}

/**
 * Throws when the files of two folders differ, without packages that npm has put inside. Modes and
 * times do not count.
 */
export function requireSameFiles(installed: string, archive: string): void {
  const [here, there] = [filesIn(installed), filesIn(archive)]
  for (const name of new Set([...here, ...there])) {
    const isSame =
      here.has(name) && there.has(name) && readFileSync(join(installed, name)).equals(readFileSync(join(archive, name)))
    if (!isSame)
      throw new Error(`${join(installed, name)} is not that of the archive that package-lock.json names: run npm ci`)
  }
}

function filesIn(folder: string): ReadonlySet<string> {
  const inner = join(folder, 'node_modules')
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return new Set(
    entries
      .filter(
        (entry) => !entry.isDirectory() && entry.parentPath !== inner && !entry.parentPath.startsWith(`${inner}/`),
      )
      .map((entry) => relative(folder, join(entry.parentPath, entry.name))),
  )
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
