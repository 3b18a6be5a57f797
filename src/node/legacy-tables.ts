/**
 * The tables of iptables-legacy that this network namespace has, read without its programs, which
 * would create each table that they list.
 * @impure
 */
import { existsSync, readFileSync } from 'node:fs'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'

export interface LegacyOptions {
  readonly families: readonly IpFamily[]
  /**
   * Loads a module that iptables-legacy would load, to find out if the kernel has it; absent: no
   * module may be loaded.
   */
  readonly loadModule?: (name: string) => void
  /** Default '/proc/net'. */
  readonly procNet?: string
}

/** Kernel modules of the legacy back end. */
const LEGACY_MODULE: Readonly<Record<IpFamily, string>> = { IPv4: 'ip_tables', IPv6: 'ip6_tables' }

/** Legacy tables of this network namespace; reading this list creates none. */
export function legacyTables(options: LegacyOptions): readonly string[] {
  return options.families.flatMap((family) => {
    try {
      const text = readFileSync(tableNamesFile(family, options), 'utf8')
      return text.split('\n').filter((line) => line !== '')
    } catch {
      // The kernel has none.
      return []
    }
  })
}

/** The file that lists the legacy tables of an IP family; it exists as soon as the module is loaded. */
function tableNamesFile(family: IpFamily, { procNet = '/proc/net' }: LegacyOptions): string {
  return `${procNet}/${LEGACY_MODULE[family]}_names`
}

/** The IP families whose legacy tables this kernel does not have, with the reason. */
export function missingForLegacy(options: LegacyOptions): UnusableFamilies {
  const missing: { [family in IpFamily]?: string } = {}
  for (const family of options.families)
    if (!hasLegacy(family, options)) missing[family] = `the kernel has no ${LEGACY_MODULE[family]}`
  return missing
}

/** Creates no table, but may load the module, as iptables-legacy would. */
function hasLegacy(family: IpFamily, options: LegacyOptions): boolean {
  const file = tableNamesFile(family, options)
  if (existsSync(file) || options.loadModule === undefined) return true
  options.loadModule(LEGACY_MODULE[family])
  return existsSync(file)
}
