/**
 * Which back end of iptables the node uses, nft or legacy (rules in the other one would be rules that nobody sees), and
 * for which families it works. Looking makes nothing: the legacy programs create the tables they are asked for, so they
 * are only started when the kernel says that there are tables; and in the usual case no program is started at all. That
 * a program prints its rules does not mean that its back end works.
 */
import { readFile, realpath } from 'node:fs/promises'
import { CodedError } from '../values/errors.ts'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'
import { missingForLegacy, tableNamesFile } from './legacy-tables.ts'
import { findProgram, type RunProgram, runProgram, searchPath } from './programs.ts'

export type IptablesMode = 'nft' | 'legacy'

/** Absolute paths. */
export interface FamilyPrograms {
  readonly save: string
  readonly restore: string
}

export interface IptablesChoice {
  readonly mode: IptablesMode
  /** Why, for the log and for status. */
  readonly reason: string
  /** Families whose rules cannot be written. */
  readonly unusable: UnusableFamilies
  /** What people type after `iptables` and `ip6tables` to reach this back end: '' where plain iptables is it. */
  readonly suffix: '' | '-nft' | '-legacy'
  /** Programs of each family that has them; one without is unusable. */
  readonly programs: { readonly [family in IpFamily]?: FamilyPrograms }
  /** `1.8.9`; undefined when it was not asked for, because the program's name says that it is 1.8.0 or later. */
  readonly version: string | undefined
  /** Whether MASQUERADE takes --random-fully: iptables 1.6.2. */
  readonly randomFully: boolean
  /** Whether iptables-restore takes -w: iptables 1.6.2. */
  readonly waits: boolean
  /** What iptables-save said in this mode just now, where it was asked: the first look needs no second process. */
  readonly saved: { readonly [family in IpFamily]?: string }
}

export interface ChoiceOptions {
  readonly families: readonly IpFamily[]
  readonly signal: AbortSignal
  /** What this kernel lacks for the rules of nft, `the kernel has no nf_tables for IPv6`. Asked only where nft may be chosen. */
  readonly missingForNft: () => Promise<UnusableFamilies>
  /** Whether a module that iptables-legacy would load may be loaded to see whether there is one. */
  readonly mayLoadModules: boolean
  /** Default: PATH and the system's folders. */
  readonly folders?: readonly string[]
  readonly run?: RunProgram
  /** Default '/proc/net'. */
  readonly procNet?: string
}

const STEM: Readonly<Record<IpFamily, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' }
/** Chains that kubelet makes in the table mangle of the back end it uses (KEP-3178), to be found by others. */
const KUBELET_CHAIN = /^:(KUBE-IPTABLES-HINT|KUBE-KUBELET-CANARY) /m
const INSTALL =
  'install the package iptables (Debian, Ubuntu, Alpine: iptables; Fedora, RHEL: iptables-nft; in an image it must be in the image)'

interface Plain {
  readonly mode: IptablesMode | undefined
  readonly version: string | undefined
  /** How the mode became known. */
  readonly source: string
}

/** Decides for both families together. Rejects with CodedError `iptables-missing` when no program is there at all. */
export async function chooseIptables(options: ChoiceOptions): Promise<IptablesChoice> {
  const { folders } = hostOf(options)
  const found = await findPrograms(options.families, folders)
  if (Object.keys(found.plain).length + Object.keys(found.nft).length + Object.keys(found.legacy).length === 0) {
    const names = options.families.map((family) => `${STEM[family]}-save`).join(' and ')
    throw new CodedError('iptables-missing', `no ${names} with its -restore in ${folders.join(':')}: ${INSTALL}`)
  }
  const plain = await plainMode(options, found.plain, folders)
  const decision = await decide(options, found, plain)
  // Programs without a back end in their name serve only the back end they stand for.
  const own = programsOf(found, decision.mode, plain)
  const suffix = plain.mode === decision.mode ? '' : (`-${decision.mode}` as const)
  const recent = isRecent(plain.version)
  return { ...decision, suffix, programs: own, version: plain.version, randomFully: recent, waits: recent }
}

type Found = Readonly<Record<IptablesMode | 'plain', { readonly [family in IpFamily]?: FamilyPrograms }>>

async function findPrograms(families: readonly IpFamily[], folders: readonly string[]): Promise<Found> {
  const found: Record<keyof Found, { [family in IpFamily]?: FamilyPrograms }> = { plain: {}, nft: {}, legacy: {} }
  for (const family of families) {
    for (const kind of ['plain', 'nft', 'legacy'] as const) {
      const name = kind === 'plain' ? STEM[family] : `${STEM[family]}-${kind}`
      const save = await findProgram(`${name}-save`, folders)
      const restore = await findProgram(`${name}-restore`, folders)
      if (save !== undefined && restore !== undefined) found[kind][family] = { save, restore }
    }
  }
  return found
}

/** What `iptables` itself is: told by the file it leads to, else by itself. */
async function plainMode(options: ChoiceOptions, plain: Found['plain'], folders: readonly string[]): Promise<Plain> {
  const save = plain.IPv4?.save ?? plain.IPv6?.save
  if (save === undefined) return { mode: undefined, version: undefined, source: 'there is no plain iptables' }
  const target = (await realpath(save)).split('/').pop() ?? ''
  const named = /^xtables-(nft|legacy)-multi$/.exec(target)?.[1]
  // These names are older than no release before 1.8.0.
  if (named === 'nft' || named === 'legacy') return { mode: named, version: undefined, source: `iptables is ${target}` }
  const program = await findProgram(plain.IPv4 === undefined ? STEM.IPv6 : STEM.IPv4, folders)
  if (program === undefined) return { mode: 'legacy', version: undefined, source: `iptables-save is ${target}` }
  const { output } = await (options.run ?? runProgram)({ program, args: ['--version'], signal: options.signal })
  const [, version, kind] = /v(\d+(?:\.\d+)*)(?: \((\w+)\))?/.exec(output) ?? []
  const mode = kind === 'nf_tables' ? 'nft' : 'legacy'
  return { mode, version: version ?? '0', source: `iptables --version says ${output.trim()}` }
}

