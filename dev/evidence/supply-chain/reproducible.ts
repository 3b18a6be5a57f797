/**
 * Compares two builds of one commit. Each build has its own clone; the clones differ in the name and
 * depth of their folder, and the builds in their time, time zone, language and umask.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { finish, projectFolder, say, tail, Unmet } from '../../progress.mjs'

/** So that a time in whole seconds, or in the two seconds of some archives, would differ. */
const PAUSE_MS = 3000
const BUILD_MS = 1_800_000

const SURROUNDINGS = [
  { folder: 'a', umask: '022', TZ: 'UTC', LC_ALL: 'C.UTF-8' },
  { folder: 'another place/with a much longer name', umask: '077', TZ: 'Pacific/Kiritimati', LC_ALL: 'C' },
] as const

export interface Build {
  readonly startedAt: string
  readonly surroundings: (typeof SURROUNDINGS)[number]
  /** SHA-256 of each file of the release, by name. */
  readonly files: Readonly<Record<string, string>>
}

export interface Reproduction {
  readonly revision: string
  readonly builds: readonly Build[]
  /** Names of files that differ; none when the builds are the same. */
  readonly differences: readonly string[]
}

/** Builds what is committed. @param architectures of the image */
export async function reproduce(architectures: readonly string[]): Promise<Reproduction> {
  const revision = (await must('git', ['rev-parse', 'HEAD'], projectFolder)).trim()
  const root = mkdtempSync(join(tmpdir(), 'kube-ipvs-reproduce-'))
  const builds: Build[] = []
  try {
    for (const surroundings of SURROUNDINGS) {
      if (builds.length > 0) await wait(PAUSE_MS)
      say(`Building ${revision.slice(0, 8)} with umask ${surroundings.umask} and TZ ${surroundings.TZ} ...`)
      builds.push(await build(join(root, surroundings.folder), revision, surroundings, architectures))
    }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
  return { revision, builds, differences: differencesOf(builds.map(({ files }) => files)) }
}

async function build(
  folder: string,
  revision: string,
  surroundings: Build['surroundings'],
  architectures: readonly string[],
): Promise<Build> {
  const startedAt = new Date().toISOString()
  mkdirSync(join(folder, '..'), { recursive: true })
  await must('git', ['clone', '--quiet', '--no-hardlinks', projectFolder, folder], projectFolder)
  // The branch may have moved meanwhile.
  await must('git', ['checkout', '--quiet', '--detach', revision], folder)
  await must('cp', ['-al', join(projectFolder, 'node_modules'), join(folder, 'node_modules')], projectFolder)
  const { umask, TZ, LC_ALL } = surroundings
  const into = join(folder, 'dist/release')
  const args = ['dev/release.ts', '--dry-run', '--into', into, ...architectures.flatMap((arch) => ['--arch', arch])]
  const env = { ...process.env, TZ, LC_ALL }
  await must('sh', ['-c', `umask ${umask}; exec "$@"`, 'sh', 'node_modules/.bin/node', ...args], folder, env)
  return { startedAt, surroundings, files: digestsOf(into) }
}

/** Of the provenance without the times of the build, and without the checksums, which contain its digest. */
function digestsOf(folder: string): Readonly<Record<string, string>> {
  const entries = readdirSync(folder)
    .filter((name) => name !== 'SHA256SUMS')
    .toSorted()
    .map((name) => {
      const bytes = readFileSync(join(folder, name))
      const content = name.endsWith('.provenance.json') ? withoutTimes(bytes.toString()) : bytes
      return [name, createHash('sha256').update(content).digest('hex')]
    })
  return Object.fromEntries(entries) as Record<string, string> // entries are pairs of texts
}

const withoutTimes = (provenance: string): string => provenance.replaceAll(/"(started|finished)On": "[^"]*"/g, '')

/** Names that are not in all of these, or have another digest. */
export function differencesOf(all: readonly Readonly<Record<string, string>>[]): readonly string[] {
  const names = new Set(all.flatMap((files) => Object.keys(files)))
  return [...names].filter((name) => new Set(all.map((files) => files[name])).size > 1).toSorted()
}

async function must(program: string, args: string[], cwd: string, env = process.env): Promise<string> {
  const { code, output } = await finish(program, args, { cwd, env, timeoutMs: BUILD_MS })
  if (code !== 0) throw new Unmet(`${program} ${args.join(' ')} failed:\n${tail(output, 10)}`)
  return output
}
