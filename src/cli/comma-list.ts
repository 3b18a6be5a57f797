/**
 * A comma list on the command line: one record of CSV, as pflag reads it with Go's encoding/csv.
 * What could break: columns in the reasons count bytes from 1.
 */
import type { Parsed } from '../config/go-text.ts'

/** The items of the list; '' is a list without any. Only the first line counts. */
export function parseCommaList(text: string): Parsed<readonly string[]> {
  if (text === '') return { value: [] }
  const line = text.replace(/^(\r?\n)+/, '')
  if (line === '') return { error: 'EOF' }
  const items: string[] = []
  let at = 0
  for (;;) {
    if (line[at] === '"') {
      const quoted = /^(?:[^"]|"")*/.exec(line.slice(at + 1))?.[0] ?? ''
      const end = at + 1 + quoted.length
      if (line[end] !== '"') return fail(line, line.length, 'extraneous or missing " in quoted-field')
      items.push(quoted.replaceAll('""', '"'))
      at = end + 1
      if (at >= line.length || /^\r?\n/.test(line.slice(at))) return { value: items }
      if (line[at] !== ',') return fail(line, end, 'extraneous or missing " in quoted-field')
    } else {
      const item = /^[^,\n]*/.exec(line.slice(at))?.[0] ?? ''
      const quote = item.indexOf('"')
      if (quote >= 0) return fail(line, at + quote, 'bare " in non-quoted-field')
      at += item.length
      const last = at >= line.length || line[at] === '\n'
      items.push(last ? item.replace(/\r$/, '') : item)
      if (last) return { value: items }
    }
    at++
  }
}

function fail(line: string, index: number, reason: string): { readonly error: string } {
  const column = Buffer.byteLength(line.slice(0, index)) + 1
  return { error: `parse error on line 1, column ${column}: ${reason}` }
}
