/**
 * What a Service chooses for ipvs mode by annotations: their names, the allowed values, and the
 * choices that follow. A value is foreign text until it is an allowed one. A wrong one is a problem
 * of the Service, and the default stays in force.
 */
import { parseDuration } from '../values/duration.ts'
import type { IpFamily } from '../values/protocol.ts'
import { quote } from '../values/quote.ts'
import { type SchedulerName, SCHEDULERS, schedulersBy, schedulerTraits } from '../values/schedulers.ts'
import { SERVICE_ANNOTATION } from '../values/well-known.ts'
import { ALLOWED_WEIGHTS, isGradual, MAX_WEIGHTS_TEXT, parseWeights, usesWeights, type Weights } from './weights.ts'

/** The longest value that is read, in UTF-16 units; every allowed value is shorter. */
const MAX_ANNOTATION_VALUE = 100
/** Characters of a wrong value that a message repeats. */
const MAX_QUOTED = 60

/** The flags of the schedulers `sh` and `mh`. */
export interface HashFlags {
  /** A connection whose endpoint takes none is sent to another one. */
  readonly fallback: boolean
  /** The port of the client counts in addition to its address. */
  readonly port: boolean
}

/** What a Service chooses. A member that is absent: what the configuration or the API says. */
export interface ServiceChoices {
  readonly scheduler?: { readonly name: SchedulerName; readonly annotation: string }
  /** Only with a scheduler that has them: `sh` or `mh`. */
  readonly hashFlags?: HashFlags
  /** Clients whose addresses have these many bits in common stay on one endpoint: 1 to 32, and 1 to 128. */
  readonly affinityPrefixLength?: Readonly<Record<IpFamily, number>>
  /** How long connections may keep a removed endpoint, in milliseconds; Infinity: until they have ended. */
  readonly drainDeadlineMs?: number
  /** Connections that an endpoint may have through one virtual server before it gets no new ones; 1 or more. */
  readonly maxConnections?: number
  /** Weights of endpoints, only with a scheduler that uses them; absent: all have the same. */
  readonly weights?: Weights
  /** How long the weight of a new endpoint rises to its full value, in milliseconds; absent: it has that at once. */
  readonly slowStartMs?: number
  /** Whether endpoints that do not answer get no new connections for a while; absent: what the configuration says. */
  readonly outlierDetection?: boolean
}

export const NO_CHOICES: ServiceChoices = {}

/** The name of each choice in metrics: that of its annotation. */
export const CHOICE_NAMES: Readonly<Record<keyof ServiceChoices, string>> = {
  scheduler: 'scheduler',
  hashFlags: 'scheduler-flags',
  affinityPrefixLength: 'affinity-prefix-length',
  drainDeadlineMs: 'drain-deadline',
  maxConnections: 'max-connections',
  weights: 'weights',
  slowStartMs: 'slow-start',
  outlierDetection: 'outlier-detection',
}

/** A problem without the Service that it is about. */
export interface AnnotationProblem {
  /** `metadata.annotations[kube-ipvs.io/scheduler]` */
  readonly field: string
  readonly message: string
}

export interface ReadAnnotations {
  readonly choices: ServiceChoices
  readonly problems: readonly AnnotationProblem[]
}

const NOTHING: ReadAnnotations = { choices: NO_CHOICES, problems: [] }

/** The place of an annotation in a Service. */
export function annotationField(name: string): string {
  return `metadata.annotations[${name}]`
}

/**
 * Reads `Service.annotations`. Equal texts give the same object, so that choices compare with
 * `===`. A change of the object for an equal text, after very many different ones, only costs work.
 */
export class AnnotationReader {
  readonly #configuredScheduler: string
  readonly #limit: number
  readonly #read = new Map<string, ReadAnnotations>()

  /** @param limit number of different texts that are remembered */
  constructor(configuredScheduler: string, limit = 1024) {
    this.#configuredScheduler = configuredScheduler
    this.#limit = limit
  }

