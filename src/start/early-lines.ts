/**
 * Log lines that kube-proxy writes while it reads flags and configuration, before there is a log.
 * The first ones are text whatever format the configuration asks for, because it is not known yet.
 */
import { effectiveGates, gateNotices } from '../config/gates.ts'
import type { UncheckedConfiguration } from '../config/types.ts'
import { callerOf } from '../serve/log-caller.ts'
import { formatJson, formatText, type LogLine, withoutSecrets } from '../serve/log-line.ts'
import { createLogSink } from '../serve/log-sink.ts'
import { CodedError } from '../values/errors.ts'
import type { LogFields } from '../values/log.ts'
import { quote } from '../values/quote.ts'
import { flagTexts } from './flag-value.ts'
import type { FlagValues } from './flags.ts'

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

  constructor(code: string, message: string, format: LogFormat, advice?: string) {
    super(code, message, { advice })
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

export interface StartLinesOptions {
  readonly flags: FlagValues
  readonly configuration: UncheckedConfiguration
  /** The lines after the check of the logging block are written only when that block is valid. */
  readonly isLoggingValid: boolean
  readonly format: LogFormat
  readonly writeLine: (line: EarlyLine) => void
}

/**
 * Writes what kube-proxy logs at -v 1 and more: its flags as they are on the command line, and its
 * feature gates. Without a file some flags show the value that was filled in since.
 */
export function writeStartLines({ flags, configuration, isLoggingValid, format, writeLine }: StartLinesOptions): void {
  const { featureGates } = configuration
  const writeGates = (as: LogFormat): void => {
    for (const { message, gate, value } of gateNotices(featureGates))
      writeLine({ level: 'info', message, fields: { featureGate: gate, value }, format: as })
  }
  writeGates('text')
  if (!isLoggingValid) return
  const verbose = configuration.logging.verbosity > 0
  if (verbose)
    for (const [name, text] of Object.entries(textsOf(flags, configuration)))
      writeLine({ level: 'info', message: `FLAG: --${name}=${quote(text)}`, verbosity: 1, unstructured: true, format })
  // kube-proxy sets the gates a second time when it validates, now with a log that knows its verbosity.
  writeGates(format)
  if (verbose)
    writeLine({
      level: 'info',
      message: 'Updated',
      fields: { featureGates: effectiveGates(featureGates) },
      verbosity: 1,
      format,
    })
}

/** Without a file the flags are the configuration, after kube-proxy has completed it. */
function textsOf(flags: FlagValues, configuration: UncheckedConfiguration): Readonly<Record<string, string>> {
  const texts = flagTexts(flags)
  if (flags.config !== undefined && flags.config !== '') return texts
  const { mode, detectLocalMode, nodePortAddresses, healthzBindAddress, metricsBindAddress } = configuration
  return {
    ...texts,
    'proxy-mode': mode,
    'detect-local-mode': detectLocalMode,
    'nodeport-addresses': `[${nodePortAddresses.join(',')}]`,
    ...(flags.healthzBindAddress === '' ? {} : { 'healthz-bind-address': healthzBindAddress }),
    ...(flags.metricsBindAddress === '' ? {} : { 'metrics-bind-address': metricsBindAddress }),
  }
}
