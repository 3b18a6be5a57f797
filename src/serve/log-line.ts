/**
 * Formats one log line in klog's text form or as JSON, and removes secrets from it. Pure: time and
 * process id are arguments. Log collectors parse klog's header by position, so its widths are
 * fixed. Names that users choose must not break a line or send control characters to a terminal.
 */
import { type LogFields, ObjectName } from '../values/log.ts'
import { printable, printableJson, quote } from '../values/quote.ts'

export type LogLevel = 'info' | 'warn' | 'error'

export interface LogLine {
  readonly level: LogLevel
  /** The -v that an info line needs. */
  readonly verbosity: number
  /** Folder, file and line of the call: `start/run.ts:29`. */
  readonly caller: string
  readonly message: string
  /** Prints the message without quotes and without fields (klog's Infof). */
  readonly unstructured?: boolean
  readonly fields: LogFields
  /** Milliseconds since the epoch, with a fraction. */
  readonly atMs: number
}

const LETTER: Readonly<Record<LogLevel, string>> = { info: 'I', warn: 'W', error: 'E' }

/**
 * `I1120 09:16:25.862123 19023 table.ts:45] "Adding virtual server" address="10.96.0.1"`, in local
 * time like klog.
 */
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
 * `{"ts":1700000000000.5,"caller":"ipvs/table.ts:45","msg":"…","v":0,…}`. As in kube-proxy, only
 * info lines have `v`, and errors have no level. kube-proxy has no warnings; ours are info lines
 * with a `severity`.
 */
export function formatJson({ level, verbosity, caller, message, fields, atMs }: LogLine): string {
  const values: Record<string, unknown> = { ts: atMs, caller, msg: message }
  if (level !== 'error') values['v'] = verbosity
  if (level === 'warn') values['severity'] = 'warning'
  // A field must not replace a member that every line has.
  for (const [key, value] of inOrder(fields)) {
    values[Object.hasOwn(values, key) ? `${key}_` : key] = plain(value)
    if (key === 'err' && value instanceof AggregateError)
      values['errCauses'] = value.errors.map((cause: unknown) => ({ error: plain(cause) }))
  }
  return printableJson(values) ?? ''
}

/** The fields, with the error first and under klog's name for it. */
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
  // klog prints a text of several lines as a block and puts a tab before each line.
  const lines = printed.replace(/\n+$/, '').split('\n')
  return `<\n${lines.map((line) => `\t${line.split('\t').map(printable).join('\t')}\n`).join('')} >`
}

/** A value that JSON can hold: an error becomes its message, a big integer its text, and a cycle a fixed text. */
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
    return '(unprintable value)'
  }
}

function shallow(value: unknown): unknown {
  return value instanceof Error || typeof value === 'bigint' ? plain(value) : value
}

/** The replacement of a secret. */
const REDACTED = '[redacted]'

/** One cheap test, which nearly every line fails. */
const SUSPECT = /bearer|basic |eyJ|PRIVATE KEY|:\/\/[^\s/"]*@|token|password|key-data|authorization/i

const SECRETS: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/\b(bearer|basic) +[\w+/=.~-]{6,}/gi, `$1 ${REDACTED}`],
  // A JSON Web Token, such as the token of a service account.
  [/(?<![\w-])eyJ[\w-]+\.[\w-]+\.?[\w-]*/g, REDACTED],
  [/-----BEGIN ([A-Z ]*PRIVATE KEY)-----[^]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, REDACTED],
  [/(:\/\/)[^\s/"@]+@/g, `$1${REDACTED}@`],
  [/((?:token|password|key-data|authorization)\\*["']?\s*[:=]\s*\\*["']?)[\w+/=.~-]{8,}/gi, `$1${REDACTED}`],
]

/**
 * Replaces everything in a line that looks like a credential. This is only the last guard: code
 * that logs must not pass tokens and keys in the first place.
 */
export function withoutSecrets(line: string): string {
  if (!SUSPECT.test(line)) return line
  return SECRETS.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), line)
}
