/** The figures of a page: the text between two lines of it, which the bench replaces. Pure. */

const BEGIN = '<!-- figures: written by npm run bench -- --experiment -->'
const END = '<!-- end of figures -->'

/** The page with these figures in place of the earlier ones. Throws when it has no place for them. */
export function withFigures(page: string, figures: string): string {
  const [start, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (start === -1 || end < start) throw new Error(`the page has no lines "${BEGIN}" and "${END}"`)
  return `${page.slice(0, start + BEGIN.length)}\n\n${figures}\n\n${page.slice(end)}`
}

/** A table in Markdown. The columns are aligned at the right, but the second one. */
export function markdownTable(heading: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const alignment = heading.map((_, column) => (column === 1 ? '---' : '--:'))
  return [heading, alignment, ...rows].map((row) => `| ${row.join(' | ')} |`)
}

/** `12,345.6`, and a dash for what was not measured. */
export function formatNumber(value: number | null, digits: number): string {
  return value === null
    ? '-'
    : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
