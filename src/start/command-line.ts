/**
 * The command line, read by the rules of pflag (kube-proxy's flag library): `--once=false`, `-v4`,
 * `--proxy_mode ipvs`. A boolean never takes the next argument; any other flag always does, even
 * one that starts with a dash.
 */
import { nearest } from '../values/nearest.ts'
import { quote } from '../values/quote.ts'
import { goQuoteLetter, goQuoteList, type Parsed } from '../config/go-text.ts'
import { FLAG_PARSERS } from './flag-value.ts'
import { type Arguments, COMMAND_ARGUMENTS, COMMANDS, type CommandName } from './commands.ts'
import type { Flag } from './flag.ts'
import { FLAGS, type FlagKey, type FlagValues } from './flags.ts'

export interface CommandLine {
  readonly command: CommandName
  readonly flags: FlagValues
  /** What was given beside flags, as `COMMAND_ARGUMENTS` permits it; none of them is empty. */
  readonly words: readonly string[]
  /** Notices of deprecated flags, for standard error before anything else. */
  readonly notices: readonly string[]
}

/** Why a command line is refused. */
export interface UsageError {
  readonly command: CommandName
  /** In kube-proxy's words. */
  readonly message: string
  /** kube-proxy does not show its usage for every mistake. */
  readonly showUsage: boolean
  /** What was probably meant, as the user would type it: `--once`, `kube-ipvs status`. */
  readonly suggestion?: string
  readonly notices: readonly string[]
  readonly exitCode: number
}

/**
 * `diff` reports differences with 1, so its errors are 2; `doctor` reports with 1 and 2; `run`
 * fails with 1 like kube-proxy.
 */
export const USAGE_EXIT_CODE: Readonly<Record<CommandName, number>> = {
  run: 1,
  status: 1,
  explain: 1,
  top: 1,
  drain: 1,
  diff: 2,
  doctor: 3,
  cleanup: 1,
  completion: 1,
}

interface Entry {
  readonly key: FlagKey
  readonly flag: Flag
}

class Mistake extends Error {
  readonly suggestion: string | undefined

  constructor(message: string, suggestion?: string) {
    super(message)
    this.suggestion = suggestion
  }
}

/** Reads the arguments after the program's name. */
export function parseCommandLine(argv: readonly string[]): CommandLine | { readonly error: UsageError } {
  const reader = new ArgumentReader(argv)
  let mistake: Mistake | undefined
  try {
    reader.readAll()
  } catch (error) {
    if (!(error instanceof Mistake)) throw error
    mistake = error
  }
  const { words, values, notices, given } = reader
  const about = mistake === undefined ? helpAbout(words) : undefined
  if (about !== undefined) return { command: about, flags: { help: true }, words: [], notices }
  const named = COMMANDS.find((name) => name === words[0])
  const command = named ?? 'run'
  const fail = ({ message, suggestion }: Mistake, showUsage: boolean) => ({
    error: {
      command,
      message,
      showUsage,
      ...(suggestion === undefined ? {} : { suggestion }),
      notices,
      exitCode: USAGE_EXIT_CODE[command],
    },
  })
  if (mistake !== undefined) return fail(mistake, true)
  for (const { flag } of given)
    if (!flag.commands.includes(command)) {
      const owners = flag.commands.map(programOf).join(', ')
      return fail(new Mistake(`--${flag.name} is a flag of ${owners}, not of ${programOf(command)}`), true)
    }
  const flags = values as FlagValues // Each value was made by the parser of its own flag.
  const rest = [...(named === undefined ? words : words.slice(1)), ...reader.afterDashes]
  // Unset variables make empty words.
  const full = rest.filter((word) => word !== '')
  const wrong = wrongArguments(named, full)
  // Help has precedence over wrong words, as in cobra.
  if (flags.help !== true && wrong !== undefined) {
    const message = `${wrong}, got ${goQuoteList(rest)}`
    return fail(new Mistake(message, named === undefined ? nearestCommand(words[0]) : undefined), false)
  }
  return { command, flags, words: flags.help === true ? [] : full, notices }
}

/** Whether a command line starts the daemon, or prepares the node for it; everything else is for the tools. */
export function isDaemon(line: ReturnType<typeof parseCommandLine>): line is CommandLine {
  if ('error' in line || line.command !== 'run') return false
  const { help, version, cleanup, writeConfigTo } = line.flags
  const isVersion = version === 'true' || version === 'raw'
  return help !== true && !isVersion && cleanup !== true && (writeConfigTo ?? '') === ''
}

/** Why a command does not take these words; undefined when it does. */
function wrongArguments(named: CommandName | undefined, given: readonly string[]): string | undefined {
  const count = given.length
  const program = quote(named === undefined ? 'kube-ipvs' : `kube-ipvs ${named}`)
  const takes: Arguments | undefined = named === undefined ? undefined : COMMAND_ARGUMENTS[named]
  if (takes === undefined) return count === 0 ? undefined : `${program} does not take any arguments`
  const { name, atLeast = 0, atMost = Number.POSITIVE_INFINITY, words } = takes
  const allowed = words === undefined ? '' : `, one of ${words.join(', ')}`
  if (count < atLeast) return `${program} needs ${name}${allowed}`
  if (count > atMost) return `${program} takes ${atMost === 1 ? `one ${name}` : `at most ${atMost} of ${name}`}`
  return words === undefined || given.every((word) => words.includes(word))
    ? undefined
    : `${program} takes a ${name}${allowed}`
}

