/**
 * One log line as text in klog's form or as JSON. Pure: time and process id come in.
 * What could break: log collectors parse klog's header by position, so its widths are fixed.
 */
import type { LogFields } from '../values/log.ts'

export type LogLevel = 'info' | 'warn' | 'error'

export interface LogLine {
  readonly level: LogLevel
  /** Stands where klog has file and line; '' = none. */
  readonly component: string
  readonly message: string
  readonly fields: LogFields
  /** Milliseconds since the epoch. */
  readonly atMs: number
}

const LETTER: Readonly<Record<LogLevel, string>> = { info: 'I', warn: 'W', error: 'E' }

/** `I1120 09:16:25.862000   19023 ipvs] "Adding virtual server" address="10.96.0.1"`, in local time as klog does. */
export function formatText({ level, component, message, fields, atMs }: LogLine, processId: number): string {
  const time = new Date(atMs)
  const date = two(time.getMonth() + 1) + two(time.getDate())
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`
  const micros = `${String(time.getMilliseconds()).padStart(3, '0')}000`
  let line = `${LETTER[level]}${date} ${clock}.${micros} ${String(processId).padStart(7)} `
  line += `${component === '' ? 'kube-ipvs' : component}] ${JSON.stringify(message)}`
  for (const [key, value] of Object.entries(fields)) line += ` ${key}=${textValue(value)}`
  return line
}

/** `{"ts":1700000000000.5,"caller":"ipvs","msg":"…","v":0,…}`; warnings and errors carry `level` in place of `v`. */
export function formatJson({ level, component, message, fields, atMs }: LogLine): string {
  const kind = level === 'info' ? { v: 0 } : { level }
  const values: Record<string, unknown> = { ts: atMs, caller: component, msg: message, ...kind }
  // A field must not hide what every line has.
  for (const [key, value] of Object.entries(fields)) values[Object.hasOwn(values, key) ? `${key}_` : key] = plain(value)
  return JSON.stringify(values)
}

function two(number: number): string {
  return number < 10 ? `0${number}` : String(number)
}

function textValue(value: unknown): string {
  const printed = plain(value)
  if (typeof printed !== 'string') return JSON.stringify(printed) ?? 'null'
  // klog prints texts of several lines as a block of their own.
  return printed.includes('\n') ? `<\n\t${printed.replaceAll('\n', '\n\t')}\n >` : JSON.stringify(printed)
}

/** A value that JSON can hold: errors by message and code, big integers as text, cycles never. */
function plain(value: unknown): unknown {
  if (value instanceof Error) {
    const code = 'code' in value && typeof value.code === 'string' ? ` (${value.code})` : ''
    return `${value.message}${code}`
  }
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
