/** A log for commands that people type: warnings and errors as plain lines on standard error, nothing else. */
import type { Log, LogFields } from '../values/log.ts'
import { printable } from '../values/quote.ts'
import { errorText } from '../values/errors.ts'

function line(message: string, fields: LogFields = {}): void {
  const details = Object.entries(fields).map(([name, value]) => `${name}=${printable(errorText(value))}`)
  process.stderr.write(`${[message, ...details].join(' ')}\n`)
}

export const stderrLog: Log = {
  info: () => undefined,
  verbose: () => undefined,
  warn: line,
  error: line,
  v: () => false,
}
