/**
 * Rules of the `logging` block, which kube-proxy checks before all others and under paths of its own.
 * What could break: options that are alpha in Kubernetes need their feature gate here too, or a file works with one proxy only.
 */
import { quote } from '../values/quote.ts'
import { formatDuration } from './duration.ts'
import { gate } from './gates.ts'
import { isZeroQuantity } from './quantity.ts'
import type { UncheckedConfiguration } from './types.ts'
import type { RuleViolation } from './validate.ts'

const MOST_VERBOSE = 0x7fff_ffff

/** Everything wrong with the logging block, in component-base's order and words. */
export function validateLogging(configuration: UncheckedConfiguration): readonly RuleViolation[] {
  const { logging } = configuration
  const { format, flushFrequencyMs, vmodule, verbosity } = logging
  const violations: RuleViolation[] = []
  const add = (field: string, reason: string) => violations.push({ path: `logging.${field}`, reason })
  if (flushFrequencyMs <= 0) {
    const text = logging.flushFrequencyAsNumber
      ? String(Math.round(flushFrequencyMs * 1e6))
      : quote(formatDuration(flushFrequencyMs))
    add('flushFrequency', `Invalid value: ${text}: Must be greater than zero`)
  }
  if (format !== 'text' && format !== 'json') add('format', `Invalid value: ${quote(format)}: Unsupported log format`)
  else if (format === 'json' && !gate(configuration, 'LoggingBetaOptions'))
    add('format', 'Forbidden: Log format json is disabled, see LoggingBetaOptions feature')
  if (verbosity > MOST_VERBOSE) add('verbosity', `Invalid value: ${verbosity}: Must be <= ${MOST_VERBOSE}`)
  if (format !== '' && format !== 'text' && vmodule.length > 0)
    add('vmodule', 'Forbidden: Only supported for text log format')
  for (const [index, item] of vmodule.entries()) {
    const path = `vmodule[${index}]`
    if (item.filePattern === '') add(path, 'Required value: File pattern must not be empty')
    if (/[=,]/.test(item.filePattern)) {
      const value = quote(item.filePattern)
      add(path, `Invalid value: ${value}: File pattern must not contain equal sign or comma`)
    }
    if (item.verbosity > MOST_VERBOSE) add(path, `Invalid value: ${item.verbosity}: Must be <= ${MOST_VERBOSE}`)
  }
  if (!gate(configuration, 'LoggingAlphaOptions')) {
    const disabled = 'Forbidden: Feature LoggingAlphaOptions is disabled'
    for (const name of ['text', 'json'] as const) {
      const options = logging.options[name]
      if (options.splitStream) add(`options.${name}.splitStream`, disabled)
      if (!isZeroQuantity(options.infoBufferSize)) add(`options.${name}.infoBufferSize`, disabled)
    }
  }
  return violations
}
