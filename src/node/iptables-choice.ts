/**
 * Chooses the back end of iptables, nft or legacy, that the node already uses, and finds out for
 * which IP families it works. Choosing creates nothing. The legacy programs create each table that
 * they list, so they are started only when the kernel already has legacy tables; in the usual case
 * no program is started at all.
 * @impure
 */
import { CodedError } from '../values/errors.ts'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'
import { useOfBackEnd } from './back-end-use.ts'
import { capabilityMissing } from './capabilities.ts'
import {
  type FamilyPrograms,
  findPrograms,
  type FoundPrograms,
  type IptablesBackEnd,
  isRecent,
  missingPrograms,
  type PlainIptables,
  plainIptables,
  programsOf,
  requirePrograms,
} from './installed-iptables.ts'
import { type LegacyOptions, legacyTables, missingForLegacy } from './legacy-tables.ts'
import { type RunProgram, searchPath } from './programs.ts'

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
}

export interface ChoiceOptions extends LegacyOptions {
  readonly signal: AbortSignal
  /** What this kernel lacks for nft: `the kernel has no nf_tables for IPv6`. Called only if nft may be chosen. */
  readonly missingForNft: () => Promise<UnusableFamilies>
  /** Whether this process may run the programs of legacy, which open raw sockets (CAP_NET_RAW). */
  readonly mayOpenRawSockets: boolean
  /** Default: PATH and the system's folders. */
  readonly folders?: readonly string[]
  readonly run?: RunProgram
}

/**
 * Chooses one back end for both IP families. Rejects with CodedError `iptables-missing` if the host
 * has no program at all.
 */
export async function chooseIptables(options: ChoiceOptions): Promise<IptablesChoice> {
  const folders = foldersOf(options)
  const found = findPrograms(options.families, folders)
  requirePrograms(found, options.families, folders)
  const plain = await plainIptables(options, found.plain, folders)
  const decision = await decide(options, found, plain)
  if (decision.mode === 'legacy') requireRawSockets(options)
  // A plain program counts for the back end that it uses.
  const own = programsOf(found, decision.mode, plain)
  const suffix = plain.mode === decision.mode ? '' : (`-${decision.mode}` as const)
  const recent = isRecent(plain.version)
  return { ...decision, suffix, programs: own, version: plain.version, randomFully: recent, waits: recent }
}

/**
 * The back end that was not chosen, for a cleanup; undefined where it holds nothing that its
 * programs could remove. The programs of legacy would create tables, so they count only where there
 * are legacy tables.
 */
export async function otherIptables(
  options: ChoiceOptions,
  chosen: IptablesChoice,
): Promise<IptablesChoice | undefined> {
  const mode = chosen.mode === 'nft' ? 'legacy' : 'nft'
  const folders = foldersOf(options)
  const found = findPrograms(options.families, folders)
  const plain = await plainIptables(options, found.plain, folders)
  const programs = programsOf(found, mode, plain)
  if (Object.keys(programs).length === 0) return undefined
  if (mode === 'legacy' && legacyTables(options).length === 0) return undefined
  const { loadModule: _, ...without } = options
  const unusable = await unusableFamilies(mode, without, found, plain)
  const usable = Object.fromEntries(Object.entries(programs).filter(([family]) => !(family in unusable)))
  if (Object.keys(usable).length === 0) return undefined
  const suffix = plain.mode === mode ? '' : (`-${mode}` as const)
  return { ...chosen, mode, suffix, programs: usable, unusable, reason: 'not the one in use' }
}

type Decision = Pick<IptablesChoice, 'mode' | 'reason' | 'unusable'>
type Use = Omit<Decision, 'unusable'>

/** The back end in use, or the other one if that works for more IP families. */
async function decide(options: ChoiceOptions, found: FoundPrograms, plain: PlainIptables): Promise<Decision> {
  const has = (mode: IptablesBackEnd): boolean => Object.keys(found[mode]).length > 0 || plain.mode === mode
  const use = await decideAmong(options, found, plain, has)
  const unusable = await unusableFamilies(use.mode, options, found, plain)
  const [reason] = Object.values(unusable)
  if (reason === undefined) return { ...use, unusable }
  const other = use.mode === 'nft' ? 'legacy' : 'nft'
  if (has(other)) {
    const there = await unusableFamilies(other, options, found, plain)
    if (Object.keys(there).length < Object.keys(unusable).length) return { mode: other, reason, unusable: there }
  }
  return { ...use, unusable, reason: `${use.reason}, but ${reason}` }
}

/** With the programs of both back ends the rules decide, otherwise the programs do. */
async function decideAmong(
  options: ChoiceOptions,
  found: FoundPrograms,
  plain: PlainIptables,
  has: (mode: IptablesBackEnd) => boolean,
): Promise<Use> {
  if (has('nft') && has('legacy')) return decideByUse(options, found, plain)
  const mode = has('nft') ? 'nft' : 'legacy'
  return { mode, reason: `only the programs of ${mode} are installed (${plain.source})` }
}

/** The IP families for which a back end does not work, with the reason: missing programs, or what the kernel lacks. */
async function unusableFamilies(
  mode: IptablesBackEnd,
  options: ChoiceOptions,
  found: FoundPrograms,
  plain: PlainIptables,
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

/**
 * What is missing for nft; nothing where the kernel does not answer: whether rules can be written
 * shows when they are.
 */
async function unlessUnknown({ missingForNft, signal }: ChoiceOptions): Promise<UnusableFamilies> {
  try {
    return await missingForNft()
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof CodedError && error.code === 'EPERM') throw error
    return {}
  }
}

async function decideByUse(options: ChoiceOptions, found: FoundPrograms, plain: PlainIptables): Promise<Use> {
  const tables = legacyTables(options)
  if (tables.length === 0 && plain.mode === 'nft')
    return { mode: 'nft', reason: `the kernel has no legacy tables, and ${plain.source}` }
  const nft = await useOfBackEnd(options, programsOf(found, 'nft', plain), 'nft')
  if (nft.hasKubelet) return { mode: 'nft', reason: 'kubelet has its chains in nft' }
  // Without its rules it would be unknown whether the node uses legacy.
  if (tables.length > 0) requireRawSockets(options)
  const legacy =
    tables.length === 0
      ? { hasKubelet: false, rules: 0 }
      : await useOfBackEnd(options, programsOf(found, 'legacy', plain), 'legacy')
  if (legacy.hasKubelet) return { mode: 'legacy', reason: 'kubelet has its chains in legacy' }
  const counts = `${nft.rules} rules in nft, ${legacy.rules} in legacy`
  if (nft.rules > legacy.rules) return { mode: 'nft', reason: `no chain of kubelet; ${counts}` }
  if (legacy.rules > nft.rules) return { mode: 'legacy', reason: `no chain of kubelet; ${counts}` }
  return { mode: plain.mode ?? 'nft', reason: `no chain of kubelet; ${counts}; ${plain.source}` }
}

function requireRawSockets({ mayOpenRawSockets }: ChoiceOptions): void {
  if (!mayOpenRawSockets) throw capabilityMissing('NET_RAW', 'running iptables-legacy, whose tables this node has,')
}

function foldersOf({ folders }: ChoiceOptions): readonly string[] {
  return folders ?? searchPath(process.env['PATH'])
}
