/**
 * A configuration text as plain values that still know their lines. Scalars are read as YAML 1.1, as Go's sigs.k8s.io/yaml does.
 * What could break: of a key given twice the last one counts, and only the first document of a file is read, as kube-proxy does.
 */
import { type Document, LineCounter, type Node, isAlias, isMap, isScalar, isSeq, parseAllDocuments, visit } from 'yaml'

/** Where a value stands: keys and list positions from the top. */
export type Path = readonly PropertyKey[]

export interface SyntaxProblem {
  /** From 1; undefined when the place is not known. */
  readonly line: number | undefined
  readonly message: string
}

export interface ConfigurationDocument {
  readonly value: unknown
  /** Keys that stand twice in one block: the line of the later one. */
  readonly duplicates: readonly { readonly key: string; readonly line: number }[]
  /** Line (from 1) of a key or list item; undefined when it is not written anywhere, as with an absent field. */
  lineOf(path: Path): number | undefined
}

/** Values that go-yaml leaves as text: times, and numbers to base 60 such as `1:30`. */
const EXTRA_TAGS: ReadonlySet<string> = new Set(['TIME', 'tag:yaml.org,2002:timestamp'])

/** Parses the first document of a YAML or JSON text. */
export function parseConfigurationDocument(text: string): ConfigurationDocument | { readonly error: SyntaxProblem } {
  const lines = new LineCounter()
  const control = /[^\t\n\r\x20-\x7e\x85\xa0-\ufffd\u{10000}-\u{10ffff}]/u.exec(text)
  if (control !== null) {
    return { error: { line: lineAt(text, control.index), message: 'control characters are not allowed' } }
  }
  const jsonProblem = checkJson(text)
  if (jsonProblem !== undefined) return { error: jsonProblem }

  const parsed = parseAllDocuments(text, {
    version: '1.1',
    uniqueKeys: false,
    prettyErrors: false,
    lineCounter: lines,
    customTags: (tags) =>
      tags.filter((tag) => typeof tag === 'string' || !(EXTRA_TAGS.has(tag.format ?? '') || EXTRA_TAGS.has(tag.tag))),
  })
  const document = Array.isArray(parsed) ? parsed[0] : undefined
  if (document === undefined) return { value: undefined, duplicates: [], lineOf: () => undefined }
  const [error] = document.errors
  if (error !== undefined) {
    return { error: { line: lines.linePos(error.pos[0]).line, message: error.message.replace(/\n[^]*$/, '') } }
  }
  try {
    return {
      value: document.toJS(),
      duplicates: findDuplicates(document, lines),
      lineOf: (path) => findLine(document, lines, path),
    }
  } catch (cause) {
    // Aliases are resolved here: one without anchor, or so many that they were meant to exhaust memory.
    return { error: { line: undefined, message: cause instanceof Error ? cause.message : String(cause) } }
  }
}

/** YAML forgives what JSON does not (a trailing comma); a file that starts as JSON is held to JSON. */
function checkJson(text: string): SyntaxProblem | undefined {
  if (!/^\ufeff?\s*\{/.test(text)) return undefined
  try {
    JSON.parse(text.replace(/^\ufeff/, ''))
    return undefined
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    const position = /position (\d+)/.exec(message)?.[1]
    return { line: position === undefined ? undefined : lineAt(text, Number(position)), message }
  }
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

function findDuplicates(document: Document, lines: LineCounter): { key: string; line: number }[] {
  const duplicates: { key: string; line: number }[] = []
  visit(document, {
    Map: (_, map) => {
      const seen = new Set<unknown>()
      for (const { key } of map.items) {
        if (!isScalar(key)) continue
        if (seen.has(key.value))
          duplicates.push({ key: String(key.value), line: lines.linePos(key.range?.[0] ?? 0).line })
        seen.add(key.value)
      }
    },
  })
  return duplicates
}

function findLine(document: Document, lines: LineCounter, path: Path): number | undefined {
  let node: unknown = document.contents
  let place: Node | undefined
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      // The last one of several equal keys is the one that counts.
      const pair = node.items.findLast(({ key }) => isScalar(key) && String(key.value) === String(step))
      if (pair === undefined || !isScalar(pair.key)) return undefined
      place = pair.key
      node = pair.value
    } else if (isSeq(node)) {
      const item: unknown = node.items[Number(step)]
      if (!isScalar(item) && !isMap(item) && !isSeq(item)) return undefined
      place = item
      node = item
    } else {
      return undefined
    }
  }
  const offset = place?.range?.[0]
  return offset === undefined ? undefined : lines.linePos(offset).line
}
