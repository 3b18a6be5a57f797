/**
 * The Debian packages of the image: exactly the versions and digests of
 * dev/image/debian-packages.json, from this machine's mirror or from snapshot.debian.org, which
 * keeps what mirrors no longer have. Files are stored by digest in the cache.
 * `node dev/image/debian-packages.ts` writes the newest versions of the release into the list.
 */
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { openDebianRelease } from '../debian-archive.mjs'
import { Unmet, say } from '../progress.mjs'
import {
  type Architecture,
  ARCHITECTURES,
  DEBIAN_NAME,
  DEBIAN_PACKAGES,
  DEBIAN_RELEASE,
  packagesOf,
  type Variant,
} from './contents.ts'

const LIST = join(import.meta.dirname, 'debian-packages.json')
const NEEDED_MIB = 64

export interface PinnedPackage {
  readonly version: string
  readonly sha256: string
}

export interface PackageList {
  /** When the list was written, as snapshot.debian.org names its copies: `20261122T170000Z`. */
  readonly snapshot: string
  readonly packages: Readonly<Record<Architecture, Readonly<Record<string, PinnedPackage>>>>
}

export interface DebianPackage extends PinnedPackage {
  readonly name: string
  /** The .deb file. */
  readonly file: string
}

export function readPackageList(): PackageList {
  return JSON.parse(readFileSync(LIST, 'utf8')) as PackageList // written by this file
}

/** Every package of the image as a file. Rejects with Unmet when one is to be had nowhere. */
export async function debianPackages(
  arch: Architecture,
  env: NodeJS.ProcessEnv,
  variant: Variant = 'full',
): Promise<readonly DebianPackage[]> {
  const list = readPackageList()
  const store = join(cacheFolder(env), 'image')
  const wanted = packagesOf(variant).map((name): DebianPackage => {
    const pinned = list.packages[arch][name]
    if (pinned === undefined) throw new Error(`${LIST} has no ${name} for ${arch}`)
    return { ...pinned, name, file: join(store, `${pinned.sha256}.deb`) }
  })
  const missing = wanted.filter(({ file, sha256 }) => !existsSync(file) || digestOf(file) !== sha256)
  if (missing.length > 0) await fetchInto(store, missing, arch, list.snapshot)
  return wanted
}

async function fetchInto(
  store: string,
  missing: readonly DebianPackage[],
  arch: Architecture,
  snapshot: string,
): Promise<void> {
  const fresh = unfinishedFolder(store, NEEDED_MIB)
  const reasons: string[] = []
  try {
    for (const mirrors of [undefined, [`http://snapshot.debian.org/archive/debian/${snapshot}`]]) {
      say(`Fetching ${missing.length} Debian packages of the image for ${arch} ...`)
      const downloads = mkdtempSync(join(fresh, 'downloads-'))
      try {
        const release = await openRelease(arch, mirrors)
        await release.download(
          missing.map(({ name, version }) => `${name}=${version}`),
          downloads,
        )
      } catch (error) {
        if (!(error instanceof Unmet)) throw error
        reasons.push(error.message)
        continue
      }
      for (const { name, sha256, file } of missing) {
        const fetched = readdirSync(downloads).find((one) => one.startsWith(`${name}_`))
        const path = join(downloads, fetched ?? '')
        if (fetched === undefined || digestOf(path) !== sha256)
          throw new Error(`the Debian package ${name} for ${arch} does not have the SHA-256 ${sha256} of ${LIST}`)
        renameSync(path, file)
      }
      return
    }
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  throw new Unmet(`the Debian packages of the image are not to be had: ${reasons.join('; ')}`)
}

async function openRelease(arch: Architecture, mirrors?: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-apt-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const options = { architecture: DEBIAN_NAME[arch], security: true, ...(mirrors === undefined ? {} : { mirrors }) }
  return openDebianRelease(DEBIAN_RELEASE, folder, options)
}

const digestOf = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

/** Pins the newest versions. */
async function writeList(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-packages-'))
  try {
    const packages = { x64: {}, arm64: {} } as Record<Architecture, Record<string, PinnedPackage>>
    for (const arch of ARCHITECTURES) {
      const release = await openRelease(arch)
      const downloads = join(folder, arch)
      mkdirSync(downloads)
      await release.download(Object.keys(DEBIAN_PACKAGES), downloads)
      for (const name of Object.keys(DEBIAN_PACKAGES)) {
        const file = readdirSync(downloads).find((one) => one.startsWith(`${name}_`))
        const version = await release.version(name)
        if (file === undefined || version === undefined) throw new Error(`Debian ${DEBIAN_RELEASE} has no ${name}`)
        packages[arch][name] = { version, sha256: digestOf(join(downloads, file)) }
      }
    }
    const snapshot = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')
    writeFileSync(LIST, `${JSON.stringify({ snapshot, packages } satisfies PackageList, undefined, 2)}\n`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) await writeList()
