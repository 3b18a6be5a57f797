/**
 * One log line as text in klog's form or as JSON. Pure: time and process id come in.
 * What could break: log collectors parse klog's header by position, so its widths are fixed; and names that others choose
 * must never end a line or reach a terminal as more than letters.
 */
import { type LogFields, ObjectName } from '../values/log.ts'
import { printable, printableJson, quote } from '../values/quote.ts'

export type LogLevel = 'info' | 'warn' | 'error'

export interface LogLine {
  readonly level: LogLevel
  /** Of an info line: the -v that it needs. */
  readonly verbosity: number
  /** Folder, file and line of the call: `cli/run.ts:29`. */
  readonly caller: string
  readonly message: string
  /** A message without fields that is printed as it is, without quotes (klog's Infof). */
  readonly unstructured?: boolean
  readonly fields: LogFields
  /** Milliseconds since the epoch, with a fraction. */
  readonly atMs: number
}

const LETTER: Readonly<Record<LogLevel, string>> = { info: 'I', warn: 'W', error: 'E' }

/** `I1120 09:16:25.862123   19023 table.ts:45] "Adding virtual server" address="10.96.0.1"`, in local time as klog does. */
export function formatText(line: LogLine, processId: number): string {
  const { level, caller, message, unstructured = false, fields, atMs } = line
  const time = new Date(atMs)
  const date = two(time.getMonth() + 1) + two(time.getDate())
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`
  const micros = Math.floor((atMs - Math.floor(atMs / 1000) * 1000) * 1000)
  const file = caller.slice(caller.lastIndexOf('/') + 1)
  let text = `${LETTER[level]}${date} ${clock}.${String(micros).padStart(6, '0')} ${String(processId).padStart(7)} `
  text += `${file}] ${unstructured ? printable(message) : quote(message)}`
  for (const [key, value] of inOrder(fields)) text += ` ${printable(key)}=${textValue(value)}`
  return text
}

/**
 * `{"ts":1700000000000.5,"caller":"ipvs/table.ts:45","msg":"…","v":0,…}`: `v` on info lines only, no level on errors, as
 * kube-proxy has it. Warnings, which it has none of, are info lines with a `severity`.
 */
export function formatJson({ level, verbosity, caller, message, fields, atMs }: LogLine): string {
  const values: Record<string, unknown> = { ts: atMs, caller, msg: message }
  if (level !== 'error') values['v'] = verbosity
  if (level === 'warn') values['severity'] = 'warning'
  // A field must not hide what every line has.
  for (const [key, value] of inOrder(fields)) {
    values[Object.hasOwn(values, key) ? `${key}_` : key] = plain(value)
    if (key === 'err' && value instanceof AggregateError)
      values['errCauses'] = value.errors.map((cause: unknown) => ({ error: plain(cause) }))
  }
  return printableJson(values) ?? ''
}

/** The error first, under klog's name. */
function inOrder(fields: LogFields): readonly (readonly [key: string, value: unknown])[] {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  const error = entries.find(([key]) => key === 'error' || key === 'err')
  return error === undefined ? entries : [['err', error[1]], ...entries.filter((entry) => entry !== error)]
}

function two(number: number): string {
  return number < 10 ? `0${number}` : String(number)
}

function textValue(value: unknown): string {
  const printed = value instanceof ObjectName ? String(value) : plain(value)
  if (typeof printed !== 'string') return printableJson(printed) ?? 'null'
  if (!printed.includes('\n')) return quote(printed)
  // klog prints texts of several lines as a block of their own, each behind a tab.
  const lines = printed.replace(/\n+$/, '').split('\n')
  return `<\n${lines.map((line) => `\t${line.split('\t').map(printable).join('\t')}\n`).join('')} >`
}

/** A value that JSON can hold: errors by message, big integers as text, cycles never. */
function plain(value: unknown): unknown {
  if (value instanceof Error) return value.message || value.name
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'function' || typeof value === 'symbol') return String(value)
  if (typeof value !== 'object' || value === null) return value
  try {
    const text: string | undefined = JSON.stringify(value, (_, inner: unknown) =>
      inner === value ? inner : shallow(inner),
    )
    return text === undefined ? null : JSON.parse(text)
  } catch {
    return '(value that cannot be printed)'
  }
}

function shallow(value: unknown): unknown {
  return value instanceof Error || typeof value === 'bigint' ? plain(value) : value
}
