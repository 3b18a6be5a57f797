/**
 * What kube-proxy says at -v 1 and more while it starts: its flags, and its feature gates.
 * What could break: the flags are those of the command line; without a file some show what was filled in since.
 */
import { effectiveGates, gateNotices } from '../config/gates.ts'
import type { UncheckedConfiguration } from '../config/types.ts'
import { quote } from '../values/quote.ts'
import type { EarlyLine, LogFormat } from './early-lines.ts'
import { flagTexts } from './flag-value.ts'
import type { FlagValues } from './flags.ts'

export interface Start {
  readonly flags: FlagValues
  readonly configuration: UncheckedConfiguration
  /** Whether the logging block is good, so that what follows it comes too. */
  readonly logging: boolean
  readonly format: LogFormat
  readonly say: (line: EarlyLine) => void
}

export function sayStart({ flags, configuration, logging, format, say }: Start): void {
  const { featureGates } = configuration
  const sayGates = (as: LogFormat): void => {
    for (const { message, gate, value } of gateNotices(featureGates))
      say({ level: 'info', message, fields: { featureGate: gate, value }, format: as })
  }
  sayGates('text')
  if (!logging) return
  const verbose = configuration.logging.verbosity > 0
  if (verbose)
    for (const [name, text] of Object.entries(textsOf(flags, configuration)))
      say({ level: 'info', message: `FLAG: --${name}=${quote(text)}`, verbosity: 1, unstructured: true, format })
  // kube-proxy sets them a second time when it validates, now with a log that knows its level.
  sayGates(format)
  if (verbose)
    say({
      level: 'info',
      message: 'Updated',
      fields: { featureGates: effectiveGates(featureGates) },
      verbosity: 1,
      format,
    })
}

/** Without a file the flags are the configuration, as it was completed. */
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
