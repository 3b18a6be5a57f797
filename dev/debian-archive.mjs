/**
 * Packages of a Debian release other than the machine's own, from the machine's own mirror. apt
 * does all of the work with a source list, package lists and a cache of its own in a temporary
 * folder: it checks the release's signature with Debian's archive keys and the checksum of each
 * package, and the machine's configuration is not changed.
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findProgram } from './packages.mjs'
import { Unmet, finish, tail } from './progress.mjs'

/** Where debian-archive-keyring puts its keys; apt 3 prefers the second name. */
const KEYRINGS = ['usr/share/keyrings/debian-archive-keyring.gpg', 'usr/share/keyrings/debian-archive-keyring.pgp']
const UPDATE_MS = 180_000
const DOWNLOAD_MS = 600_000

/**
 * @typedef {object} Release
 * @property {(name: string) => Promise<string | undefined>} version version of a package; undefined
 * when there is none
 * @property {(name: string) => Promise<readonly string[]>} dependencies what a package depends on
 * @property {(names: readonly string[], into: string) => Promise<void>} download downloads
 * packages, `NAME` or `NAME=VERSION`
 * @property {(names: readonly string[], into: string) => Promise<void>} unpack downloads packages
 * and unpacks them there
 */

/**
 * @typedef {object} ReleaseOptions
 * @property {string} [architecture] Debian's name of it, `arm64`; default this machine's
 * @property {readonly string[]} [mirrors] default those of this machine; an archive of the past may
 * be named, whose lists have expired
 * @property {boolean} [security] whether the packages of the release's security repository count
 * too; default false
 * @property {string} [keyring] the file with the keys of the archive; default Debian's
 * @property {number} [timeoutSeconds] how long apt waits for a mirror that is silent, twice;
 * default 20
 */

/**
 * Opens a release, such as `testing`: fetches and verifies its list of packages.
 * @param {string} release @param {string} folder an empty folder for apt's files @param
 * {ReleaseOptions} [options]
 * @returns {Promise<Release>}
 * @throws {Unmet} when this is no Debian, no mirror answers, or the signature cannot be verified
 */
export async function openDebianRelease(release, folder, options = {}) {
  if (findProgram('apt-get') === undefined || findProgram('dpkg-deb') === undefined || !isDebian())
    throw new Unmet('this machine is not a Debian, so its package mirror has no Debian packages')
  const mirrors = options.mirrors ?? (await ownMirrors())
  if (mirrors.length === 0) throw new Unmet('apt on this machine has no Debian mirror in its source lists')
  let keyring = options.keyring ?? machineKeyring('/')
  let failure = ''
  for (const mirror of mirrors) {
    let updated = await update({ ...options, mirror, release, folder, keyring })
    if (
      updated.code !== 0 &&
      options.keyring === undefined &&
      /NO_PUBKEY|not signed|signature|Missing key/i.test(updated.output)
    ) {
      keyring = await newestKeyring(folder)
      updated = await update({ ...options, mirror, release, folder, keyring })
    }
    if (updated.code === 0) return releaseIn(folder, ownFiles(folder, options))
    failure = `the mirror ${mirror} did not give a verified ${release} (${shortReason(updated.output)})`
  }
  throw new Unmet(failure)
}

function isDebian() {
  try {
    return /^ID="?debian"?$/m.test(readFileSync('/etc/os-release', 'utf8'))
  } catch {
    return false
  }
}

/**
 * URIs of the mirrors that serve this machine's own Debian release: those known to be Debian's,
 * else all candidates.
 */
async function ownMirrors() {
  const format = '$(REPO_URI) $(RELEASE) $(ORIGIN) $(LABEL)'
  const { output } = await apt(['indextargets', '--no-release-info', '--format', format, 'Identifier: Packages'])
  const known = await apt(['indextargets', '--format', format, 'Identifier: Packages'])
  const targets = [...known.output.split('\n'), ...output.split('\n')].map((line) => line.split(' '))
  // `bookworm-security` and `bookworm-updates` are repositories beside a release.
  const releases = targets.filter(([uri, name = '-']) => /^(https?|file):/.test(uri ?? '') && !name.includes('-'))
  const debian = releases.filter(([, , origin, label]) => origin === 'Debian' && label === 'Debian')
  return [...new Set((debian.length > 0 ? debian : releases).map(([uri]) => uri))]
}

/** @param {string} root @returns {string | undefined} */
const machineKeyring = (root) => KEYRINGS.map((path) => join(root, path)).find((path) => existsSync(path))

/**
 * The keyring of the newest debian-archive-keyring that the machine's own, verified release has.
 * @param {string} folder
 */
async function newestKeyring(folder) {
  const unpacked = join(folder, 'keyring')
  mkdirSync(unpacked, { recursive: true })
  const { code, output } = await apt(['download', 'debian-archive-keyring'], unpacked, DOWNLOAD_MS)
  if (code !== 0) throw new Unmet(`Debian's newest archive keys could not be fetched (${shortReason(output)})`)
  await unpackAll(unpacked, unpacked)
  const keyring = machineKeyring(unpacked)
  if (keyring === undefined) throw new Unmet('the package debian-archive-keyring holds no archive keys')
  return keyring
}

/**
 * @param {ReleaseOptions & { mirror: string, release: string, folder: string, keyring: string |
 * undefined }} options
 */
