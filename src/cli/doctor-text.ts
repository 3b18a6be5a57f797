/**
 * The text of `kube-ipvs doctor`: one line that says whether the node is fine, the findings by
 * group, and what is right.
 */
import type { CheckReport, Diagnosis } from '../doctor/diagnose.ts'
import { type Finding, GROUPS, type Group } from '../doctor/finding.ts'
import { printable } from '../values/quote.ts'
import type { Style, StyleFormat } from '../start/style.ts'
import { wrap } from './paper.ts'

export interface DiagnosisTextOptions {
  readonly style: Style
  /** Columns of the terminal; undefined: not known. */
  readonly columns: number | undefined
  /** The file of --from. Whoever made it decides what it says. */
  readonly bundle?: string | undefined
}

const COLOURS = {
  error: 'red',
  warning: 'yellow',
  note: 'cyan',
  ok: 'green',
} as const satisfies Readonly<Record<Finding['severity'] | 'ok', StyleFormat>>
const [NARROWEST, WIDEST] = [60, 120]
/** Columns before the text of a finding: the longest severity and two spaces. */
const INDENT = ' '.repeat('warning'.length + 2)

export function diagnosisText(
  diagnosis: Diagnosis,
  { style, columns = WIDEST, bundle }: DiagnosisTextOptions,
): string[] {
  const width = Math.min(WIDEST, Math.max(NARROWEST, columns)) - INDENT.length
  const origin =
    bundle === undefined
      ? ''
      : `from the bundle ${printable(bundle)}, which its maker may have changed: read a command before you run it; `
  const about = wrap(origin + subject(diagnosis), width + INDENT.length).map((line) => style('dim', line))
  const lines = [headline(diagnosis, style), ...about]
  for (const group of groupsOf(diagnosis)) {
    const reports = diagnosis.checks.filter((check) => check.group === group && check.findings.length > 0)
    if (reports.length === 0) continue
    lines.push('', style('bold', GROUPS[group]))
    for (const report of reports)
      for (const finding of report.findings) lines.push(...findingLines(finding, report, style, width))
  }
  const unknown = diagnosis.checks.filter(({ unseen }) => unseen !== null)
  if (unknown.length > 0) {
    lines.push('', style('bold', 'Not seen'))
    // Several checks may lack the same fact.
    for (const [reason, checks] of Map.groupBy(unknown, ({ unseen }) => unseen ?? ''))
      lines.push(
        ...indented(`${checks.map(({ id }) => id).join(', ')}: ${printable(reason)}`, width + INDENT.length - 2, '  '),
      )
  }
  const fine = diagnosis.checks.filter(({ severity }) => severity === 'ok')
  if (fine.length > 0) {
    lines.push('', style('bold', 'Right'))
    for (const { good } of fine) lines.push(`${style('green', 'ok')}${' '.repeat(INDENT.length - 2)}${good}`)
  }
  return lines
}

const groupsOf = ({ checks }: Diagnosis): readonly Group[] => [...new Set(checks.map(({ group }) => group))]

/** The answer to the question that was asked. */
function headline({ nodeName, severity, checks }: Diagnosis, style: Style): string {
  const count = (wanted: Finding['severity']): number =>
    checks.reduce((sum, { findings }) => sum + findings.filter((one) => one.severity === wanted).length, 0)
  const counts = (['error', 'warning', 'note'] as const).flatMap((one) => {
    const number = count(one)
    return number === 0 ? [] : [`${number} ${one}${number === 1 ? '' : 's'}`]
  })
  const unseen = checks.filter((check) => check.unseen !== null).length
  const rest = [...counts, ...(unseen === 0 ? [] : [`${unseen} check${unseen === 1 ? '' : 's'} without all facts`])]
  const state = severity === 'error' ? 'is not fine' : severity === 'warning' ? 'may not be fine' : 'is fine'
  const answer = style([COLOURS[severity], 'bold'], `Node ${printable(nodeName)} ${state}`)
  return rest.length === 0 ? `${answer}.` : `${answer}: ${rest.join(', ')}.`
}

function subject({ mode, kernel, program, collectedAt }: Diagnosis): string {
  return `${mode} mode, kernel ${printable(kernel)}, looked at by kube-ipvs ${printable(program)} at ${printable(collectedAt)}`
}

function findingLines({ severity, what, effect, remedy }: Finding, { docs }: CheckReport, style: Style, width: number) {
  const [first = '', ...more] = wrap(printable(what), width)
  const label = style(COLOURS[severity], severity.padEnd(INDENT.length))
  return [
    `${label}${style('bold', first)}`,
    ...more.map((line) => `${INDENT}${style('bold', line)}`),
    ...indented(printable(effect), width, INDENT),
    // Commands are never broken, so that they can be copied.
    ...remedy.map((line) => `${INDENT}  ${style(line.startsWith('#') ? 'dim' : 'cyan', printable(line))}`),
    `${INDENT}${style('dim', docs)}`,
  ]
}

const indented = (text: string, width: number, indent: string): string[] =>
  wrap(text, width).map((line) => `${indent}${line}`)