/** The words that run a command. */
export function programOf(command: CommandName): string {
  return command === 'run' ? 'kube-ipvs' : `kube-ipvs ${command}`
}

/** `help` and `help COMMAND` are the same as --help. */
function helpAbout([first, second, ...more]: readonly string[]): CommandName | undefined {
  if (first !== 'help' || more.length > 0) return undefined
  return second === undefined ? 'run' : COMMANDS.find((name) => name === second)
}

function nearestCommand(word: string | undefined): string | undefined {
  const guess = word === undefined ? undefined : nearest(word, [...COMMANDS, 'help', 'version'])
  if (guess === 'version') return 'kube-ipvs --version'
  return guess === undefined ? undefined : `kube-ipvs ${guess}`
}

function nearestFlag(name: string): string | undefined {
  const guess = nearest(name, NAMES)
  return guess === undefined ? undefined : `--${guess}`
}

/** Reads the arguments once; after a mistake, what was read before it is still available. */
class ArgumentReader {
  readonly words: string[] = []
  /** The words after `--`: never a command. */
  readonly afterDashes: string[] = []
  readonly values: { [Key in FlagKey]?: unknown } = {}
  readonly given: Entry[] = []
  readonly notices: string[] = []
  readonly #arguments: readonly string[]
  #at = 0

  constructor(argv: readonly string[]) {
    this.#arguments = argv
  }

  readAll(): void {
    while (this.#at < this.#arguments.length) {
      const argument = this.#arguments[this.#at++] ?? ''
      if (argument === '--') {
        this.afterDashes.push(...this.#arguments.slice(this.#at))
        return
      }
      if (argument.startsWith('--')) this.#readLong(argument)
      else if (argument.length > 1 && argument.startsWith('-')) this.#readShort(argument.slice(1))
      else this.words.push(argument)
    }
  }

  #readLong(argument: string): void {
    const equals = argument.indexOf('=')
    const name = argument.slice(2, equals < 0 ? undefined : equals)
    if (name === '' || name.startsWith('-')) throw new Mistake(`bad flag syntax: ${argument}`)
    const entry = BY_NAME.get(name.replaceAll('_', '-'))
    if (entry === undefined) throw new Mistake(`unknown flag: --${name}`, nearestFlag(name))
    const value = equals < 0 ? this.#valueOf(entry.flag, `--${name}`) : argument.slice(equals + 1)
    this.#set(entry, value)
  }

  /** Several letters may follow one dash: `-hv4`. */
  #readShort(letters: string): void {
    let rest = letters
    while (rest !== '') {
      const letter = rest[0] ?? ''
      const entry = BY_LETTER.get(letter)
      if (entry === undefined)
        throw new Mistake(
          `unknown shorthand flag: ${goQuoteLetter(letter)} in -${rest}`,
          rest.length > 1 ? nearestFlag(rest.replace(/=[^]*$/, '')) : undefined,
        )
      const text = rest.slice(1)
      rest = ''
      if (text.startsWith('=') && text.length > 1) this.#set(entry, text.slice(1))
      else if (takesNoValue(entry.flag)) {
        this.#set(entry, 'true')
        rest = text
      } else this.#set(entry, text === '' ? this.#valueOf(entry.flag, `${goQuoteLetter(letter)} in -${letter}`) : text)
    }
  }

  /** The value of a flag without `=`. */
  #valueOf(flag: Flag, spelling: string): string {
    if (takesNoValue(flag)) return 'true'
    const next = this.#arguments[this.#at++]
    if (next === undefined) throw new Mistake(`flag needs an argument: ${spelling}`)
    return next
  }

  #set(entry: Entry, text: string): void {
    const { key, flag } = entry
    // The table pairs each kind with the type of its values; TypeScript does not follow that through a variable.
    const parse = FLAG_PARSERS[flag.kind] as (text: string, before: unknown) => Parsed<unknown>
    const parsed = parse(text, this.values[key])
    if ('error' in parsed) {
      const shown = flag.short === undefined ? `--${flag.name}` : `-${flag.short}, --${flag.name}`
      throw new Mistake(`invalid argument ${quote(text)} for ${quote(shown)} flag: ${parsed.error}`)
    }
    this.values[key] = parsed.value
    this.given.push(entry)
    if (flag.deprecated !== undefined) this.notices.push(`Flag --${flag.name} has been deprecated, ${flag.deprecated}`)
  }
}

const takesNoValue = (flag: Flag): boolean => flag.kind === 'boolean' || flag.kind === 'version'

const ENTRIES: readonly Entry[] = Object.entries(FLAGS).map(([key, flag]) => ({
  key: key as FlagKey, // Object.entries loses the type of the keys
  flag,
}))
const NAMES = ENTRIES.map(({ flag }) => flag.name)
const BY_NAME: ReadonlyMap<string, Entry> = new Map(ENTRIES.map((entry) => [entry.flag.name, entry]))
const BY_LETTER: ReadonlyMap<string, Entry> = new Map(
  ENTRIES.flatMap((entry) => (entry.flag.short === undefined ? [] : [[entry.flag.short, entry] as const])),
)
