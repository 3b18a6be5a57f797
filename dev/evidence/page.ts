/** The page of all results, docs/evidence/results.md. */
import type { PartRecord, PartResult } from './part.ts'

/** Longer lists are only counted. */
const MAX_ITEMS = 8

export function resultsPage(records: readonly PartRecord[]): string {
  const head = [
    '# Evidence: results',
    'Written by `npm run evidence`; the [questions](README.md) say what the parts are for. The files beside this page have all data.',
  ]
  return `${[...head, ...records.map(section)].join('\n\n')}\n`
}

function section({ part, purpose, command, measuredAt, commit, machine, seconds, result }: PartRecord): string {
  const { problems, table, ...figures } = result
  const wrong =
    problems.length === 0 ? ['- no problems'] : problems.map((problem) => `- **problem**: ${escaped(problem)}`)
  return [
    `## ${part}`,
    `${purpose[0]?.toUpperCase()}${purpose.slice(1)}: [data](${part}.json). \`${command}\` took ${seconds} s on ${measuredAt.slice(0, 10)}, commit ${commit}, ${machine}.`,
    [...wrong, ...lines(figures, '')].join('\n'),
    ...(table === undefined || table.length === 0 ? [] : [tableOf(table)]),
  ].join('\n\n')
}

/** A table with the names of the first row as its head. */
function tableOf(rows: NonNullable<PartResult['table']>): string {
  const names = Object.keys(rows[0] ?? {})
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const cells = rows.map((row) => line(names.map((name) => escaped(String(row[name] ?? '')))))
  return [line(names), line(names.map(() => '---')), ...cells].join('\n')
}

/** Figures as a list, objects inside by their path. */
function lines(value: object, path: string): readonly string[] {
  return Object.entries(value).flatMap(([key, one]: [string, unknown]) => {
    const name = path === '' ? key : `${path}.${key}`
    if (Array.isArray(one)) return [`- ${name}: ${listed(one)}`]
    if (typeof one === 'object' && one !== null) return lines(one, name)
    return [`- ${name}: ${escaped(String(one))}`]
  })
}

function listed(values: readonly unknown[]): string {
  const isShort = values.length <= MAX_ITEMS && values.every((value) => typeof value !== 'object')
  return isShort && values.length > 0 ? values.map((value) => escaped(String(value))).join(', ') : String(values.length)
}

/** What Markdown would read otherwise. */
const escaped = (text: string): string => text.replaceAll(/\s+/g, ' ').replaceAll(/[\\`*_[\]<>|]/g, '\\$&')
