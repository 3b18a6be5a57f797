/**
 * Whether the kernel has the legacy back end of iptables, family by family. Asking makes no table; it may load the module
 * ip_tables or ip6_tables, which iptables-legacy would load as well.
 */
import { existsSync } from 'node:fs'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'
import { findProgram, type RunProgram } from './programs.ts'

const MODULE: Readonly<Record<IpFamily, string>> = { IPv4: 'ip_tables', IPv6: 'ip6_tables' }

/** The file that lists the legacy tables of a family; it exists as soon as the kernel has the family's module. */
export function tableNamesFile(family: IpFamily, procNet: string): string {
  return `${procNet}/${MODULE[family]}_names`
}

export interface LegacyOptions {
  readonly families: readonly IpFamily[]
  /** `/proc/net` */
  readonly procNet: string
  readonly folders: readonly string[]
  readonly run: RunProgram
  /** False: a module that is not loaded counts as one that can be. */
  readonly mayLoadModules: boolean
  readonly signal: AbortSignal
}

/** The families whose legacy tables this kernel does not have, with the reason. */
export async function missingForLegacy(options: LegacyOptions): Promise<UnusableFamilies> {
  const missing: { [family in IpFamily]?: string } = {}
  for (const family of options.families)
    if (!(await hasLegacy(family, options))) missing[family] = `the kernel has no ${MODULE[family]}`
  return missing
}

async function hasLegacy(family: IpFamily, options: LegacyOptions): Promise<boolean> {
  const { procNet, folders, run, mayLoadModules, signal } = options
  const file = tableNamesFile(family, procNet)
  if (existsSync(file) || !mayLoadModules) return true
  const program = await findProgram('modprobe', folders)
  if (program === undefined) return false
  try {
    await run({ program, args: ['-q', MODULE[family]], signal })
  } catch {
    signal.throwIfAborted()
  }
  return existsSync(file)
}
