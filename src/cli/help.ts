/**
 * The text of `--help`: what a command is for, how to call it, examples, its flags, exit codes.
 * What most people need is first.
 */
import { COMMAND_HELP } from './command-help.ts'
import { wrap } from './paper.ts'
import type { FlagGroup } from '../config/field.ts'
import { COMMANDS, type CommandName } from '../start/commands.ts'
import type { Flag, FlagKinds } from '../start/flag.ts'
import { FLAGS, type FlagKey } from '../start/flags.ts'
import type { Style } from '../start/style.ts'

export interface HelpOptions {
  /** Columns of the terminal; lines are 80 to 100 characters long, 100 where the width is not known. */
  readonly columns?: number | undefined
  readonly style: Style
}

type Row = readonly [term: string, text: string]

const [NARROWEST, WIDEST] = [80, 100]
/** A longer term has its text on the next line. */
const LONGEST_TERM = 34
/** Fewer flags than this make one group. */
const FEW = 14

/** Help of one command, ending with a line break. */
export function helpText(command: CommandName, { columns = WIDEST, style }: HelpOptions): string {
  const width = Math.min(WIDEST, Math.max(NARROWEST, columns))
  const { description, details, usage, examples, exitCodes } = COMMAND_HELP[command]
  const list = (title: string, rows: readonly Row[], termWidth?: number): string =>
    `${style('bold', title)}:\n${rowLines(rows, width, termWidth).join('\n')}`
  const commands = COMMANDS.filter((name) => name !== 'run').map((name): Row => [name, COMMAND_HELP[name].summary])
  const sections = [
    ...description.map((paragraph) => wrap(paragraph, width).join('\n')),
    `${style('bold', 'Usage')}:\n${usage.map((line) => `  ${line}`).join('\n')}`,
    ...(command === 'run' ? [list('Commands', [...commands, ['help', 'show this text, or that of a command']])] : []),
    ...(details === undefined ? [] : [list(details.title, details.rows)]),
    `${style('bold', 'Examples')}:\n${examples.map(([line, what]) => `  ${style('dim', `# ${what}`)}\n  ${line}`).join('\n')}`,
    ...flagSections(command, list),
    list('Exit codes', exitCodes),
  ]
  return `${sections.join('\n\n')}\n`
}

/** Titles of the groups, in the order of help: what most people need is first, what does nothing last. */
const GROUPS: Readonly<Record<FlagGroup, string>> = {
  first: 'Flags to begin with',
  once: 'Flags that do one thing and end',
  modes: 'Flags for modes and rules',
  addresses: 'Flags for addresses and local traffic',
  api: 'Flags for the API server',
  ports: 'Flags for the health and metrics ports',
  process: 'Flags for logging and the process',
  conntrack: 'Flags for connection tracking',
  own: 'Flags that kube-proxy does not have',
  unused: 'Flags of kube-proxy without effect here',
}

/**
 * The order of the first group; in all others flags of commands are before those of fields, and
 * deprecated ones last.
 */
const FIRST: readonly FlagKey[] = [
  'config',
  'from',
  'bundle',
  'manifests',
  'clientConnection.kubeconfig',
  'mode',
  'hostnameOverride',
  'address',
  'pod',
  'draining',
  'problems',
  'watch',
  'sort',
  'by',
  'interval',
  'wait',
  'timeout',
  'all',
  'dryRun',
  'logging.verbosity',
  'output',
  'help',
]

/** Placeholder for a value of each kind. */
const VALUES: Readonly<Record<keyof FlagKinds, string>> = {
  text: 'TEXT',
  optionalText: 'TEXT',
  address: 'IP',
  addressPort: 'IP[:PORT]',
  boolean: '',
  int32: 'N',
  nonZeroInt32: 'N',
  float32: 'N',
  level: 'N',
  duration: 'DURATION',
  optionalDuration: 'DURATION',
  flushFrequency: 'DURATION',
  texts: 'CIDR,...',
  optionalTexts: 'CIDR,...',
  gates: 'NAME=BOOL,...',
  vmodule: 'PATTERN=N,...',
  quantity: 'SIZE',
  version: '',
  output: 'text|json',
}

/** The flags of a command in their groups; a few of them in one. */
function flagSections(
  command: CommandName,
  list: (title: string, rows: readonly Row[], termWidth: number) => string,
): string[] {
  const groups = flagGroups(command)
  const terms = groups.flatMap(({ rows }) => rows.map(([term]) => term.length))
  const termWidth = Math.max(...terms.filter((length) => length <= LONGEST_TERM))
  return groups.map(({ title, rows }) => list(title, rows, termWidth))
}

/** The flags of a command with their explanations, in titled groups; a few of them in one. */
export function flagGroups(command: CommandName): readonly { readonly title: string; readonly rows: readonly Row[] }[] {
  const groups = Object.entries(GROUPS).map(([group, title]) => ({
    title,
    rows: flagsOf(group)
      .filter(({ commands }) => commands.includes(command))
      .map((flag): Row => [spelling(flag, command), textOf(flag, command)]),
  }))
  const all = groups.flatMap(({ rows }) => rows)
  if (all.length < FEW) return [{ title: 'Flags', rows: all }]
  return groups.filter(({ rows }) => rows.length > 0)
}

function flagsOf(group: string): readonly Flag[] {
  return group === 'first'
    ? FIRST.map((key) => FLAGS[key])
    : Object.values(FLAGS)
        .filter((flag) => flag.group === group)
        .toSorted((a, b) => Number(a.deprecated !== undefined) - Number(b.deprecated !== undefined))
}

/** `-v, --v N`; flags without a short form leave its place empty. */
function spelling({ name, short, kind, values, value: usual = VALUES[kind] }: Flag, command: CommandName): string {
  const value = values?.[command] ?? usual
  return `${short === undefined ? '    ' : `-${short}, `}--${name}${value === '' ? '' : ` ${value}`}`
}

/** Defaults that need no words. */
const PLAIN_DEFAULTS: ReadonlySet<string> = new Set(['', 'false', '[]'])

function textOf({ help, about, default: given = '', defaultHelp = given }: Flag, command: CommandName): string {
  const text = about?.[command]
  if (text !== undefined) return text
  return PLAIN_DEFAULTS.has(defaultHelp) ? help : `${help} (default: ${defaultHelp})`.trim()
}

/** Terms and their explanations, the latter aligned and wrapped. */
function rowLines(
  rows: readonly Row[],
  width: number,
  termWidth = Math.max(...rows.map(([term]) => term.length)),
): string[] {
  const indent = ' '.repeat(termWidth + 4)
  return rows.flatMap(([term, explanation]) => {
    const [first = '', ...more] = wrap(explanation, width - indent.length)
    const rest = more.map((line) => `${indent}${line}`)
    if (term.length > termWidth)
      return [`  ${term}`, ...[first].filter(Boolean).map((line) => `${indent}${line}`), ...rest]
    return [`  ${term.padEnd(termWidth)}  ${first}`.trimEnd(), ...rest]
  })
}