type Decision = Pick<IptablesChoice, 'mode' | 'reason' | 'unusable' | 'saved'>
type Use = Omit<Decision, 'unusable'>

/** The back end in use; the other one where it works for more families. */
async function decide(options: ChoiceOptions, found: Found, plain: Plain): Promise<Decision> {
  const has = (mode: IptablesMode): boolean => Object.keys(found[mode]).length > 0 || plain.mode === mode
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

async function decideAmong(
  options: ChoiceOptions,
  found: Found,
  plain: Plain,
  has: (mode: IptablesMode) => boolean,
): Promise<Use> {
  if (has('nft') && has('legacy')) return decideByUse(options, found, plain)
  const mode = has('nft') ? 'nft' : 'legacy'
  return { mode, reason: `only the programs of ${mode} are there (${plain.source})`, saved: {} }
}

/** What keeps a back end from working: its programs first, then the kernel. */
async function unusableFamilies(
  mode: IptablesMode,
  options: ChoiceOptions,
  found: Found,
  plain: Plain,
): Promise<UnusableFamilies> {
  const programs = programsOf(found, mode, plain)
  const missing =
    mode === 'nft' ? await options.missingForNft() : await missingForLegacy({ ...options, ...hostOf(options) })
  const unusable: { [family in IpFamily]?: string } = {}
  for (const family of options.families) {
    const reason = programs[family] === undefined ? missingPrograms(family, mode) : missing[family]
    if (reason !== undefined) unusable[family] = reason
  }
  return unusable
}

/** What to say where a family has no programs. */
export function missingPrograms(family: IpFamily, mode: IptablesMode): string {
  const stem = STEM[family]
  return `no ${stem}-save and ${stem}-restore of ${mode} are there: install the package iptables for ${family}`
}

function hostOf({ folders, run, procNet }: ChoiceOptions) {
  return {
    folders: folders ?? searchPath(process.env['PATH']),
    run: run ?? runProgram,
    procNet: procNet ?? '/proc/net',
  }
}

async function decideByUse(options: ChoiceOptions, found: Found, plain: Plain): Promise<Use> {
  const tables = await legacyTables(options)
  if (tables.length === 0 && plain.mode === 'nft')
    return { mode: 'nft', reason: `the kernel has no legacy tables, and ${plain.source}`, saved: {} }
  const nft = await saveAll(options, programsOf(found, 'nft', plain))
  if (hasKubeletChain(nft)) return { mode: 'nft', reason: 'kubelet has its chains in nft', saved: nft }
  const legacy = tables.length === 0 ? {} : await saveAll(options, programsOf(found, 'legacy', plain))
  if (hasKubeletChain(legacy)) return { mode: 'legacy', reason: 'kubelet has its chains in legacy', saved: legacy }
  const [nftRules, legacyRules] = [countRules(nft), countRules(legacy)]
  const counts = `${nftRules} rules in nft, ${legacyRules} in legacy`
  if (nftRules > legacyRules) return { mode: 'nft', reason: `no chain of kubelet; ${counts}`, saved: nft }
  if (legacyRules > nftRules) return { mode: 'legacy', reason: `no chain of kubelet; ${counts}`, saved: legacy }
  const mode = plain.mode ?? 'nft'
  return { mode, reason: `no chain of kubelet; ${counts}; ${plain.source}`, saved: mode === 'nft' ? nft : legacy }
}

function programsOf(found: Found, mode: IptablesMode, plain: Plain): Found['plain'] {
  return plain.mode === mode ? { ...found.plain, ...found[mode] } : found[mode]
}

/** Tables that the legacy back end has in this network namespace; reading this makes none. */
async function legacyTables(options: ChoiceOptions): Promise<readonly string[]> {
  const { procNet } = hostOf(options)
  const texts = await Promise.all(
    options.families.map((family) => readFile(tableNamesFile(family, procNet), 'utf8').catch(() => '')),
  )
  return texts.flatMap((text) => text.split('\n').filter((line) => line !== ''))
}

/** A program that fails says nothing about who uses what; the other back end or family may still tell. */
async function saveAll(options: ChoiceOptions, programs: Found['plain']): Promise<{ [family in IpFamily]?: string }> {
  const saved: { [family in IpFamily]?: string } = {}
  await Promise.all(
    options.families.map(async (family) => {
      const program = programs[family]?.save
      if (program === undefined) return
      try {
        const result = await (options.run ?? runProgram)({ program, args: [], signal: options.signal })
        if (result.exitCode === 0) saved[family] = result.output
      } catch {
        options.signal.throwIfAborted()
      }
    }),
  )
  return saved
}

function hasKubeletChain(saved: IptablesChoice['saved']): boolean {
  return Object.values(saved).some((text) => KUBELET_CHAIN.test(text))
}

function countRules(saved: IptablesChoice['saved']): number {
  return Object.values(saved).reduce((sum, text) => sum + (text.match(/^-A /gm)?.length ?? 0), 0)
}

/** Whether a version is 1.6.2 or later; undefined stands for 1.8.0 or later. */
function isRecent(version: string | undefined): boolean {
  if (version === undefined) return true
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  return major > 1 || (major === 1 && (minor > 6 || (minor === 6 && patch >= 2)))
}
