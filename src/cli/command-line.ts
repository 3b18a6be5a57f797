/**
 * The command line, read by the rules of pflag (kube-proxy's flag library): `--once=false`, `-v4`, `--proxy_mode ipvs`.
 * What could break: a boolean never takes the next argument, any other flag always does, even one that starts with a dash.
 */
import { parseArgs } from 'node:util'
import { parseDuration } from '../config/duration.ts'
import { nearest } from '../values/nearest.ts'
import { COMMANDS, type CommandName, FLAGS, type Flag, type FlagKey, type FlagValues } from './flags.ts'

export interface CommandLine {
  readonly command: CommandName
  readonly flags: FlagValues
}

/** A command line that makes no sense. `message` is for standard error and names the mistake and the way to help. */
export interface UsageError {
  readonly command: CommandName
  readonly message: string
  readonly exitCode: number
}

/** diff says "there are differences" with 1, so its errors are 2; kube-proxy, which `run` stands in for, fails with 1. */
export const USAGE_EXIT_CODE: Readonly<Record<CommandName, number>> = { run: 1, status: 1, diff: 2, cleanup: 1 }

/** What is wrong, and what was probably meant. */
type Mistake = [mistake: string, suggestion: string | undefined]

const ENTRIES: readonly (readonly [key: FlagKey, flag: Flag])[] = Object.entries(FLAGS).map(([key, flag]) => [
  key as FlagKey, // Object.entries forgets that its keys are those of the object.
  flag,
])

/** Reads the arguments after the program's name. */
export function parseCommandLine(argv: readonly string[]): CommandLine | { readonly error: UsageError } {
  const { tokens } = parseArgs({
    args: [...argv],
    options: parseArgsOptions(argv),
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  // Empty arguments come from unset variables in a Pod's args; kube-proxy ignores them.
  const positionals = tokens.filter((token) => token.kind === 'positional' && token.value !== '')
  const [first] = positionals
  const named = first?.kind === 'positional' ? first.value : undefined
  const command = COMMANDS.find((name) => name === named) ?? 'run'
  const fail = (mistake: string, suggestion?: string) => ({ error: usageError(command, mistake, suggestion) })

  const values: Record<string, boolean | string | number> = {}
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue
    if (token.kind === 'positional') {
      if (token.value === '' || (token === first && token.value === command)) continue
      return fail(...unexpectedArgument(token.value, token === first, argv[token.index - 1]))
    }
    const entry = ENTRIES.find(([, flag]) => isNamed(flag, token.name, token.rawName))
    if (entry === undefined) return fail(...unknownFlag(token.rawName, argv[token.index] ?? '', command))
    const [key, flag] = entry
    if (!flag.commands.includes(command)) {
      return fail(`--${flag.name} is a flag of ${flag.commands.join(', ')}, not of ${command}`)
    }
    // pflag takes both `-v=4` and `-v4`; parseArgs leaves the sign in the value.
    const raw = token.rawName.startsWith('--') ? token.value : token.value?.replace(/^=/, '')
    const value = parseValue(flag, raw)
    if ('error' in value) return fail(value.error)
    values[key] = value.value
  }
  return { command, flags: values as FlagValues } // Each value was made by parseValue for its own flag.
}

/** parseArgs must know each spelling that occurs, since pflag reads underscores as dashes. */
function parseArgsOptions(argv: readonly string[]): Record<string, { type: 'boolean' | 'string'; short?: string }> {
  const options: Record<string, { type: 'boolean' | 'string'; short?: string }> = {}
  for (const [, flag] of ENTRIES) {
    const type = flag.kind === 'boolean' ? 'boolean' : 'string'
    options[flag.name] = { type, ...(flag.short === undefined ? {} : { short: flag.short }) }
    for (const argument of argv) {
      const spelling = /^--([^=]+)/.exec(argument)?.[1]
      if (spelling?.replaceAll('_', '-') === flag.name && spelling !== flag.name) options[spelling] = { type }
    }
  }
  return options
}

function isNamed(flag: Flag, name: string, rawName: string): boolean {
  return rawName.startsWith('--') ? name.replaceAll('_', '-') === flag.name : rawName === `-${flag.short}`
}

function parseValue(
  flag: Flag,
  raw: string | undefined,
): { readonly value: boolean | string | number } | { error: string } {
  const shown = flag.short === undefined ? `--${flag.name}` : `-${flag.short}, --${flag.name}`
  const refuse = (reason: string) => ({
    error: `invalid argument ${JSON.stringify(raw)} for "${shown}" flag: ${reason}`,
  })
  if (flag.kind === 'boolean') {
    if (raw === undefined) return { value: true }
    if (/^(1|t|T|TRUE|true|True)$/.test(raw)) return { value: true }
    if (/^(0|f|F|FALSE|false|False)$/.test(raw)) return { value: false }
    return refuse('must be true or false')
  }
  if (raw === undefined) return { error: `flag needs an argument: --${flag.name}` }
  switch (flag.kind) {
    case 'text':
      return { value: raw }
    case 'choice':
      return flag.choices?.includes(raw) === true
        ? { value: raw }
        : refuse(`must be ${flag.choices?.join(' or ') ?? 'one of none'}`)
    case 'count': {
      const number = /^(\d+|0x[0-9a-f]+)$/i.test(raw) ? Number(raw) : Number.NaN
      return number <= 0xffff_ffff ? { value: number } : refuse('must be a whole number from 0')
    }
    case 'duration': {
      const parsed = parseDuration(raw)
      if ('error' in parsed) return refuse(parsed.error)
      return parsed.milliseconds >= 0 ? { value: parsed.milliseconds } : refuse('must not be negative')
    }
  }
}

function usageError(command: CommandName, mistake: string, suggestion: string | undefined): UsageError {
  const hint = suggestion === undefined ? '' : `\nDid you mean ${suggestion}?`
  const help = command === 'run' ? 'kube-ipvs --help' : `kube-ipvs ${command} --help`
  return { command, message: `${mistake}${hint}\nSee ${help}`, exitCode: USAGE_EXIT_CODE[command] }
}

function unknownFlag(rawName: string, argument: string, command: CommandName): Mistake {
  const known = ENTRIES.flatMap(([, flag]) => (flag.commands.includes(command) ? [flag.name] : []))
  if (rawName.startsWith('--')) {
    const guess = nearest(rawName.slice(2), known)
    return [`unknown flag: ${rawName}`, guess === undefined ? undefined : `--${guess}`]
  }
  // `-proxy-mode=ipvs`: a long name after one dash.
  const [, name = ''] = /^-([^=]+)/.exec(argument) ?? []
  const guess = name.length > 1 ? nearest(name, known) : undefined
  return [
    `unknown shorthand flag: '${rawName.slice(1)}' in ${argument}`,
    guess === undefined ? undefined : `--${guess}`,
  ]
}

function unexpectedArgument(value: string, first: boolean, before: string | undefined): Mistake {
  const previous = ENTRIES.find(
    ([, flag]) => flag.kind === 'boolean' && `--${flag.name}` === before?.replaceAll('_', '-'),
  )
  if (previous !== undefined && /^(true|false|0|1)$/i.test(value)) {
    return [`unexpected argument ${JSON.stringify(value)}`, `--${previous[1].name}=${value}`]
  }
  return first
    ? [`unknown command ${JSON.stringify(value)}`, nearest(value, COMMANDS)]
    : [`unexpected argument ${JSON.stringify(value)}`, undefined]
}
