/** Makes the table of values in helm/README.md, between two marks, from helm/values.yaml. */
import { markdownTable } from '../configuration-reference.ts'
import type { DescribedValue } from './values-file.ts'

const BEGIN = '<!-- values: generated from values.yaml -->\n\n'
const END = '\n\n<!-- end of values -->'

/** The README with its table made again. Throws when a mark is missing. */
export function withValuesTable(readme: string, values: readonly DescribedValue[]): string {
  const from = readme.indexOf(BEGIN)
  const to = readme.indexOf(END)
  if (from < 0 || to < from) throw new Error('helm/README.md lacks the marks of the table of values')
  const rows = values.map(({ path, default: value, description }) => [
    `\`${path}\``,
    `\`${typeof value === 'string' ? value || "''" : JSON.stringify(value)}\``,
    description.replaceAll('|', '\\|'),
  ])
  const table = markdownTable([['value', 'default', 'meaning'], ...rows])
  return readme.slice(0, from + BEGIN.length) + table + readme.slice(to)
}
