/**
 * Reads the text of a configuration file: decode, complete, check gates, check logging, check
 * everything else. The result is a configuration or the first error, in kube-proxy's words. Unknown
 * and repeated fields are warnings, never errors, because one file must serve proxies of several
 * releases.
 */
import { aggregateText } from '../values/errors.ts'
import { quote } from '../values/quote.ts'
import type * as z from 'zod'
import type { Problem } from '../values/errors.ts'
import { nearest } from '../values/nearest.ts'
import { adviceOn } from './advice.ts'
import { completeDefaults, completeModes, keepBlockOfMode } from './complete.ts'
import { compareInOrder, decodeError, isInternal, kindError } from './decode-error.ts'
import {
  type ConfigurationDocument,
  formatPath,
  MAX_REPORTED,
  type Path,
  parseConfigurationDocument,
} from './document.ts'
import { ineffectiveFields } from './changes.ts'
import { gateError, IPVS_GATE, refusesIpvs, unknownGates } from './gates.ts'
import { API_VERSION, documentShape, KIND, type Shape, readDocument } from './schema.ts'
import type { KubeProxyConfiguration, UncheckedConfiguration } from './types.ts'
import { type RuleViolation, validateConfiguration, validateLogging } from './validate.ts'
import { valueAt } from './values.ts'

/**
 * One problem says why there is no configuration; its message is that of kube-proxy, stage first.
 * Codes: `config-decode`, `config-gates`, `config-logging`, `config-invalid`, `config-unreadable`;
 * codes of warnings: `config-unknown-field`, `config-duplicate-field`, `config-more-documents`,
 * `config-unknown-gate`, `config-ipvs-gate`, `config-no-effect`.
 */
export interface Refused {
  readonly errors: readonly Problem[]
  /** What to do about it, where that is known: one sentence. */
  readonly advice?: string | undefined
}

/** A configuration to run with. */
export interface Accepted {
  readonly configuration: KubeProxyConfiguration
  readonly warnings: readonly Problem[]
}

export type ConfigurationResult = Accepted | Refused

/** A document that was read: only its types were checked, and flags may still change it. */
export interface DecodedConfiguration {
  readonly configuration: UncheckedConfiguration
  readonly warnings: readonly Problem[]
  /** Why a strict decoder refuses it: unknown and repeated fields. */
  readonly lenient: string | undefined
}

/** Reads and checks a configuration. `source` names it in problems, usually the file's path. */
export function loadConfiguration(text: string, source: string): ConfigurationResult {
  const decoded = decodeConfiguration(text, source)
  if ('errors' in decoded) return decoded
  const checked = checkConfiguration(completeModes(decoded.configuration), source)
  return 'errors' in checked ? checked : { ...checked, warnings: [...decoded.warnings, ...checked.warnings] }
}

/** Reads a configuration from text; `checkConfiguration` checks its values. */
export function decodeConfiguration(text: string, source: string): DecodedConfiguration | Refused {
  const document = parseConfigurationDocument(text)
  if ('error' in document) return undecodable(source, document.error)
  const wrongKind = kindError(document.value)
  if (wrongKind !== undefined) return { ...undecodable(source, wrongKind), advice: adviceOn(document) }
  if (isInternal(document.value)) return { configuration: internalDocument(), warnings: [], lenient: undefined }

  const { schema, fields } = documentShape()
  const strict = schema.safeParse(document.value)
  const unknown = strict.success ? [] : strict.error.issues.flatMap(unknownFields)
  const shaped = unknown.length === 0 ? strict : schema.safeParse(without(document.value, unknown))
  if (!shaped.success) {
    const error = decodeError(shaped.error.issues, document) ?? 'not a configuration'
    return undecodable(source, error)
  }
  return {
    configuration: {
      ...keepBlockOfMode(completeDefaults(readDocument(shaped.data))),
      ...(hasOwnBlock(document.value) ? { kubeIPVSGiven: true } : {}),
    },
    warnings: [
      ...unknown.slice(0, MAX_REPORTED).map((path) => unknownWarning(path, fields, document, source)),
      ...moreDocuments(document.others.length, source),
      ...document.duplicates.map(
        ({ text }): Problem => ({
          code: 'config-duplicate-field',
          about: 'configuration',
          subject: source,
          message: text,
        }),
      ),
    ],
    lenient: strictError(document, unknown),
  }
}

/** Whether the file has the block that only this program has. */
function hasOwnBlock(value: unknown): boolean {
  return (valueAt(value, ['kubeIPVS']) ?? null) !== null
}

function moreDocuments(others: number, source: string): readonly Problem[] {
  if (others === 0) return []
  return [
    {
      code: 'config-more-documents',
      about: 'configuration',
      subject: source,
      message: `only the first of its ${others + 1} documents counts`,
    },
  ]
}

/** Every default, with the mode not given. */
export function defaultDocument(): UncheckedConfiguration {
  const document = documentShape().schema.parse({ apiVersion: API_VERSION, kind: KIND })
  return keepBlockOfMode(completeDefaults(readDocument(document)))
}

/** kube-proxy also decodes its internal version, which has no defaults, and then refuses the empty logging block. */
function internalDocument(): UncheckedConfiguration {
  const { logging, ...rest } = defaultDocument()
  return { ...rest, logging: { ...logging, format: '', flushFrequencyMs: 0, flushFrequencyAsNumber: true } }
}

