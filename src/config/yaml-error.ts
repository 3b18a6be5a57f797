/**
 * The error of Go's YAML reader for a text that is not YAML, made from the errors of the `yaml` package. The texts are recorded.
 * Go counts lines in two ways: its scanner from 1, its parser from 0.
 */
import type { ErrorCode } from 'yaml'
import { isOutOfStack, nestingOf } from '../values/nesting.ts'

/** An error of the `yaml` package, with the lines (from 1) where it begins and ends. */
export interface ReaderError {
  readonly code: ErrorCode
  readonly message: string
  readonly line: number
  readonly endLine: number
  /** Where it begins in the text. */
  readonly offset: number
}

/** `yaml: line 4: did not find expected key`, as kube-proxy's log has it. */
export function goYamlError(errors: readonly ReaderError[], text: string): string {
  const [first] = errors
  if (first === undefined) return 'yaml: unknown problem parsing YAML content'
  const lines = text.split('\n')
  const scanner = (line: number, problem: string) => `yaml: line ${line}: ${problem}`
  const parser = atParser
  const { message, line } = first
  switch (first.code) {
    case 'BLOCK_AS_IMPLICIT_KEY':
      return scanner(lineOfColon(lines, errors), 'mapping values are not allowed in this context')
    case 'MISSING_CHAR':
      if (message.includes('quote')) return scanner(lines.length, 'found unexpected end of stream')
      if (message.includes('map keys')) return scanner(nextContent(lines, line), "could not find expected ':'")
      return parser(line, 'did not find expected key')
    case 'MULTILINE_IMPLICIT_KEY':
      if (errors.some((error) => error.code === 'MISSING_CHAR' && error.message.includes('quote')))
        return scanner(lines.length, 'found unexpected end of stream')
      if (errors.some((error) => error.message.includes('block-seq-ind')))
        return parser(line, 'did not find expected key')
      // The first line of a block is a key only if a later line has the colon.
      return scanner(
        Math.max(first.endLine, line + 1),
        beginsBlock(text, first.offset)
          ? 'mapping values are not allowed in this context'
          : "could not find expected ':'",
      )
    case 'BAD_INDENT':
      if (/[,[{]$/.test(text.slice(0, first.offset).trimEnd()))
        return parser(line, 'did not find expected node content')
      if (message.startsWith('Flow sequence')) return parser(line, "did not find expected ',' or ']'")
      if (message.startsWith('Flow map')) return parser(line, "did not find expected ',' or '}'")
      return parser(nextContent(lines, line - 1), missingIndicator(lines, nextContent(lines, line - 1)))
    case 'BAD_SCALAR_START':
      if (text[first.offset] === ',') return parser(line, expectedAt(text, first.offset))
      return scanner(line, 'found character that cannot start any token')
    case 'TAB_AS_INDENT':
      return scanner(
        line,
        endsPlain(lines, line)
          ? 'found a tab character that violates indentation'
          : 'found character that cannot start any token',
      )
    case 'BAD_DQ_ESCAPE':
      return scanner(line, 'found unknown escape character')
    case 'UNEXPECTED_TOKEN':
      if (message.startsWith('Block scalar header')) return scanner(line, 'did not find expected comment or line break')
      if (message.includes('block-seq-ind'))
        return scanner(line, 'block sequence entries are not allowed in this context')
      if (/Unexpected flow-\w+-end token/.test(message)) return parser(line, expectedAt(text, first.offset))
      if (message.startsWith('Unexpected ,')) return parser(line, 'did not find expected node content')
      return parser(line, 'did not find expected key')
    default:
      // The package catches the overflow of the stack itself.
      if (isOutOfStack(message)) return outOfStackError(text)
      return scanner(line, message)
  }
}

/** Brackets that a reader certainly takes. */
const HARMLESS_DEPTH = 500

/** The error for a text that this program's reader has no stack for: Go finds one that is too deep, or a mistake in a long list. */
export function outOfStackError(text: string): string {
  const { depth, line } = nestingOf(text)
  if (depth > HARMLESS_DEPTH) return 'yaml: exceeded max depth of 10000'
  return atParser(line, "did not find expected ',' or ']'")
}

/** Go's parser counts lines from 0, and leaves out the first. */
function atParser(line: number, problem: string): string {
  return line <= 1 ? `yaml: ${problem}` : `yaml: line ${line - 1}: ${problem}`
}

/** The line of the colon that Go does not expect; after a text of several lines it is on a later line. */
function lineOfColon(lines: readonly string[], errors: readonly ReaderError[]): number {
  const line = errors[0]?.endLine ?? 1
  if (!errors.some(({ code }) => code === 'MULTILINE_IMPLICIT_KEY')) return line
  const found = lines.findIndex((text, index) => index >= line && /:(\s|$)/.test(text))
  return found < 0 ? line : found + 1
}

/** What Go expected at a sign that only flow style has: a value after a colon, else a key. */
function expectedAt(text: string, offset: number): string {
  const before = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset).trimEnd()
  const isValue = before === '' ? beginsBlock(text, offset) : before.endsWith(':')
  return isValue ? 'did not find expected node content' : 'did not find expected key'
}

/** Whether this is the first key of its block: the line before it is less indented. */
function beginsBlock(text: string, offset: number): boolean {
  const start = text.lastIndexOf('\n', offset - 1) + 1
  const column = offset - start
  if (/^\s*-\s/.test(text.slice(start, offset))) return true
  const lines = text.slice(0, Math.max(0, start - 1)).split('\n')
  const above = lines.findLast((line) => /^\s*[^#\s]/.test(line) && line.search(/\S/) <= column)
  return above !== undefined && above.search(/\S/) < column && above.trimEnd().endsWith(':')
}

/** What Go expected on a line that is less indented than those before: an item if that column has a list, else a key. */
function missingIndicator(lines: readonly string[], line: number): string {
  const column = (lines[line - 1] ?? '').search(/\S/)
  const above = lines.slice(0, line - 1).findLast((text) => text.search(/\S/) === column)
  return above?.trimStart().startsWith('- ') === true
    ? "did not find expected '-' indicator"
    : 'did not find expected key'
}

/** The next line with content after a line, or the one after the last. */
function nextContent(lines: readonly string[], line: number): number {
  const found = lines.findIndex((text, index) => index >= line && /^[^#\s]/.test(text.trimStart()))
  return found < 0 ? lines.length : found + 1
}

/** Whether the line before ends with a text without quotes, which the next line might continue. */
function endsPlain(lines: readonly string[], line: number): boolean {
  const before = lines.slice(0, line - 1).findLast((text) => text.trim() !== '') ?? ''
  return /[^:\-\]}"'\s]\s*$/.test(before.replace(/\s#.*$/, ''))
}
