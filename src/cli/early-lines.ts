/**
 * Log lines that kube-proxy writes while it reads flags and configuration, before there is a log. The first ones are text whatever
 * format the configuration asks for, because it is not known yet.
 */
import { callerOf } from '../serve/log-caller.ts'
import { formatJson, formatText, type LogLine, withoutSecrets } from '../serve/log-line.ts'
import { createLogSink } from '../serve/log-sink.ts'
import { CodedError } from '../values/errors.ts'
import type { LogFields } from '../values/log.ts'

export type LogFormat = 'text' | 'json'

export interface EarlyLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  readonly fields?: LogFields
  /** The -v that the line needs; default 0. */
  readonly verbosity?: number
  /** Printed as it is, without quotes (klog's Infof). */
  readonly unstructured?: boolean
  readonly format: LogFormat
}

/** The error that ends a start, with the format that its line must have. */
export class SettingsRefused extends CodedError {
  readonly format: LogFormat

  constructor(code: string, message: string, format: LogFormat) {
    super(code, message)
    this.format = format
  }
}

/** The format of the line that reports this error. */
export const formatOf = (error: unknown): LogFormat => (error instanceof SettingsRefused ? error.format : 'text')

/** Writes one line to standard error before it returns. */
export function writeEarlyLine({ format, fields = {}, verbosity = 0, unstructured = false, ...rest }: EarlyLine): void {
  const line: LogLine = { ...rest, fields, verbosity, unstructured, caller: callerOf(writeEarlyLine), atMs: Date.now() }
  const text = format === 'json' ? formatJson(line) : formatText(line, process.pid)
  sink.write(withoutSecrets(text))
}

const sink = createLogSink(2)
