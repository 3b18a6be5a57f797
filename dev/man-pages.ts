/**
 * Makes the manual pages of docs/man from the tables that `--help` prints. The test
 * test/cli/man-pages.test.ts compares the files with it, and rewrites them with `UPDATE_GOLDEN=1`.
 * The macros are those of man(7), which every reader of manual pages knows.
 */
import { COMMAND_HELP } from '../src/cli/command-help.ts'
import { programOf } from '../src/start/command-line.ts'
import { COMMANDS, type CommandName } from '../src/start/commands.ts'
import { flagGroups } from '../src/cli/help.ts'
import { wrap } from '../src/cli/paper.ts'
import { VERSION } from '../src/values/well-known.ts'

/** Characters of a line in the file; the reader of the page fills lines as wide as the terminal. */
const WIDTH = 78

/** `kube-ipvs-status.8`: commands of an administrator are in section 8. */
export function manPageName(command: CommandName): string {
  return `${titleOf(command)}.8`
}

function titleOf(command: CommandName): string {
  return programOf(command).replace(' ', '-')
}

/** The manual page of a command, ending with a line break. */
export function manPage(command: CommandName): string {
  const { summary, usage, description, details, examples, exitCodes } = COMMAND_HELP[command]
  const others = COMMANDS.filter((name) => name !== command).map((name) => `.BR ${escape(titleOf(name))} (8)`)
  const lines = [
    '.\\" Generated from the tables in src/cli; see dev/man-pages.ts.',
    `.TH ${titleOf(command).toUpperCase()} 8 "" "kube\\-ipvs ${escape(VERSION)}" "kube\\-ipvs"`,
    '.SH NAME',
    `${escape(titleOf(command))} \\- ${escape(summary)}`,
    '.SH SYNOPSIS',
    ...usage.flatMap((line, index) => [...(index === 0 ? [] : ['.br']), ...text(line)]),
    '.SH DESCRIPTION',
    ...paragraphs(description),
    ...(details === undefined ? [] : [`.SS ${escape(details.title)}`, ...rows(details.rows)]),
    '.SH OPTIONS',
    ...flagGroups(command).flatMap(({ title, rows: flags }, _, all) => [
      ...(all.length === 1 ? [] : [`.SS ${escape(title)}`]),
      ...rows(flags.map(([term, what]) => [term.trim(), what])),
    ]),
    '.SH EXIT STATUS',
    ...rows(exitCodes),
    '.SH EXAMPLES',
    ...examples.flatMap(([line, what]) => ['.TP', escape(what), escape(line)]),
    '.SH SEE ALSO',
    others.join(',\n'),
  ]
  return `${lines.join('\n')}\n`
}

function paragraphs(all: readonly string[]): string[] {
  return all.flatMap((paragraph, index) => [...(index === 0 ? [] : ['.PP']), ...text(paragraph)])
}

function rows(all: readonly (readonly [term: string, explanation: string])[]): string[] {
  return all.flatMap(([term, explanation]) => ['.TP', `\\fB${escape(term)}\\fR`, ...text(explanation)])
}

/** Lines of a paragraph. Only a line that begins with a dot or a quote could be taken for a macro. */
function text(paragraph: string): string[] {
  return wrap(paragraph, WIDTH).map((line) => (/^[.']/.test(line) ? `\\&${escape(line)}` : escape(line)))
}

/** Backslashes and dashes have a meaning in roff; a dash that is typed is `\-`. */
function escape(line: string): string {
  return line.replaceAll('\\', '\\e').replaceAll('-', '\\-')
}
