/**
 * What kube-proxy logs at -v 1 and more while it starts: its flags as they are on the command line, and its feature gates. Without
 * a file some flags show the value that was filled in since.
 */
import { effectiveGates, gateNotices } from '../config/gates.ts'
import type { UncheckedConfiguration } from '../config/types.ts'
import { quote } from '../values/quote.ts'
import type { EarlyLine, LogFormat } from './early-lines.ts'
import { flagTexts } from './flag-value.ts'
import type { FlagValues } from './flags.ts'

export interface StartLinesOptions {
  readonly flags: FlagValues
  readonly configuration: UncheckedConfiguration
  /** The lines after the check of the logging block are written only when that block is valid. */
  readonly isLoggingValid: boolean
  readonly format: LogFormat
  readonly write: (line: EarlyLine) => void
}

export function writeStartLines({ flags, configuration, isLoggingValid, format, write }: StartLinesOptions): void {
  const { featureGates } = configuration
  const writeGates = (as: LogFormat): void => {
    for (const { message, gate, value } of gateNotices(featureGates))
      write({ level: 'info', message, fields: { featureGate: gate, value }, format: as })
  }
  writeGates('text')
  if (!isLoggingValid) return
  const verbose = configuration.logging.verbosity > 0
  if (verbose)
    for (const [name, text] of Object.entries(textsOf(flags, configuration)))
      write({ level: 'info', message: `FLAG: --${name}=${quote(text)}`, verbosity: 1, unstructured: true, format })
  // kube-proxy sets the gates a second time when it validates, now with a log that knows its verbosity.
  writeGates(format)
  if (verbose)
    write({
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
