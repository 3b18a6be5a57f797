/**
 * Debian's package user-mode-linux of any release, unpacked into the cache (never installed). The
 * program needs the libc of its release; where this machine's is older, it gets that one and its
 * loader. @impure
 */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { openDebianRelease } from '../debian-archive.mjs'
import { ensurePackages } from '../packages.mjs'
import { finish, say, tail, Unmet } from '../progress.mjs'
import type { UserModeKernel } from './choice.ts'
import { withInterpreter } from './interpreter.ts'
import { GUEST_MEMORY_MIB, memoryFolder } from './memory-folder.mjs'

/** The program, its modules and a libc. */
const NEEDED_MIB = 200
const LIBRARIES = 'usr/lib/x86_64-linux-gnu'
const MODULES = 'usr/lib/uml/modules'
/** Where each of the two ways to start it is. */
const [PROGRAM, WITH_OWN_LIBC] = ['usr/bin/linux.uml', 'linux-with-its-libc']

/**
 * @param release of Debian, `trixie`
 * @throws Unmet when it cannot be fetched or does not run here
 */
export async function debianUserMode(env: NodeJS.ProcessEnv, release: string): Promise<UserModeKernel> {
  await ensurePackages(['modprobe', 'dpkg-deb'])
  const memory = memoryFolder()
  if ('missing' in memory) throw new Unmet(memory.missing)
  const folder = join(cacheFolder(env), `uml-${release}`)
  if (!existsSync(folder)) await fetch(env, release, folder)
  const own = existsSync(join(folder, WITH_OWN_LIBC))
  return {
    kind: 'uml',
    kernel: join(folder, own ? WITH_OWN_LIBC : PROGRAM),
    ...(own ? { libraries: join(folder, LIBRARIES) } : {}),
    modules: join(folder, MODULES),
    memoryFolder: memory.folder,
    memoryMiB: GUEST_MEMORY_MIB,
  }
}

async function fetch(env: NodeJS.ProcessEnv, release: string, into: string): Promise<void> {
  say(`Fetching user-mode-linux of Debian ${release} ...`)
  const apt = mkdtempSync(join(tmpdir(), 'kube-ipvs-apt-'))
  const fresh = unfinishedFolder(cacheFolder(env), NEEDED_MIB)
  try {
    const archive = await openDebianRelease(release, apt)
    await archive.unpack(['user-mode-linux'], fresh)
    const { code } = await finish(join(fresh, PROGRAM), ['--version'], { timeoutMs: 10_000 })
    if (code !== 0) {
      await archive.unpack(['libc6'], fresh)
      const loader = join(into, LIBRARIES, 'ld-linux-x86-64.so.2')
      const program = withInterpreter(readFileSync(join(fresh, PROGRAM)), loader)
      writeFileSync(join(fresh, WITH_OWN_LIBC), program, { mode: 0o755 })
    }
    renameSync(fresh, into)
  } finally {
    rmSync(apt, { recursive: true, force: true })
    rmSync(fresh, { recursive: true, force: true })
  }
  await check(into, release)
}

/** Removes a program that does not run, so that another attempt fetches it again. */
async function check(folder: string, release: string): Promise<void> {
  const own = existsSync(join(folder, WITH_OWN_LIBC))
  const { code, output } = own
    ? await finish('env', [`LD_LIBRARY_PATH=${join(folder, LIBRARIES)}`, join(folder, WITH_OWN_LIBC), '--version'], {})
    : await finish(join(folder, PROGRAM), ['--version'])
  if (code === 0) return
  rmSync(folder, { recursive: true, force: true })
  throw new Unmet(`user-mode-linux of Debian ${release} does not run here (${tail(output, 1)})`)
}