async function update(options) {
  const { mirror, release, folder, keyring, security = false } = options
  for (const path of ['sources', 'lists/partial', 'cache/archives/partial'])
    mkdirSync(join(folder, path), { recursive: true })
  const sources = [[mirror, release]]
  if (security) sources.push([securityMirror(mirror), `${release}-security`])
  const stanzas = sources.map(([uri, suite]) => {
    const fields = ['Types: deb', `URIs: ${uri}`, `Suites: ${suite}`, 'Components: main']
    return [...fields, ...(keyring === undefined ? [] : [`Signed-By: ${keyring}`]), ''].join('\n')
  })
  writeFileSync(join(folder, 'sources/debian.sources'), stanzas.join('\n'))
  return apt([...ownFiles(folder, options), '--error-on=any', 'update'], folder, UPDATE_MS)
}

/**
 * Mirrors have Debian's security repository beside the releases: `debian` and `debian-security`.
 * @param {string} mirror
 */
const securityMirror = (mirror) => mirror.replace(/\/debian(?=\/|$)/, '/debian-security')

/** @param {string} folder @param {readonly string[]} files apt's options for its files @returns {Release} */
function releaseIn(folder, files) {
  /** @param {readonly string[]} names @param {string} into */
  const download = async (names, into) => {
    const { code, output } = await apt([...files, 'download', ...names], into, DOWNLOAD_MS)
    if (code !== 0) throw new Unmet(`the packages ${names.join(', ')} could not be fetched (${shortReason(output)})`)
  }
  return {
    download,
    version: async (name) => {
      const { output } = await run('apt-cache', [...files, 'policy', name], folder)
      const candidate = /^\s*Candidate: (\S+)/m.exec(output)?.[1]
      return candidate === '(none)' ? undefined : candidate
    },
    dependencies: async (name) => {
      const { output } = await run('apt-cache', [...files, 'depends', '--important', name], folder)
      return [...output.matchAll(/^\s*(?:Pre)?Depends: (\S+)/gm)].map(([, other]) => other)
    },
    unpack: async (names, into) => {
      const downloads = join(folder, 'downloads')
      mkdirSync(downloads, { recursive: true })
      await download(names, downloads)
      await unpackAll(downloads, into)
    },
  }
}

/** @param {string} downloads @param {string} into */
async function unpackAll(downloads, into) {
  for (const file of readdirSync(downloads).filter((name) => name.endsWith('.deb'))) {
    const { code, output } = await run('dpkg-deb', ['-x', join(downloads, file), into], downloads, DOWNLOAD_MS)
    if (code !== 0) throw new Unmet(`${file} could not be unpacked (${shortReason(output)})`)
  }
}

/**
 * apt's options for separate files; the machine's options for the network (proxies, credentials)
 * stay in force. @param {string} folder @param {ReleaseOptions} options
 */
function ownFiles(folder, { architecture, mirrors, timeoutSeconds }) {
  return Object.entries({
    ...(timeoutSeconds === undefined ? {} : { 'Acquire::http::Timeout': timeoutSeconds }),
    ...(architecture === undefined ? {} : { 'APT::Architecture': architecture, 'APT::Architectures': architecture }),
    ...(mirrors === undefined ? {} : { 'Acquire::Check-Valid-Until': 'false' }),
    'Dir::Etc::SourceList': '/dev/null',
    'Dir::Etc::SourceParts': join(folder, 'sources'),
    'Dir::Etc::Preferences': '/dev/null',
    'Dir::Etc::PreferencesParts': join(folder, 'none'),
    'Dir::State::Lists': join(folder, 'lists'),
    'Dir::State::status': '/dev/null',
    'Dir::Cache': join(folder, 'cache'),
    'Acquire::Languages': 'none',
    'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled': 'false',
    // Its user may not read a folder in root's home.
    'APT::Sandbox::User': process.getuid?.() === 0 ? 'root' : '',
  }).flatMap(([name, value]) => ['-o', `${name}=${value}`])
}

/** @param {readonly string[]} args @param {string} [cwd] @param {number} [timeoutMs] */
const apt = (args, cwd, timeoutMs) => {
  const network = ['-o', 'Acquire::Retries=1', '-o', 'Acquire::http::Timeout=20', '-o', 'Acquire::https::Timeout=20']
  return run('apt-get', ['-q', ...network, ...args], cwd, timeoutMs)
}

/** @param {string} program @param {readonly string[]} args @param {string} [cwd] @param {number} [timeoutMs] */
const run = (program, args, cwd, timeoutMs = UPDATE_MS) =>
  finish(program, [...args], {
    env: { ...process.env, LC_ALL: 'C.UTF-8' },
    timeoutMs,
    ...(cwd === undefined ? {} : { cwd }),
  })

/** What apt or dpkg gives as the reason of a failure, else the end of the output. @param {string} output */
function shortReason(output) {
  const fetching = /^Err:\d+ .*\n\s+(.+)$/m.exec(output)?.[1]
  const error = /^(?:E: |dpkg-deb: error: )(.+)$/m.exec(output)?.[1]
  const full = /No space left on device|Disk quota exceeded/i.exec(output)?.[0]
  return (full ?? fetching ?? error ?? tail(output, 1)).trim()
}