/** Checks a completed configuration by all rules, in kube-proxy's order: gates, logging, everything else. */
export function checkConfiguration(configuration: UncheckedConfiguration, source: string): ConfigurationResult {
  const gates = gateError(configuration.featureGates)
  if (gates !== undefined) return refuse('config-gates', source, `failed complete: ${gates}`)
  const logging = validateLogging(configuration)
  if (logging.length > 0) return refuse('config-logging', source, `initialize logging: ${aggregate(logging)}`)
  const violations = validateConfiguration(configuration)
  if (violations.length > 0) {
    const refused = refuse('config-invalid', source, `failed validate: ${aggregate(violations)}`)
    return configuration.mode === 'ipvs' && refusesIpvs(configuration)
      ? { ...refused, advice: IPVS_GATE_ADVICE }
      : refused
  }
  if (!hasKnownWords(configuration)) return refuse('config-mode', source, modeError(configuration.mode))
  return {
    configuration,
    warnings: [
      ...unknownGateWarnings(configuration, source),
      ...ipvsGateWarnings(configuration, source),
      ...noEffect(configuration, source),
    ],
  }
}

/** A warning for each gate that is in no release known here. */
export function unknownGateWarnings({ featureGates }: UncheckedConfiguration, source: string): readonly Problem[] {
  return unknownGates(featureGates).map(({ name, guess }) => ({
    code: 'config-unknown-gate',
    about: 'configuration',
    subject: source,
    field: `featureGates.${name}`,
    message: `unknown feature gate, ignored${guess === undefined ? '' : ` (did you mean ${guess}?)`}`,
  }))
}

/** A warning where KubeProxyIPVS is false, and ipvs mode starts all the same. */
function ipvsGateWarnings({ mode, featureGates }: UncheckedConfiguration, source: string): readonly Problem[] {
  if (mode !== 'ipvs' || featureGates[IPVS_GATE] !== false) return []
  const message =
    'ipvs mode starts although it is false, because kubeIPVS is configured and this program is the IPVS proxy'
  return [
    { code: 'config-ipvs-gate', about: 'configuration', subject: source, field: `featureGates.${IPVS_GATE}`, message },
  ]
}

const IPVS_GATE_ADVICE = `The feature gate ${IPVS_GATE} is false, which says that this node is to have no IPVS. Remove it, or write a block kubeIPVS into the configuration (kubeIPVS: {} is enough).`

function noEffect(configuration: KubeProxyConfiguration, source: string): readonly Problem[] {
  const fields = ineffectiveFields(configuration, defaultDocument())
  const message = `without effect here: ${fields.join(', ')}`
  return fields.length === 0 ? [] : [{ code: 'config-no-effect', about: 'configuration', subject: source, message }]
}

/** All errors as one text. */
export function formatConfigurationErrors(errors: readonly Problem[]): string {
  return errors.map(({ message }) => message).join('; ')
}

/** kube-proxy also has nftables mode. */
function modeError(mode: string): string {
  return `kube-ipvs has the modes ipvs and iptables, not ${mode}: set one of them, or run kube-proxy itself for ${mode}`
}

function undecodable(source: string, error: string): Refused {
  return refuse('config-decode', source, `failed complete: failed to decode: ${error}`)
}

function refuse(code: string, subject: string, message: string): Refused {
  return { errors: [{ code, about: 'configuration', subject, message }] }
}

/** apimachinery's ToAggregate, which names each text once, without the rest of very many. */
function aggregate(violations: readonly RuleViolation[]): string {
  const all = [...new Set(violations.map(({ path, reason }) => `${path}: ${reason}`))]
  const more = all.length - MAX_REPORTED
  const lines = more > 0 ? [...all.slice(0, MAX_REPORTED), `and ${more} more`] : all
  return aggregateText(lines)
}

/** Narrows the type after validation, which refuses every other word but nftables. */
function hasKnownWords(configuration: UncheckedConfiguration): configuration is KubeProxyConfiguration {
  return configuration.mode === 'ipvs' || configuration.mode === 'iptables'
}

function unknownFields(issue: z.core.$ZodIssue): Path[] {
  return issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : []
}

/** Kubernetes' error for a document that only a lenient decoder accepts; undefined when a strict one accepts it. */
function strictError(document: ConfigurationDocument, unknown: readonly Path[]): string | undefined {
  const { duplicates, isJson, value } = document
  const fields = [
    ...unknown.slice(0, MAX_REPORTED).map((path) => ({ path, text: `unknown field ${quote(formatPath(path))}` })),
    ...(isJson ? duplicates : []),
  ].sort((a, b) => compareInOrder(a.path, b.path, value))
  const lines = isJson ? [] : duplicates.map(({ text }) => `\n  ${text}`)
  const errors = [
    ...(lines.length === 0 ? [] : [`yaml: unmarshal errors:${lines.join('')}`]),
    ...fields.map(({ text }) => text),
  ]
  return errors.length === 0 ? undefined : `strict decoding error: ${errors.join(', ')}`
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

/** Names an unknown field with its line and, if one is similar, the field that was probably meant. */
function unknownWarning(path: Path, fields: Shape['fields'], document: ConfigurationDocument, source: string): Problem {
  let siblings = fields
  for (const step of path.slice(0, -1)) siblings = siblings?.[String(step)]?.fields
  const guess = nearest(String(path.at(-1)), Object.keys(siblings ?? {}))
  const line = document.lineOf(path)
  return {
    code: 'config-unknown-field',
    about: 'configuration',
    subject: line === undefined ? source : `${source}:${line}`,
    field: formatPath(path),
    message: `unknown field, ignored${guess === undefined ? '' : ` (did you mean ${guess}?)`}`,
  }
}
