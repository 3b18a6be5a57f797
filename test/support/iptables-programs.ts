/**
 * Wrappers between the daemon and the real programs of iptables, which count calls, hang or fail;
 * their libraries without some extensions; and their lock, held. The real program replaces the
 * wrapper's process (exec), so that announcements carry the process id that was started.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const STEMS = ['iptables', 'ip6tables'] as const
const LIBRARIES = [
  '/usr/lib/x86_64-linux-gnu/xtables',
  '/usr/lib/aarch64-linux-gnu/xtables',
  '/usr/lib/xtables',
] as const

export class IptablesPrograms {
  readonly #folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-iptables-'))

  constructor() {
    for (const stem of STEMS)
      for (const mode of ['nft', 'legacy'])
        for (const verb of ['save', 'restore']) {
          const name = `${stem}-${mode}-${verb}`
          const hangs = `[ -e ${this.#folder}/hang-${stem} ] && [ ${verb} = restore ] && echo $$ >>${this.#folder}/hanging && exec sleep 600`
          const fails = `[ -e ${this.#folder}/fail-${stem} ] && [ ${verb} = restore ] && echo refused >&2 && exit 1`
          const script = `#!/bin/sh\necho '${stem} ${verb}' >>${this.#folder}/starts\n${hangs}\n${fails}\nexec /usr/sbin/${name} "$@"\n`
          writeFileSync(join(this.#folder, name), script)
          chmodSync(join(this.#folder, name), 0o755)
        }
    this.forget()
  }

  /** For the environment of the daemon. */
  get path(): string {
    return `${this.#folder}:${process.env['PATH'] ?? ''}`
  }

  /** The calls since the last `forget`: `iptables restore`. */
  get starts(): readonly string[] {
    return readFileSync(join(this.#folder, 'starts'), 'utf8').split('\n').filter(Boolean)
  }

  forget(): void {
    writeFileSync(join(this.#folder, 'starts'), '')
  }

  /** Makes restores of this family hang, or work again. */
  hang(stem: (typeof STEMS)[number], hangs: boolean): void {
    this.#flag(`hang-${stem}`, hangs)
  }

  /** Makes restores of this family fail, or work again. */
  fail(stem: (typeof STEMS)[number], fails: boolean): void {
    this.#flag(`fail-${stem}`, fails)
  }

  /** Also ends those that hang still, because their daemon has ended before their deadline. */
  remove(): void {
    for (const id of this.#hanging()) process.kill(id, 'SIGKILL')
    rmSync(this.#folder, { recursive: true })
  }

  #hanging(): readonly number[] {
    const path = join(this.#folder, 'hanging')
    if (!existsSync(path)) return []
    const ids = readFileSync(path, 'utf8').split('\n').filter(Boolean)
    return ids
      .filter((id) => existsSync(`/proc/${id}`) && readFileSync(`/proc/${id}/cmdline`, 'utf8').startsWith('sleep'))
      .map(Number)
  }

  #flag(name: string, set: boolean): void {
    const flag = join(this.#folder, name)
    if (set) writeFileSync(flag, '')
    else rmSync(flag, { force: true })
  }
}

/** A folder for XTABLES_LIBDIR: the system's libraries without those of these names (`xt_ipvs`, `ipt_REJECT`). */
export class IptablesLibraries {
  readonly folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-xtables-'))
  readonly #real: string

  constructor(without: readonly string[]) {
    const real = LIBRARIES.find((folder) => existsSync(folder))
    if (real === undefined) throw new Error('no libraries of iptables')
    this.#real = real
    mkdirSync(this.folder, { recursive: true })
    for (const file of readdirSync(real)) if (!without.includes(nameOf(file))) this.#link(file)
  }

  /** Adds a library again. */
  bring(name: string): void {
    this.#link(`lib${name}.so`)
  }

  remove(): void {
    rmSync(this.folder, { recursive: true })
  }

  #link(file: string): void {
    symlinkSync(join(this.#real, file), join(this.folder, file))
  }
}

/** Holds a lock file as iptables would, until the lock is released. */
export async function holdLock(path: string): Promise<{ release(): Promise<void> }> {
  // One process, so that the lock ends with it.
  const script = 'exec 9>"$0" && flock 9 && echo held && exec sleep 600'
  const holder = spawn('sh', ['-c', script, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  const gone = once(holder, 'exit')
  await once(holder.stdout, 'data')
  return {
    async release() {
      holder.kill('SIGKILL')
      await gone
    },
  }
}

const nameOf = (file: string): string => file.replace(/^lib/, '').replace(/\.so$/, '')
