/**
 * Reads Prometheus' text format 0.0.4, strictly: what does not fit throws. Written from the
 * format's description, not from our writer.
 */

export interface ParsedSample {
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

export interface ParsedFamily {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: readonly ParsedSample[]
}

/** Families by name, in the order of the page. */
export function parseMetrics(text: string): ReadonlyMap<string, ParsedFamily> {
  const families = new Map<string, { name: string; type: string; help: string; samples: ParsedSample[] }>()
  if (text !== '' && !text.endsWith('\n')) throw new SyntaxError('the last line has no end')
  let current: { name: string; type: string; help: string; samples: ParsedSample[] } | undefined
  for (const line of text.split('\n').slice(0, -1)) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    if (keyword === 'HELP') {
      if (families.has(name)) throw new SyntaxError(`${name} is there twice`)
      current = { name, type: '', help: rest.replaceAll('\\n', '\n').replaceAll('\\\\', '\\'), samples: [] }
      families.set(name, current)
    } else if (keyword === 'TYPE') {
      if (current?.name !== name) throw new SyntaxError(`TYPE of ${name} without HELP before it`)
      current.type = rest
    } else {
      const sample = parseSample(line)
      if (current === undefined || !belongs(sample.name, current))
        throw new SyntaxError(`${sample.name} is not below its family: ${line}`)
      current.samples.push(sample)
    }
  }
  return families
}

function belongs(name: string, { name: family, type }: { name: string; type: string }): boolean {
  if (type === 'summary') return [family, `${family}_sum`, `${family}_count`].includes(name)
  if (type !== 'histogram') return name === family
  return ['_bucket', '_sum', '_count'].some((suffix) => name === family + suffix)
}

function parseSample(line: string): ParsedSample {
  const name = /^[a-zA-Z_:][a-zA-Z0-9_:]*/.exec(line)?.[0]
  if (name === undefined) throw new SyntaxError(`no name: ${line}`)
  const labels = new Map<string, string>()
  let at = name.length
  if (line[at] === '{') {
    do {
      const label = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)"/.exec(line.slice(at + 1))
      if (label === null) throw new SyntaxError(`a label is wrong: ${line}`)
      const [all, key = '', value = ''] = label
      if (labels.has(key)) throw new SyntaxError(`${key} is there twice: ${line}`)
      labels.set(
        key,
        value.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped)),
      )
      at += 1 + all.length
    } while (line[at] === ',')
    if (line[at] !== '}') throw new SyntaxError(`labels do not end: ${line}`)
    at++
  }
  const value = / (\S+)$/.exec(line.slice(at))
  if (value === null || value.index !== 0) throw new SyntaxError(`no value: ${line}`)
  return { name, labels, value: numberOf(value[1] ?? '') }
}

function numberOf(text: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY
  if (text === '-Inf') return Number.NEGATIVE_INFINITY
  if (text === 'NaN') return Number.NaN
  if (!/^-?\d+(\.\d+)?(e[+-]\d{2,})?$/.test(text)) throw new SyntaxError(`no number of Go's: ${text}`)
  return Number(text)
}

/** The value of one sample; labels as `{a="b"}`. Undefined when it does not exist. */
export function valueOf(
  families: ReadonlyMap<string, ParsedFamily>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ''))
  const wanted = Object.entries(labels)
  return family?.samples.find(
    (sample) =>
      sample.name === name &&
      sample.labels.size === wanted.length &&
      wanted.every(([label, value]) => sample.labels.get(label) === value),
  )?.value
}

/** Label names of a family without `le`, as its first sample has them. */
export function labelsOf({ samples }: ParsedFamily): string[] {
  return [...(samples[0]?.labels.keys() ?? [])].filter((label) => label !== 'le')
}

/** Texts of the bounds of a histogram, of its first series. */
export function bucketsOf({ name, samples }: ParsedFamily): string[] {
  const bounds = samples
    .filter((sample) => sample.name === `${name}_bucket`)
    .map(({ labels }) => labels.get('le') ?? '')
  return [...new Set(bounds)]
}
