/**
 * Rules of the `logging` block, which kube-proxy checks after all others and under paths of its own.
 * What could break: options that are alpha in Kubernetes need their feature gate here too, or a file works with one proxy only.
 */
import type { RuleViolation } from './validate.ts'
import type { UncheckedConfiguration } from './types.ts'

/** Everything wrong with the logging block, in component-base's order and words. */
export function validateLogging(configuration: UncheckedConfiguration): readonly RuleViolation[] {
  const { featureGates, logging } = configuration
  const violations: RuleViolation[] = []
  if (logging.flushFrequencyMs <= 0) {
    const nanoseconds = Math.round(logging.flushFrequencyMs * 1e6)
    violations.push({
      path: 'logging.flushFrequency',
      reason: `Invalid value: ${nanoseconds}: Must be greater than zero`,
    })
  }
  if (logging.format !== 'text' && logging.format !== 'json') {
    violations.push({
      path: 'logging.format',
      reason: `Invalid value: ${JSON.stringify(logging.format)}: Unsupported log format`,
    })
  }
  if (logging.format === 'json' && logging.vmodule.length > 0) {
    violations.push({ path: 'logging.vmodule', reason: 'Forbidden: Only supported for text log format' })
  }
  for (const [index, { filePattern }] of logging.vmodule.entries()) {
    const path = `logging.vmodule[${index}]`
    if (filePattern === '') violations.push({ path, reason: 'Required value: File pattern must not be empty' })
    else if (/[=,]/.test(filePattern)) {
      const value = JSON.stringify(filePattern)
      violations.push({ path, reason: `Invalid value: ${value}: File pattern must not contain equal sign or comma` })
    }
  }
  if (featureGates['LoggingAlphaOptions'] !== true && featureGates['AllAlpha'] !== true) {
    const disabled = 'Forbidden: Feature LoggingAlphaOptions is disabled'
    for (const format of ['text', 'json'] as const) {
      const options = logging.options[format]
      const path = `logging.options.${format}`
      if (options.splitStream) violations.push({ path: `${path}.splitStream`, reason: disabled })
      // A size is zero when it has no digit but 0: "0", "0Ki".
      if (/[1-9]/.test(options.infoBufferSize)) violations.push({ path: `${path}.infoBufferSize`, reason: disabled })
    }
  }
  return violations
}
