/** Text in columns. */

/** Lines of equal length: the first column starts at the left, the others end at the right. */
export function alignColumns(rows: readonly (readonly string[])[], gap = '  '): string[] {
  const count = Math.max(0, ...rows.map((row) => row.length))
  const widths = Array.from({ length: count }, (_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) =>
    widths
      .map((width, column) => (column === 0 ? (row[0] ?? '').padEnd(width) : (row[column] ?? '').padStart(width)))
      .join(gap),
  )
}
