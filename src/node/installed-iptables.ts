/**
 * The programs of iptables that a host has: plain ones, and those of each back end. No more than
 * `iptables --version` is started.
 * @impure
 */
import { realpathSync } from 'node:fs'
import { CodedError, errorText } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type LegacyOptions, legacyTables } from './legacy-tables.ts'
import { findProgram, type RunProgram, runProgram } from './programs.ts'

/** The part of the kernel that the rules are written to. */
export type IptablesBackEnd = 'nft' | 'legacy'

/** The programs of one IP family as absolute paths. */
export interface FamilyPrograms {
  readonly save: string
  readonly restore: string
}

/** The programs of a host, by their suffix and IP family. */
export type FoundPrograms = Readonly<
  Record<IptablesBackEnd | 'plain', { readonly [family in IpFamily]?: FamilyPrograms }>
>

const STEM: Readonly<Record<IpFamily, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' }

/** A save without its restore, or the reverse, counts as none. */
export function findPrograms(families: readonly IpFamily[], folders: readonly string[]): FoundPrograms {
  const found: Record<keyof FoundPrograms, { [family in IpFamily]?: FamilyPrograms }> = {
    plain: {},
    nft: {},
    legacy: {},
  }
  for (const family of families) {
    for (const kind of ['plain', 'nft', 'legacy'] as const) {
      const name = kind === 'plain' ? STEM[family] : `${STEM[family]}-${kind}`
      const save = findProgram(`${name}-save`, folders)
      const restore = findProgram(`${name}-restore`, folders)
      if (save !== undefined && restore !== undefined) found[kind][family] = { save, restore }
    }
  }
  return found
}

const INSTALL =
  'install the package iptables (Debian, Ubuntu, Alpine: iptables; Fedora, RHEL: iptables-nft; a container needs it in its image)'

/** Throws `iptables-missing` when the host has no program at all. */
export function requirePrograms(
  { plain, nft, legacy }: FoundPrograms,
  families: readonly IpFamily[],
  folders: readonly string[],
): void {
  if ([plain, nft, legacy].some((found) => Object.keys(found).length > 0)) return
  const names = families.map((family) => `${STEM[family]}-save`).join(' and ')
  throw new CodedError('iptables-missing', `no ${names} (with -restore) in ${folders.join(':')}: ${INSTALL}`)
}

/** What `iptables` without a suffix is. */
export interface PlainIptables {
  readonly mode: IptablesBackEnd | undefined
  readonly version: string | undefined
  /** What showed the mode, for the reason. */
  readonly source: string
}

export interface PlainOptions extends LegacyOptions {
  readonly signal: AbortSignal
  readonly run?: RunProgram
}

/** The back end of plain `iptables`: the target of the link names it, or else `iptables --version` does. */
export async function plainIptables(
  options: PlainOptions,
  plain: FoundPrograms['plain'],
  folders: readonly string[],
): Promise<PlainIptables> {
  const save = plain.IPv4?.save ?? plain.IPv6?.save
  if (save === undefined) return { mode: undefined, version: undefined, source: 'plain iptables is not installed' }
  const target = targetOf(save)
  const named = /^xtables-(nft|legacy)-multi$/.exec(target)?.[1]
  // Release 1.8.0 introduced these names.
  if (named === 'nft' || named === 'legacy') return { mode: named, version: undefined, source: `iptables is ${target}` }
  const program = findProgram(plain.IPv4 === undefined ? STEM.IPv6 : STEM.IPv4, folders)
  if (program === undefined) return { mode: 'legacy', version: undefined, source: `iptables-save is ${target}` }
  let output: string
  try {
    output = (await (options.run ?? runProgram)({ program, args: ['--version'], signal: options.signal })).output
  } catch (error) {
    options.signal.throwIfAborted()
    // What the node uses is the better guess: the rules may be written all the same.
    const mode = legacyTables(options).length > 0 ? 'legacy' : 'nft'
    return { mode, version: undefined, source: `iptables --version failed: ${errorText(error)}` }
  }
  const [, version, kind] = /v(\d+(?:\.\d+)*)(?: \((\w+)\))?/.exec(output) ?? []
  const mode = kind === 'nf_tables' ? 'nft' : 'legacy'
  return { mode, version: version ?? '0', source: `iptables --version prints ${output.trim()}` }
}

/** Name of the file that a link leads to; '' when that cannot be read. */
function targetOf(link: string): string {
  try {
    return realpathSync(link).split('/').pop() ?? ''
  } catch {
    return ''
  }
}

/** The programs that use a back end: its own, and plain ones that count for it. */
export function programsOf(found: FoundPrograms, mode: IptablesBackEnd, plain: PlainIptables): FoundPrograms['plain'] {
  return plain.mode === mode ? { ...found.plain, ...found[mode] } : found[mode]
}

/** The reason of an IP family without programs. */
export function missingPrograms(family: IpFamily, mode: IptablesBackEnd): string {
  const stem = STEM[family]
  return `no ${stem}-save and ${stem}-restore of ${mode} are installed: install the package iptables for ${family}`
}

/** Whether a version is 1.6.2 or later; undefined means 1.8.0 or later. */
export function isRecent(version: string | undefined): boolean {
  if (version === undefined) return true
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  return major > 1 || (major === 1 && (minor > 6 || (minor === 6 && patch >= 2)))
}