  read(annotations: string): ReadAnnotations {
    if (annotations === '') return NOTHING
    const known = this.#read.get(annotations)
    if (known !== undefined) return known
    if (this.#read.size >= this.#limit) this.#read.clear()
    const read = readAnnotations(annotations, this.#configuredScheduler)
    this.#read.set(annotations, read)
    return read
  }
}

/** Units of UTF-16 of a value that are read. A list of rules may be longer than any other value. */
export function longestValue(annotation: string): number {
  return annotation === SERVICE_ANNOTATION.weights ? MAX_WEIGHTS_TEXT : MAX_ANNOTATION_VALUE
}

/** The text of `Service.annotations`; '' for none. */
export function annotationsText(annotations: ReadonlyMap<string, string>): string {
  return annotations.size === 0 ? '' : JSON.stringify([...annotations])
}

/** The annotations in `Service.annotations`, which `annotationsText` wrote. The values are foreign text. */
export function annotationsIn(text: string): readonly (readonly [name: string, value: string])[] {
  return text === '' ? [] : (JSON.parse(text) as [string, string][])
}

/** A value, or why there is none. */
type Parsed<Value> = { readonly value: Value } | { readonly allowed: string }

function readAnnotations(text: string, configuredScheduler: string): ReadAnnotations {
  const values = new Map(annotationsIn(text))
  const problems: AnnotationProblem[] = []
  const read = <Value>(names: readonly string[], parse: (value: string) => Parsed<Value>) => {
    const name = names.find((one) => values.has(one))
    const value = name === undefined ? undefined : values.get(name)
    if (name === undefined || value === undefined) return undefined
    const parsed = parse(value)
    if ('value' in parsed) return { name, value: parsed.value }
    problems.push({
      field: annotationField(name),
      message: `${shortly(value)} is not allowed, and the default stays in force: ${parsed.allowed}`,
    })
    return undefined
  }
  const scheduler = read([SERVICE_ANNOTATION.scheduler, SERVICE_ANNOTATION.kubeRouterScheduler], parseScheduler)
  const flagsOf = (value: string): Parsed<HashFlags> => parseFlags(value, scheduler?.value ?? configuredScheduler)
  const hashFlags = read([SERVICE_ANNOTATION.schedulerFlags, SERVICE_ANNOTATION.kubeRouterFlags], flagsOf)
  const affinityPrefixLength = read([SERVICE_ANNOTATION.affinityPrefixLength], parsePrefixLength)
  const drainDeadlineMs = read([SERVICE_ANNOTATION.drainDeadline], parseDeadline)
  const maxConnections = read([SERVICE_ANNOTATION.maxConnections], parseMaxConnections)
  const weights = read([SERVICE_ANNOTATION.weights], (value) =>
    parseRules(value, scheduler?.value ?? configuredScheduler),
  )
  const slowStartMs = read([SERVICE_ANNOTATION.slowStart], (value) =>
    parseSlowStart(value, scheduler?.value ?? configuredScheduler),
  )
  const outlierDetection = read([SERVICE_ANNOTATION.outlierDetection], (value) =>
    parseOutlierDetection(value, scheduler?.value ?? configuredScheduler, hashFlags?.value),
  )
  const choices: ServiceChoices = {
    ...(scheduler && { scheduler: { name: scheduler.value, annotation: scheduler.name } }),
    ...(hashFlags && { hashFlags: hashFlags.value }),
    ...(affinityPrefixLength && { affinityPrefixLength: affinityPrefixLength.value }),
    ...(drainDeadlineMs && { drainDeadlineMs: drainDeadlineMs.value }),
    ...(maxConnections && { maxConnections: maxConnections.value }),
    ...(weights && { weights: weights.value }),
    ...(slowStartMs && { slowStartMs: slowStartMs.value }),
    ...(outlierDetection && { outlierDetection: outlierDetection.value }),
  }
  return { choices, problems }
}

/** A foreign value for a message. */
function shortly(value: string): string {
  return quote(value.length > MAX_QUOTED ? `${value.slice(0, MAX_QUOTED)}…` : value)
}

function parseScheduler(text: string): Parsed<SchedulerName> {
  const value = SCHEDULERS.find((name) => name === text)
  return value === undefined ? { allowed: `it must be one of ${SCHEDULERS.join(', ')}` } : { value }
}

/** The words of ipvsadm, the same without the scheduler, and kube-router's. */
const FLAG_WORDS: Readonly<Record<keyof HashFlags, readonly string[]>> = {
  fallback: ['fallback', 'flag-1'],
  port: ['port', 'flag-2'],
}

function parseFlags(text: string, scheduler: string): Parsed<HashFlags> {
  if (schedulerTraits(scheduler).hasFlags !== true)
    return { allowed: `only the schedulers sh and mh have flags, and the Service has ${quote(scheduler)}` }
  if (text === 'none') return { value: { fallback: false, port: false } }
  const words = text.split(',').map((word) => word.trim())
  const has = (flag: keyof HashFlags): ReadonlySet<string> => new Set([...FLAG_WORDS[flag], `${scheduler}-${flag}`])
  const [fallback, port] = [has('fallback'), has('port')]
  if (words.some((word) => !fallback.has(word) && !port.has(word)))
    return { allowed: 'it must be fallback, port, both with a comma between them, or none' }
  return { value: { fallback: words.some((word) => fallback.has(word)), port: words.some((word) => port.has(word)) } }
}

const PREFIX_LENGTHS = /^([1-9]\d?)(?:,([1-9]\d{0,2}))?$/

function parsePrefixLength(text: string): Parsed<Readonly<Record<IpFamily, number>>> {
  const found = PREFIX_LENGTHS.exec(text)
  const [IPv4, IPv6] = [Number(found?.[1] ?? 0), Number(found?.[2] ?? 128)]
  if (IPv4 === 0 || IPv4 > 32 || IPv6 > 128)
    return {
      allowed: 'it must be a prefix length of IPv4 (1 to 32), or that, a comma and one of IPv6 (1 to 128): 24 or 24,64',
    }
  return { value: { IPv4, IPv6 } }
}

const LONGEST_DEADLINE_MS = 24 * 3_600_000

function parseDeadline(text: string): Parsed<number> {
  const parsed = parseDuration(text)
  const value = 'error' in parsed ? Number.NaN : parsed.milliseconds
  if (value === 0) return { value: Number.POSITIVE_INFINITY }
  return value >= 1000 && value <= LONGEST_DEADLINE_MS
    ? { value }
    : { allowed: 'it must be a duration from 1s to 24h, such as 90s or 1h30m, or 0 for no deadline' }
}

/** The kernel multiplies the threshold by 3 in 32 bits (ip_vs_unbind_dest). */
const MOST_CONNECTIONS = 1_000_000_000

function parseMaxConnections(text: string): Parsed<number> {
  const value = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : 0
  return value === 0 || value > MOST_CONNECTIONS
    ? { allowed: `it must be a whole number from 1 to ${MOST_CONNECTIONS}` }
    : { value }
}

function parseRules(text: string, scheduler: string): Parsed<Weights> {
  if (!usesWeights(scheduler)) return { allowed: onlyWith(({ weight }) => weight !== 'none', 'use weights', scheduler) }
  const value = parseWeights(text)
  return value === undefined ? { allowed: ALLOWED_WEIGHTS } : { value }
}

const LONGEST_SLOW_START_MS = 3_600_000

function parseSlowStart(text: string, scheduler: string): Parsed<number> {
  if (!isGradual(scheduler))
    return { allowed: onlyWith(({ weight }) => weight === 'share', 'share connections by weight', scheduler) }
  const parsed = parseDuration(text)
  const value = 'error' in parsed ? Number.NaN : Math.round(parsed.milliseconds)
  return value >= 1000 && value <= LONGEST_SLOW_START_MS
    ? { value }
    : { allowed: 'it must be a duration from 1s to 1h, such as 30s or 2m' }
}

function parseOutlierDetection(text: string, scheduler: string, flags: HashFlags | undefined): Parsed<boolean> {
  if (text === 'false') return { value: false }
  if (text !== 'true') return { allowed: 'it must be true or false' }
  return goesElsewhere(scheduler, flags?.fallback ?? true)
    ? { value: true }
    : {
        allowed: `a client of an endpoint with weight 0 gets no other one with the scheduler ${quote(scheduler)}${schedulerTraits(scheduler).hasFlags === true ? ' without the flag fallback' : ''}`,
      }
}

/**
 * Whether a client whose endpoint takes no new connections gets another one: `dh` refuses it, and so
 * do `sh` and `mh` without the flag `fallback`.
 */
export function goesElsewhere(scheduler: string, hasFallback: boolean): boolean {
  return scheduler !== 'dh' && (schedulerTraits(scheduler).hasFlags !== true || hasFallback)
}

function onlyWith(has: Parameters<typeof schedulersBy>[0], what: string, scheduler: string): string {
  return `only the schedulers ${schedulersBy(has).join(', ')} ${what}, and the Service has ${quote(scheduler)}`
}
