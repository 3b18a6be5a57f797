/**
 * The text of `--help`: what a command is for, how to call it, examples, its flags from the flag table, exit codes. What
 * most people need comes first.
 */
import { COMMAND_HELP } from './command-help.ts'
import { FLAG_GROUPS, FLAG_HELP, type FlagHelp } from './flag-help.ts'
import { COMMANDS, type CommandName, FLAGS, type Flag, type FlagKey } from './flags.ts'
import type { Style } from './style.ts'

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

/** The flags of a command in their groups; a few of them in one. */
function flagSections(
  command: CommandName,
  list: (title: string, rows: readonly Row[], termWidth: number) => string,
): string[] {
  // Object.entries forgets that its keys are those of the object.
  const entries = (Object.entries(FLAG_HELP) as [FlagKey, FlagHelp][]).flatMap(([key, help]) => {
    const flag: Flag = FLAGS[key]
    const row: Row = [spelling(flag, help), textOf(help, command)]
    return flag.commands.includes(command) ? [{ group: help.group, row }] : []
  })
  const terms = entries.map(({ row: [term] }) => term.length)
  const termWidth = Math.max(...terms.filter((length) => length <= LONGEST_TERM))
  if (entries.length < FEW)
    return [
      list(
        'Flags',
        entries.map(({ row }) => row),
        termWidth,
      ),
    ]
  return FLAG_GROUPS.flatMap((group) => {
    const rows = entries.flatMap((entry) => (entry.group === group ? [entry.row] : []))
    return rows.length === 0 ? [] : [list(group, rows, termWidth)]
  })
}

/** `-v, --v N`; flags without a short form leave its place empty. */
function spelling(flag: Flag, { value }: FlagHelp): string {
  const short = flag.short === undefined ? '    ' : `-${flag.short}, `
  return `${short}--${flag.name}${value === '' ? '' : ` ${value}`}`
}

function textOf({ help, about, default: fallback }: FlagHelp, command: CommandName): string {
  const text = about?.[command] ?? help
  return fallback === undefined || about?.[command] !== undefined ? text : `${text} (default: ${fallback})`.trim()
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

/** Breaks a text at spaces into lines of at most `width` characters; a longer word stands alone. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
