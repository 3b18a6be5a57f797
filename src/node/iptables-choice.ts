/**
 * Chooses the back end of iptables, nft or legacy, that the node already uses, and finds out for which IP families it works.
 * Choosing creates nothing. The legacy programs create each table that they list, so they are started only when the kernel
 * already has legacy tables; in the usual case no program is started at all.
 * @impure
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { inPortions } from '../iptables/portions.ts'
import { saveLines } from '../iptables/save-lines.ts'
import { CodedError, errorText } from '../values/errors.ts'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'
import { capabilityMissing } from './capabilities.ts'
import { findProgram, type RunProgram, runProgram, searchPath } from './programs.ts'

/** The part of the kernel that the rules are written to. */
export type IptablesBackEnd = 'nft' | 'legacy'

/** The programs of one IP family as absolute paths. */
export interface FamilyPrograms {
  readonly save: string
  readonly restore: string
}

/** The chosen back end. */
export interface IptablesChoice {
  readonly mode: IptablesBackEnd
  /** The reason for the choice, for the log and for `status`. */
  readonly reason: string
  /** IP families whose rules cannot be written. */
  readonly unusable: UnusableFamilies
  /** What an administrator types after `iptables` and `ip6tables` for this back end; '' if plain iptables uses it. */
  readonly suffix: '' | '-nft' | '-legacy'
  /** Programs by IP family; a family without programs is unusable. */
  readonly programs: { readonly [family in IpFamily]?: FamilyPrograms }
  /** `1.8.9`; undefined if no program was started because the file's name shows 1.8.0 or later. */
  readonly version: string | undefined
  /** Whether MASQUERADE accepts --random-fully: iptables 1.6.2. */
  readonly randomFully: boolean
  /** Whether iptables-restore accepts -w: iptables 1.6.2. */
  readonly waits: boolean
  /** Output of iptables-save if the choice needed it, so that the first read of the rules starts no second process. */
  readonly saved: { readonly [family in IpFamily]?: string }
}

export interface ChoiceOptions {
  readonly families: readonly IpFamily[]
  readonly signal: AbortSignal
  /** What this kernel lacks for nft: `the kernel has no nf_tables for IPv6`. Called only if nft may be chosen. */
  readonly missingForNft: () => Promise<UnusableFamilies>
  /** Loads a module that iptables-legacy would load, to find out if the kernel has it; absent: no module may be loaded. */
  readonly loadModule?: (name: string) => void
  /** Whether this process may run the programs of legacy, which open raw sockets (CAP_NET_RAW). */
  readonly mayOpenRawSockets: boolean
  /** Default: PATH and the system's folders. */
  readonly folders?: readonly string[]
  readonly run?: RunProgram
  /** Default '/proc/net'. */
  readonly procNet?: string
}

const STEM: Readonly<Record<IpFamily, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' }
/** Chains that kubelet creates in the mangle table of the back end that it uses, so that other programs find out (KEP-3178). */
const KUBELET_CHAIN = /^:(KUBE-IPTABLES-HINT|KUBE-KUBELET-CANARY) /
const INSTALL =
  'install the package iptables (Debian, Ubuntu, Alpine: iptables; Fedora, RHEL: iptables-nft; a container needs it in its image)'

interface Plain {
  readonly mode: IptablesBackEnd | undefined
  readonly version: string | undefined
  /** What showed the mode, for the reason. */
  readonly source: string
}

/** Chooses one back end for both IP families. Rejects with CodedError `iptables-missing` if the host has no program at all. */
export async function chooseIptables(options: ChoiceOptions): Promise<IptablesChoice> {
  const { folders } = hostOf(options)
  const found = findPrograms(options.families, folders)
  if (Object.keys(found.plain).length + Object.keys(found.nft).length + Object.keys(found.legacy).length === 0) {
    const names = options.families.map((family) => `${STEM[family]}-save`).join(' and ')
    throw new CodedError('iptables-missing', `no ${names} (with -restore) in ${folders.join(':')}: ${INSTALL}`)
  }
  const plain = await plainMode(options, found.plain, folders)
  const decision = await decide(options, found, plain)
  if (decision.mode === 'legacy') requireRawSockets(options)
  // A plain program counts for the back end that it uses.
  const own = programsOf(found, decision.mode, plain)
  const suffix = plain.mode === decision.mode ? '' : (`-${decision.mode}` as const)
  const recent = isRecent(plain.version)
  return { ...decision, suffix, programs: own, version: plain.version, randomFully: recent, waits: recent }
}

/**
 * The back end that was not chosen, for a cleanup; undefined where it holds nothing that its programs could remove. The programs of
 * legacy would create tables, so they count only where there are legacy tables.
 */
