/**
 * A recorded case as `test/recordings/README.md` describes it: what to do in each step, what the
 * API server served and what kube-proxy left. A state file that is left out equals that of
 * `base-no-services`, except those files that are only there when they say something.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { Json } from '../../dev/api-server/store.ts'
import { type Ground, type Mode, type State, STATE_FILES, type StateFile } from './files.ts'
import { normaliseRecorded } from './normalise.ts'

/** One step, in this order of doing. */
export interface Step {
  readonly stop?: boolean
  readonly cleanup?: boolean
  /** Shell commands on the node. */
  readonly exec?: string
  readonly delete?: readonly { readonly kind: string; readonly namespace?: string; readonly name: string }[]
  readonly apply?: readonly Json[]
  /** Implied in the first step unless false. */
  readonly start?: boolean
  /** Merged over what the configuration is by then, and kept. */
  readonly config?: Json
  /** Seconds */
  readonly wait?: number
}

/** A link of the node besides eth0, or more addresses on eth0. */
export interface CaseLink {
  readonly name: string
  /** The link is made when this is given. */
  readonly kind?: string
  readonly addresses: readonly string[]
}

export interface CaseFile {
  readonly description: string
  readonly modes?: readonly string[]
  readonly config?: Json
  readonly interfaces?: readonly CaseLink[]
  readonly conntrack?: boolean
  readonly steps: readonly Step[]
}

/** The lists as the API server answered them, unfiltered. */
export type Lists = Readonly<
  Record<'services' | 'endpointSlices' | 'nodes', { readonly items: readonly (Json & { readonly metadata: Json })[] }>
>

const BASE = 'base-no-services'
/** Absent means that there is nothing to say. */
const ONLY_WHEN_SOMETHING: ReadonlySet<StateFile> = new Set(['conntrack.txt', 'process.txt'])
/** Left out in a mode that makes none of it. */
const OF_THE_OTHER: Readonly<Record<Mode, ReadonlySet<StateFile>>> = {
  ipvs: new Set(['nfacct.txt']),
  iptables: new Set(['ipvs.txt', 'addresses.txt', 'ipset.txt']),
}

export interface ChosenCases {
  /** At least one. */
  readonly names: readonly string[]
  /** Names of recorded cases without a case.yaml, which cannot be replayed. */
  readonly incomplete: readonly string[]
}

/**
 * The cases of a folder that were recorded in this mode and whose names contain one of the
 * patterns, sorted; `!TEXT` leaves out names that contain TEXT. The error says, in one sentence,
 * why there is none.
 */
export function chooseCases(
  folder: string,
  mode: Mode,
  patterns: readonly string[],
): ChosenCases | { readonly error: string } {
  if (!existsSync(folder)) return { error: `There is no folder ${folder}; name one with --cases DIR.` }
  const found = globSync(`*/recorded/${mode}`, { cwd: folder }).map((path) => path.slice(0, path.indexOf('/')))
  const incomplete = found.filter((name) => !existsSync(join(folder, name, 'case.yaml'))).sort()
  const recorded = found.filter((name) => !incomplete.includes(name))
  if (recorded.length === 0)
    return {
      error: `${folder} holds no case that was recorded in ${mode} mode (NAME/case.yaml, NAME/recorded/${mode}/).`,
    }
  const without = patterns.filter((pattern) => pattern.startsWith('!')).map((pattern) => pattern.slice(1))
  const wanted = patterns.filter((pattern) => !pattern.startsWith('!'))
  const names = recorded
    .filter((name) => wanted.length === 0 || wanted.some((pattern) => name.includes(pattern)))
    .filter((name) => !without.some((pattern) => name.includes(pattern)))
    .sort()
  if (names.length > 0) return { names, incomplete }
  return { error: `None of the ${recorded.length} cases in ${folder} has a name that fits ${patterns.join(' ')}.` }
}

export function readCase(folder: string, name: string): CaseFile {
  return parse(readFileSync(join(folder, name, 'case.yaml'), 'utf8')) as CaseFile // the recorder's format
}

/** `kernel`: the case reads values that can only be set in a kernel's first network namespace. */
export function groundOf(folder: string, name: string): Ground {
  return name === BASE || readCase(folder, name).config?.['conntrack'] !== undefined ? 'kernel' : 'fresh'
}

export class Recording {
  readonly #mode: Mode
  readonly #own: string
  readonly #folders: readonly string[]
  readonly #baseFolders: readonly string[]

  /** `defaultFolder` holds the base case where `folder` has none. */
  constructor(folder: string, defaultFolder: string, name: string, mode: Mode) {
    this.#mode = mode
    this.#own = join(folder, name, 'recorded', mode)
    this.#folders = [this.#own, join(folder, name, 'recorded', 'ipvs')]
    this.#baseFolders = [folder, defaultFolder].map((cases) => join(cases, BASE, 'recorded', mode, '1'))
  }

  /** What was served in a step, which counts from 1. */
  lists(step: number): Lists {
    const paths = this.#folders.map((folder) => join(folder, String(step), 'objects.json'))
    return JSON.parse(readFirst([...paths, ...this.#baseFolders.map((base) => join(base, 'objects.json'))])) as Lists
  }

  /** The recorded state after a step, as our own dumps are normalised. */
  state(step: number): State {
    return Object.fromEntries(STATE_FILES.map((file) => [file, normaliseRecorded(file, this.#text(step, file))]))
  }

  #text(step: number, file: StateFile): string {
    const own = join(this.#own, String(step), file)
    if (existsSync(own)) return readFileSync(own, 'utf8')
    if (ONLY_WHEN_SOMETHING.has(file) || OF_THE_OTHER[this.#mode].has(file)) return ''
    return readFirst(this.#baseFolders.map((base) => join(base, file)))
  }
}

function readFirst(paths: readonly string[]): string {
  const path = paths.find((one) => existsSync(one))
  if (path === undefined) throw new Error(`none of these is there: ${paths.join(', ')}`)
  return readFileSync(path, 'utf8')
}
