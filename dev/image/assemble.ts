/**
 * Puts the image together as two folders, one for each layer, without a container engine: `base`
 * (Debian's files and Node, which rarely change) and `program` (kube-ipvs, the npm packages in it,
 * licences, the SBOM). The Dockerfile runs the same file.
 * `node dev/image/assemble.ts --arch x64 --into FOLDER`; `--compare-node` fails unless Node is what
 * nodejs.org publishes, `--variant without-iptables` leaves iptables out.
 */
import {
  chmodSync,
  copyFileSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { bundle, copyNative, koffiBinary } from '../bundle.ts'
import { ownFolder } from '../own-folder.ts'
import { finish, projectFolder, tail, Unmet } from '../progress.mjs'
import { VERSION } from '../../src/values/well-known.ts'
import {
  type Architecture,
  architectureOf,
  COMMANDS,
  DEBIAN_NAME,
  DEBIAN_PACKAGES,
  DEBIAN_RELEASE,
  FOLDERS,
  LAUNCHER,
  LICENCES_FOLDER,
  linksOf,
  NODE_PATH,
  PROGRAM_FOLDER,
  SBOM_PATH,
  TEMPORARY_FOLDER,
  TEXTS,
  type Variant,
  variantOf,
} from './contents.ts'
import { type DebianPackage, debianPackages } from './debian-packages.ts'
import { entriesBelow } from './layer.ts'
import { compareWithPublished, nodeBinary, readPinnedNode } from './node-binary.ts'
import { installedPackages, type NpmPackage, npmPackage } from './npm-packages.ts'
import { type Component, sbom } from './sbom.ts'

/** The layers from the lowest to the highest; each is a folder with the files of the image's root. */
export const LAYERS = ['base', 'program'] as const

export interface AssembleOptions {
  readonly arch: Architecture
  /**
   * Gets the folders `base` and `program`. What an earlier assembly left there is replaced; a
   * folder with anything else is refused.
   */
  readonly into: string
  readonly env: NodeJS.ProcessEnv
  /** The time of the release, which the SBOM names: seconds since 1970. Files of the image have the time 0. */
  readonly epochSeconds: number
  /** Default: full. */
  readonly variant?: Variant
}

/** Rejects with Unmet when a package is not to be had on this machine. Returns what the image contains. */
export async function assemble(options: AssembleOptions): Promise<readonly Component[]> {
  const { arch, into, env, epochSeconds, variant = 'full' } = options
  const [base, program] = LAYERS.map((layer) => join(into, layer)) as [string, string] // as many as LAYERS
  ownFolder(into, (name) => LAYERS.some((layer) => layer === name))
  for (const folder of [base, program]) mkdirSync(folder)
  const packages = await debianPackages(arch, env, variant)
  const links = linksOf(arch, variant)
  const components: Component[] = [
    {
      kind: 'program',
      name: 'kube-ipvs',
      version: VERSION,
      license: 'Apache-2.0',
      purl: `pkg:generic/kube-ipvs@${VERSION}`,
    },
    await addNode(arch, base, env),
    ...(await addDebian(packages, arch, base, links)),
    ...(await addProgram(arch, program, env, links)),
  ]
  const created = new Date(epochSeconds * 1000).toISOString().replace('.000Z', 'Z')
  write(program, SBOM_PATH, `${JSON.stringify(sbom(arch, components, created), undefined, 2)}\n`)
  for (const folder of [base, program]) normalize(folder)
  return components
}

type Links = ReturnType<typeof linksOf>

/** Makes one folder of the layers, with hard links. */
export async function joinLayers(from: string, root: string): Promise<void> {
  mkdirSync(root)
  for (const layer of LAYERS) await must('cp', ['-al', `${join(from, layer)}/.`, root])
}

async function addNode(arch: Architecture, root: string, env: NodeJS.ProcessEnv): Promise<Component> {
  const node = await nodeBinary(arch, env)
  place(root, NODE_PATH)
  copyFileSync(node.file, join(root, NODE_PATH))
  addLicence(root, 'node', join(node.npm.folder, 'LICENSE'))
  const { version } = readPinnedNode()
  const digest = { algorithm: 'SHA256', hex: node.sha256 } as const
  return { kind: 'runtime', name: 'node', version, license: 'MIT', purl: `pkg:generic/node@${version}`, digest }
}

async function addDebian(
  packages: readonly DebianPackage[],
  arch: Architecture,
  root: string,
  links: Links,
): Promise<Component[]> {
  for (const folder of [...FOLDERS, TEMPORARY_FOLDER, 'usr/bin', 'usr/sbin', 'usr/lib'])
    mkdirSync(join(root, folder), { recursive: true })
  for (const [path, target] of Object.entries(links)) if (!isCommand(path)) symlinkSync(target, place(root, path))
  for (const [path, text] of Object.entries(TEXTS)) write(root, path, text)
  const components: Component[] = []
  for (const one of packages) {
    const unpacked = mkdtempSync(join(tmpdir(), 'kube-ipvs-deb-'))
    try {
      await must('dpkg-deb', ['-x', one.file, unpacked])
      takeFiles(one.name, unpacked, root)
      const control = await must('dpkg-deb', ['-f', one.file])
      // Scanners find the packages of images without a package manager here.
      write(root, `var/lib/dpkg/status.d/${one.name}`, control)
      components.push(debianComponent(one, arch, control))
    } finally {
      rmSync(unpacked, { recursive: true, force: true })
    }
  }
  return components
}

function takeFiles(name: string, unpacked: string, root: string): void {
  const wanted = DEBIAN_PACKAGES[name] ?? []
  const missed = new Set(wanted)
  for (const { path, kind } of entriesBelow(unpacked)) {
    if (kind === 'folder') continue
    const matches = wanted.filter((pattern) => pattern.test(path))
    // The folder of a library's documentation may be a link to that of another package.
    const isCopyright = path === `usr/share/doc/${name}/copyright` || path === `usr/share/doc/${name}`
    for (const pattern of matches) missed.delete(pattern)
    if (matches.length === 0 && !isCopyright) continue
    const from = join(unpacked, path)
    if (kind === 'link') symlinkSync(readlinkSync(from), place(root, path))
    else copyFileSync(from, place(root, path))
  }
  if (missed.size > 0)
    throw new Error(`the Debian package ${name} has no file that matches ${[...missed].join(' and ')}`)
}

function debianComponent({ name, version, sha256 }: DebianPackage, arch: Architecture, control: string): Component {
  const source = /^Source: (\S+)(?: \((\S+)\))?$/m.exec(control)
  const where = `arch=${DEBIAN_NAME[arch]}&distro=debian-${DEBIAN_RELEASE}`
  return {
    kind: 'debian',
    name,
    version,
    license: 'NOASSERTION',
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?${where}`,
    digest: { algorithm: 'SHA256', hex: sha256 },
    source: `${source?.[1] ?? name} ${source?.[2] ?? version}`,
  }
}

async function addProgram(
  arch: Architecture,
  root: string,
  env: NodeJS.ProcessEnv,
  links: Links,
): Promise<Component[]> {
  const directory = join(root, PROGRAM_FOLDER)
  const { packages } = await bundle({ directory, arch })
  const binary = await npmPackage(koffiBinary(arch), env)
  copyNative(directory, arch, binary.folder)
  write(root, COMMANDS[0], LAUNCHER)
  chmodSync(join(root, COMMANDS[0]), 0o755)
  for (const [path, target] of Object.entries(links)) if (isCommand(path)) symlinkSync(target, place(root, path))
  addLicence(root, 'kube-ipvs', join(projectFolder, 'LICENSE'))
  const inside = await installedPackages([...packages, 'node_modules/koffi'], env)
  for (const one of inside) addLicences(root, one)
  return [...inside, binary].map(npmComponent)
}

function npmComponent({ name, version, license, integrity }: NpmPackage): Component {
  const hex = Buffer.from(integrity.replace(/^sha512-/, ''), 'base64').toString('hex')
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  return { kind: 'npm', name, version, license, purl, digest: { algorithm: 'SHA512', hex } }
}

const LICENCE_FILE = /^(licen[cs]e|copying|notice)/i

function addLicences(root: string, { name, version, folder }: NpmPackage): void {
  const files = readdirSync(folder).filter((file) => LICENCE_FILE.test(file))
  if (files.length === 0) throw new Error(`the npm package ${name} has no file with its licence`)
  for (const file of files) addLicence(root, `npm/${name}@${version}`, join(folder, file))
}

function addLicence(root: string, folder: string, file: string): void {
  const to = place(root, join(LICENCES_FOLDER, folder, file.slice(dirname(file).length + 1)))
  copyFileSync(file, to)
}

const isCommand = (path: string): boolean => COMMANDS.some((command) => command === path)

/** The path in the root, with its folder made. */
function place(root: string, path: string): string {
  const whole = join(root, path)
  mkdirSync(dirname(whole), { recursive: true })
  return whole
}

function write(root: string, path: string, text: string): void {
  writeFileSync(place(root, path), text)
}

/**
 * Gives every file the same times and modes on every machine; programs are executable, and scripts
 * that npm packages have are not.
 */
function normalize(folder: string): void {
  const entries = entriesBelow(folder)
  for (const { path, kind, mode } of entries) {
    const whole = join(folder, path)
    if (kind === 'file') chmodSync(whole, (mode & 0o100) !== 0 && (isCommand(path) || isElf(whole)) ? 0o755 : 0o644)
    if (kind === 'folder') chmodSync(whole, path === TEMPORARY_FOLDER ? 0o1777 : 0o755)
  }
  // From the inside to the outside, because a change of a folder sets its time.
  for (const { path } of entries.toReversed()) lutimesSync(join(folder, path), 0, 0)
  lutimesSync(folder, 0, 0)
}

const isElf = (file: string): boolean => readFileSync(file, 'latin1').startsWith('\x7fELF')

async function must(program: string, args: string[]): Promise<string> {
  const { code, output } = await finish(program, args, { env: { ...process.env, LC_ALL: 'C.UTF-8' } })
  if (code === 127) throw new Unmet(`${program} is not installed`)
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} failed: ${tail(output, 5)}`)
  return output
}

/** SOURCE_DATE_EPOCH, or else the time of the last commit. */
export async function releaseTime(env: NodeJS.ProcessEnv): Promise<number> {
  const named = env['SOURCE_DATE_EPOCH']
  if (named !== undefined && named !== '') return Number(named)
  const { code, output } = await finish('git', ['log', '-1', '--format=%ct'], { cwd: projectFolder })
  if (code !== 0) throw new Unmet('this is no checkout of git: name the time of the release in SOURCE_DATE_EPOCH')
  return Number(output)
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      arch: { type: 'string', default: process.arch },
      into: { type: 'string' },
      'compare-node': { type: 'boolean', default: false },
      variant: { type: 'string', default: 'full' },
    },
  })
  if (values.into === undefined)
    throw new Error('usage: assemble.ts --arch x64|arm64 --into FOLDER [--compare-node] [--variant NAME]')
  const arch = architectureOf(values.arch)
  const comparison = values['compare-node'] ? await compareWithPublished(arch) : undefined
  if (comparison?.result === 'unreachable')
    throw new Error(`Node could not be compared with what its project publishes: ${comparison.reason}`)
  const [variant, epochSeconds] = [variantOf(values.variant), await releaseTime(process.env)]
  await assemble({ arch, into: values.into, env: process.env, epochSeconds, variant })
}
