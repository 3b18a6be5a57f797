/**
 * The folder that tells a guest what to run: its first process, the command, and the names of its
 * channels. Its path is part of the kernel's command line, so it must not contain a space.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface GuestChannels {
  readonly stdout: string
  readonly stderr: string
  readonly control: string
}

export interface GuestSettings {
  readonly channels: GuestChannels
  /** Folder to bind at /lib/modules; absent when the kernel needs none. */
  readonly modules?: string
  /** Whether it loads all modules that the file `modules.load` beside them names; else a few of a stock kernel. */
  readonly loadsAll?: boolean
  /** See `KernelCommand.isBare`. */
  readonly isBare?: boolean
  /** Folders that must show the host's changes at once, where the root is cached. */
  readonly liveFolders: readonly string[]
}

/** Modules that a stock kernel does not load by itself for a netlink request, or that tests require. */
const earlyModules = ['ip_vs', 'dummy', 'veth', 'nf_conntrack', 'ip_vs_rr']

const shellQuote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Not exported to the guest: they describe this process, not the command. */
const hostOnly = new Set(['PATH', 'HOME', 'TERM', 'PWD', 'OLDPWD', 'SHLVL', '_', 'TMPDIR'])

export function commandScript(
  command: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const exports = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !hostOnly.has(name)
      ? [`export ${name}=${shellQuote(value)}`]
      : [],
  )
  return [...exports, `cd ${shellQuote(cwd)} || exit 126`, `exec ${command.map(shellQuote).join(' ')}`, ''].join('\n')
}

function guestEnv(settings: GuestSettings): string {
  const { stdout, stderr, control } = settings.channels
  return [
    `stdout=${stdout}`,
    `stderr=${stderr}`,
    `control=${control}`,
    `modules=${shellQuote(settings.modules ?? '')}`,
    `early_modules=${shellQuote(settings.loadsAll === true ? '' : earlyModules.join(' '))}`,
    `is_bare=${settings.isBare === true ? 'yes' : ''}`,
    `live_folders=(${settings.liveFolders.map(shellQuote).join(' ')})`,
    '',
  ].join('\n')
}

/** Makes the folder; `remove` deletes it. */
export function makeGuestFolder(settings: GuestSettings, script: string): { path: string; remove(): void } {
  const parent = tmpdir()
  // The guest mounts its own /run and /dev over the host's.
  const safe = /^\/(run|dev)(\/|$)|\s/.test(parent) ? '/var/tmp' : parent
  const path = mkdtempSync(join(safe, 'kube-ipvs-guest-'))
  copyFileSync(join(import.meta.dirname, 'guest.sh'), join(path, 'init'))
  writeFileSync(join(path, 'guest.env'), guestEnv(settings))
  writeFileSync(join(path, 'command.sh'), script, { mode: 0o600 })
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}