export async function otherIptables(
  options: ChoiceOptions,
  chosen: IptablesChoice,
): Promise<IptablesChoice | undefined> {
  const mode = chosen.mode === 'nft' ? 'legacy' : 'nft'
  const { folders } = hostOf(options)
  const found = findPrograms(options.families, folders)
  const plain = await plainMode(options, found.plain, folders)
  const programs = programsOf(found, mode, plain)
  if (Object.keys(programs).length === 0) return undefined
  if (mode === 'legacy' && legacyTables(options).length === 0) return undefined
  const { loadModule: _, ...without } = options
  const unusable = await unusableFamilies(mode, without, found, plain)
  const usable = Object.fromEntries(Object.entries(programs).filter(([family]) => !(family in unusable)))
  if (Object.keys(usable).length === 0) return undefined
  const suffix = plain.mode === mode ? '' : (`-${mode}` as const)
  return { ...chosen, mode, suffix, programs: usable, unusable, reason: 'not the one in use', saved: {} }
}

type Found = Readonly<Record<IptablesBackEnd | 'plain', { readonly [family in IpFamily]?: FamilyPrograms }>>

function findPrograms(families: readonly IpFamily[], folders: readonly string[]): Found {
  const found: Record<keyof Found, { [family in IpFamily]?: FamilyPrograms }> = { plain: {}, nft: {}, legacy: {} }
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

/** The back end of plain `iptables`: the target of the link names it, or else `iptables --version` does. */
async function plainMode(options: ChoiceOptions, plain: Found['plain'], folders: readonly string[]): Promise<Plain> {
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

type Decision = Pick<IptablesChoice, 'mode' | 'reason' | 'unusable' | 'saved'>
type Use = Omit<Decision, 'unusable'>

/** The back end in use, or the other one if that works for more IP families. */
async function decide(options: ChoiceOptions, found: Found, plain: Plain): Promise<Decision> {
  const has = (mode: IptablesBackEnd): boolean => Object.keys(found[mode]).length > 0 || plain.mode === mode
  const use = await decideAmong(options, found, plain, has)
  const unusable = await unusableFamilies(use.mode, options, found, plain)
  const [reason] = Object.values(unusable)
  if (reason === undefined) return { ...use, unusable }
  const other = use.mode === 'nft' ? 'legacy' : 'nft'
  if (has(other)) {
    const there = await unusableFamilies(other, options, found, plain)
    if (Object.keys(there).length < Object.keys(unusable).length)
      return { mode: other, reason, unusable: there, saved: {} }
  }
  return { ...use, unusable, reason: `${use.reason}, but ${reason}` }
}

/** With the programs of both back ends the rules decide, otherwise the programs do. */
async function decideAmong(
  options: ChoiceOptions,
  found: Found,
  plain: Plain,
  has: (mode: IptablesBackEnd) => boolean,
): Promise<Use> {
  if (has('nft') && has('legacy')) return decideByUse(options, found, plain)
  const mode = has('nft') ? 'nft' : 'legacy'
  return { mode, reason: `only the programs of ${mode} are installed (${plain.source})`, saved: {} }
}

/** The IP families for which a back end does not work, with the reason: missing programs, or what the kernel lacks. */
async function unusableFamilies(
  mode: IptablesBackEnd,
  options: ChoiceOptions,
  found: Found,
  plain: Plain,
): Promise<UnusableFamilies> {
  const programs = programsOf(found, mode, plain)
  const missing = mode === 'nft' ? await unlessUnknown(options) : missingForLegacy(options)
  const unusable: { [family in IpFamily]?: string } = {}
  for (const family of options.families) {
    const reason = programs[family] === undefined ? missingPrograms(family, mode) : missing[family]
    if (reason !== undefined) unusable[family] = reason
  }
  return unusable
}

/** What is missing for nft; nothing where the kernel does not answer: whether rules can be written shows when they are. */
async function unlessUnknown({ missingForNft, signal }: ChoiceOptions): Promise<UnusableFamilies> {
  try {
    return await missingForNft()
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof CodedError && error.code === 'EPERM') throw error
    return {}
  }
}

/** The reason of an IP family without programs. */
export function missingPrograms(family: IpFamily, mode: IptablesBackEnd): string {
  const stem = STEM[family]
  return `no ${stem}-save and ${stem}-restore of ${mode} are installed: install the package iptables for ${family}`
}

function hostOf({ folders, run, procNet }: ChoiceOptions) {
  return {
    folders: folders ?? searchPath(process.env['PATH']),
    run: run ?? runProgram,
    procNet: procNet ?? '/proc/net',
  }
}

async function decideByUse(options: ChoiceOptions, found: Found, plain: Plain): Promise<Use> {
  const tables = legacyTables(options)
  if (tables.length === 0 && plain.mode === 'nft')
    return { mode: 'nft', reason: `the kernel has no legacy tables, and ${plain.source}`, saved: {} }
  const nft = await saveAll(options, programsOf(found, 'nft', plain), 'nft')
  if (nft.use.hasKubelet) return { mode: 'nft', reason: 'kubelet has its chains in nft', saved: nft.saved }
  // Without its rules it would be unknown whether the node uses legacy.
  if (tables.length > 0) requireRawSockets(options)
  const legacy = tables.length === 0 ? NOT_SAVED : await saveAll(options, programsOf(found, 'legacy', plain), 'legacy')
  if (legacy.use.hasKubelet) return { mode: 'legacy', reason: 'kubelet has its chains in legacy', saved: legacy.saved }
  const [nftRules, legacyRules] = [nft.use.rules, legacy.use.rules]
  const counts = `${nftRules} rules in nft, ${legacyRules} in legacy`
  if (nftRules > legacyRules) return { mode: 'nft', reason: `no chain of kubelet; ${counts}`, saved: nft.saved }
  if (legacyRules > nftRules) return { mode: 'legacy', reason: `no chain of kubelet; ${counts}`, saved: legacy.saved }
  const mode = plain.mode ?? 'nft'
  const { saved } = mode === 'nft' ? nft : legacy
  return { mode, reason: `no chain of kubelet; ${counts}; ${plain.source}`, saved }
}

function programsOf(found: Found, mode: IptablesBackEnd, plain: Plain): Found['plain'] {
  return plain.mode === mode ? { ...found.plain, ...found[mode] } : found[mode]
}

/** Legacy tables of this network namespace; reading this list creates none. */
function legacyTables(options: ChoiceOptions): readonly string[] {
  const { procNet } = hostOf(options)
  return options.families.flatMap((family) => {
    try {
      const text = readFileSync(tableNamesFile(family, procNet), 'utf8')
      return text.split('\n').filter((line) => line !== '')
    } catch {
      // The kernel has none.
      return []
    }
  })
}

/** What a back end prints, by IP family. */
interface Printed {
  /** The whole output of iptables-save. */
  readonly saved: IptablesChoice['saved']
  /** Of the same, or of the tables that can be printed where the whole cannot. */
  readonly use: BackEndUse
}

interface BackEndUse {
  hasKubelet: boolean
  rules: number
}

const NOT_SAVED: Printed = { saved: {}, use: { hasKubelet: false, rules: 0 } }
/** The first one has the chains of kubelet. */
const TABLES = ['mangle', 'nat', 'filter']

/** A failure is ignored: another table, the other back end or family may still show what is in use. */
async function saveAll(options: ChoiceOptions, programs: Found['plain'], mode: IptablesBackEnd): Promise<Printed> {
  const saved: { [family in IpFamily]?: string } = {}
  const use: BackEndUse = { hasKubelet: false, rules: 0 }
  const look = (line: string): void => {
    if (line.startsWith('-A ')) use.rules++
    else if (KUBELET_CHAIN.test(line)) use.hasKubelet = true
  }
  const print = async (program: string, args: readonly string[]): Promise<string | undefined> => {
    try {
      const result = await (options.run ?? runProgram)({ program, args, signal: options.signal })
      return result.exitCode === 0 ? result.output : undefined
    } catch {
      options.signal.throwIfAborted()
      return undefined
    }
  }
  await Promise.all(
    options.families.map(async (family) => {
      const program = programs[family]?.save
      if (program === undefined) return
      const whole = await print(program, [])
      if (whole !== undefined) saved[family] = whole
      // Legacy would create a table that it is asked for.
      const seen =
        whole ??
        (mode === 'nft' ? (await Promise.all(TABLES.map((table) => print(program, ['-t', table])))).join('') : '')
      await inPortions(saveLines(seen), look, options.signal)
    }),
  )
  return { saved, use }
}

/** Whether a version is 1.6.2 or later; undefined means 1.8.0 or later. */
function isRecent(version: string | undefined): boolean {
  if (version === undefined) return true
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  return major > 1 || (major === 1 && (minor > 6 || (minor === 6 && patch >= 2)))
}

/** Kernel modules of the legacy back end. */
const LEGACY_MODULE: Readonly<Record<IpFamily, string>> = { IPv4: 'ip_tables', IPv6: 'ip6_tables' }

/** The file that lists the legacy tables of an IP family; it exists as soon as the module is loaded. */
function tableNamesFile(family: IpFamily, procNet: string): string {
  return `${procNet}/${LEGACY_MODULE[family]}_names`
}

/** The IP families whose legacy tables this kernel does not have, with the reason. */
function missingForLegacy(options: ChoiceOptions): UnusableFamilies {
  const missing: { [family in IpFamily]?: string } = {}
  for (const family of options.families)
    if (!hasLegacy(family, options)) missing[family] = `the kernel has no ${LEGACY_MODULE[family]}`
  return missing
}

/** Creates no table, but may load the module, as iptables-legacy would. */
function hasLegacy(family: IpFamily, options: ChoiceOptions): boolean {
  const file = tableNamesFile(family, hostOf(options).procNet)
  if (existsSync(file) || options.loadModule === undefined) return true
  options.loadModule(LEGACY_MODULE[family])
  return existsSync(file)
}

function requireRawSockets({ mayOpenRawSockets }: ChoiceOptions): void {
  if (!mayOpenRawSockets) throw capabilityMissing('NET_RAW', 'running iptables-legacy, whose tables this node has,')
}
