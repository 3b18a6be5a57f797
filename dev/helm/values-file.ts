/**
 * Reads helm/values.yaml as documentation: each value with the comment `# -- text` above it, in the
 * order of the file. The schema of the values and the table in helm/README.md are made from it.
 */
import { parse } from 'yaml'

/** A value that the file describes; what lies below it belongs to it. */
export interface DescribedValue {
  /** `image.tag` */
  readonly path: string
  readonly default: unknown
  readonly description: string
}

/** The described values of a text in the form of values.yaml, which indents by two spaces. */
export function describedValues(text: string): readonly DescribedValue[] {
  const values: unknown = parse(text)
  const found: DescribedValue[] = []
  const keys: string[] = []
  let comment: string[] = []
  for (const line of text.split('\n')) {
    const [, indent = '', content = ''] = /^( *)(.*)$/.exec(line) ?? []
    if (content.startsWith('# -- ')) comment = [content.slice('# -- '.length)]
    else if (content.startsWith('# ') && comment.length > 0) comment.push(content.slice('# '.length))
    else {
      const key = /^([A-Za-z]\w*):/.exec(content)?.[1]
      if (key !== undefined) {
        keys.splice(indent.length / 2, keys.length, key)
        const path = keys.join('.')
        if (comment.length > 0) found.push({ path, default: valueAt(values, keys), description: comment.join(' ') })
      }
      comment = []
    }
  }
  return found
}

/** Paths of values that no comment describes, of the given values or below them. */
export function undescribedPaths(values: unknown, described: ReadonlySet<string>, above = ''): readonly string[] {
  if (typeof values !== 'object' || values === null || Array.isArray(values)) return [above]
  return Object.entries(values).flatMap(([key, value]) => {
    const path = above === '' ? key : `${above}.${key}`
    return described.has(path) ? [] : undescribedPaths(value, described, path)
  })
}

function valueAt(values: unknown, keys: readonly string[]): unknown {
  let value = values
  for (const key of keys) value = typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined
  return value
}
