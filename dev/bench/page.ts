/** The figures of a page: the text between two lines of it, which the bench replaces. Pure. */

const END = '<!-- end of figures -->'

/** The page with these figures in place of the earlier ones. Throws when it has no place for them. @param option of the bench: `--experiment` */
export function withFigures(page: string, option: string, figures: string): string {
  const begin = `<!-- figures: written by npm run bench -- ${option} -->`
  const [start, end] = [page.indexOf(begin), page.indexOf(END)]
  if (start === -1 || end < start) throw new Error(`the page has no lines "${begin}" and "${END}"`)
  return `${page.slice(0, start + begin.length)}\n\n${figures}\n\n${page.slice(end)}`
}

/** A table in Markdown. The columns are aligned at the right, but for those whose numbers are given. */
export function markdownTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  left: readonly number[],
): string[] {
  const alignment = heading.map((_, column) => (left.includes(column) ? '---' : '--:'))
  return [heading, alignment, ...rows].map((row) => `| ${row.join(' | ')} |`)
}

/** `12,345.6`, and a dash for what was not measured. */
export function formatNumber(value: number | null, digits: number): string {
  return value === null
    ? '-'
    : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
