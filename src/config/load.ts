/**
 * From the text of a configuration file to a configuration, or to everything that is wrong with it.
 * What could break: unknown and repeated fields are warnings, never errors: one file must serve proxies of several releases.
 */
import type * as z from 'zod'
import { CodedError, type Problem } from '../values/errors.ts'
import { completeConfiguration } from './complete.ts'
import { type Path, parseConfigurationDocument } from './document.ts'
import { validateLogging } from './logging.ts'
import { at, nameType, typeError, unknownFieldWarning, valueAt } from './problems.ts'
import { documentSchema } from './schema.ts'
import type { KubeProxyConfiguration, UncheckedConfiguration } from './types.ts'
import { type RuleViolation, validateConfiguration } from './validate.ts'
import { API_VERSION, KIND } from './write.ts'

/**
 * Either a configuration to run with, or why there is none. Codes: `config-syntax`, `config-kind`, `config-type`,
 * `config-invalid`, `config-unreadable`; of warnings `config-unknown-field`, `config-duplicate-field`, `config-no-effect`.
 */
export type ConfigurationResult =
  | { readonly configuration: KubeProxyConfiguration; readonly warnings: readonly Problem[] }
  | { readonly errors: readonly Problem[] }

/** Reads a configuration from text. `source` names it in problems, usually the file's path. */
export function loadConfiguration(text: string, source: string): ConfigurationResult {
  const document = parseConfigurationDocument(text)
  if ('error' in document) {
    const { line, message } = document.error
    return { errors: [{ code: 'config-syntax', subject: at(source, line), message: `not valid YAML: ${message}` }] }
  }
  const kindError = checkKind(document.value, source)
  if (kindError !== undefined) return { errors: [kindError] }

  const strict = documentSchema.safeParse(document.value)
  const unknown = strict.success ? [] : strict.error.issues.flatMap(unknownFields)
  const shaped = unknown.length === 0 ? strict : documentSchema.safeParse(without(document.value, unknown))
  if (!shaped.success) {
    return { errors: shaped.error.issues.map((issue) => typeError(issue, document, source)) }
  }
  const checked = checkConfiguration(completeConfiguration(shaped.data), source)
  if ('errors' in checked) return checked
  const { configuration } = checked
  return {
    configuration,
    warnings: [
      ...unknown.map((path) => unknownFieldWarning(path, document, source, configuration)),
      ...document.duplicates.map(({ key, line }) => ({
        code: 'config-duplicate-field',
        subject: at(source, line),
        field: key,
        message: 'given twice; the last one counts',
      })),
      ...checked.warnings,
    ],
  }
}

/** Every default, in a mode that may still turn out to be none. */
export function defaultsForMode(mode: string): UncheckedConfiguration {
  return completeConfiguration(documentSchema.parse({ apiVersion: API_VERSION, kind: KIND, mode }))
}

/** The configuration without a file: every default, in the given mode. */
export function defaultConfiguration(mode: KubeProxyConfiguration['mode'] = 'ipvs'): KubeProxyConfiguration {
  const checked = checkConfiguration(defaultsForMode(mode), 'defaults')
  if ('errors' in checked) throw new CodedError('config-invalid', formatConfigurationErrors(checked.errors))
  return checked.configuration
}

/** Holds a completed configuration against all rules; also used after flags have changed it. */
export function checkConfiguration(configuration: UncheckedConfiguration, source: string): ConfigurationResult {
  const problem = ({ path, reason }: RuleViolation): Problem => ({
    code: 'config-invalid',
    subject: source,
    field: path,
    message: reason,
  })
  const violations = [...validateLogging(configuration), ...validateConfiguration(configuration)]
  if (violations.length > 0 || !hasKnownWords(configuration)) return { errors: violations.map(problem) }
  const gates = Object.keys(configuration.featureGates).filter((name) => name !== 'LoggingAlphaOptions')
  const warnings = gates.map((name) => ({
    code: 'config-no-effect',
    subject: source,
    field: `featureGates.${name}`,
    message: 'kube-ipvs has no such feature gate; it has no effect here',
  }))
  return { configuration, warnings }
}

/** All errors in the form kube-proxy prints them: `path: reason`, several in brackets. */
export function formatConfigurationErrors(errors: readonly Problem[]): string {
  const lines = errors.map(({ field, message }) => (field === undefined ? message : `${field}: ${message}`))
  return lines.length === 1 ? lines.join('') : `[${lines.join(', ')}]`
}

/** Narrows the type after validation, which has said what is wrong with any other word. */
function hasKnownWords(configuration: UncheckedConfiguration): configuration is KubeProxyConfiguration {
  const { mode, detectLocalMode, logging } = configuration
  return (
    (mode === 'ipvs' || mode === 'iptables') &&
    ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'].includes(detectLocalMode) &&
    (logging.format === 'text' || logging.format === 'json')
  )
}

function checkKind(value: unknown, source: string): Problem | undefined {
  const fail = (message: string): Problem => ({ code: 'config-kind', subject: source, message })
  if (value === undefined || value === null)
    return fail(`is empty; expected apiVersion: ${API_VERSION} and kind: ${KIND}`)
  if (typeof value !== 'object' || Array.isArray(value)) {
    return fail(`expected fields such as kind: ${KIND}, got ${nameType(value)}`)
  }
  for (const [field, expected] of [
    ['apiVersion', API_VERSION],
    ['kind', KIND],
  ] as const) {
    const found: unknown = Reflect.get(value, field)
    if (found === undefined || found === null) return { ...fail(`is missing; expected ${expected}`), field }
    if (found !== expected) return { ...fail(`expected ${expected}, got ${JSON.stringify(found)}`), field }
  }
  return undefined
}

function unknownFields(issue: z.core.$ZodIssue): Path[] {
  return issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : []
}

/** A copy of the document's value without the given fields. */
function without(value: unknown, paths: readonly Path[]): unknown {
  const copy: unknown = structuredClone(value)
  for (const path of paths) {
    const parent = valueAt(copy, path.slice(0, -1))
    const key = path.at(-1)
    if (typeof parent === 'object' && parent !== null && key !== undefined) Reflect.deleteProperty(parent, key)
  }
  return copy
}
