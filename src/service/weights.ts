/**
 * Weights of endpoints by zone or by a label of their node: the rules that a Service chooses by
 * annotation, the schedulers that they have an effect on, and the weight that follows for an
 * endpoint.
 */
import type { Budget, Work } from '../values/budget.ts'
import { schedulerTraits } from '../values/schedulers.ts'
import { type NodePlace, READS_NODE_LABELS, READS_ZONE } from './node-context.ts'
import type { SliceEndpoint } from './objects.ts'

/** Whether a scheduler distributes connections by weight. */
export const usesWeights = (scheduler: string): boolean => schedulerTraits(scheduler).weight !== 'none'

/** Whether a slow start is possible with a scheduler. */
export const isGradual = (scheduler: string): boolean => schedulerTraits(scheduler).weight === 'share'

/**
 * By how much all weights of a Service with slow start are multiplied: the weight 1 would leave no
 * room to rise. All stay within MAX_WEIGHT, and their proportions stay the same.
 */
export function slowStartFactor(weights: Weights | undefined): number {
  return Math.max(1, Math.min(10, Math.floor(MAX_WEIGHT / (weights?.largest ?? DEFAULT_WEIGHT))))
}

/** Weight of an endpoint where a Service chooses none. */
export const DEFAULT_WEIGHT = 1
/** The largest weight that ipvsadm accepts. The kernel takes any number that is not negative. 0 means draining. */
const MAX_WEIGHT = 65_535
/** A Service may have this many rules, and each is compared with each of its endpoints. */
const MAX_WEIGHT_RULES = 32
/** The longest text of rules, in UTF-16 units: 32 zones with names of 20 characters. */
export const MAX_WEIGHTS_TEXT = 1024

/** Which endpoints a rule is for. */
export type WeightCondition =
  /** Endpoints in the zone of the node that this proxy runs on. */
  | { readonly kind: 'same-zone' }
  | { readonly kind: 'zone'; readonly zone: string }
  /** Endpoints on a Node with this label. */
  | { readonly kind: 'node-label'; readonly label: string; readonly value: string }

export interface WeightRule {
  readonly condition: WeightCondition
  readonly weight: number
}

/** The rules of a Service. The first one that is true of an endpoint decides its weight. */
export interface Weights {
  readonly rules: readonly WeightRule[]
  /** The weight where no rule is true. */
  readonly other: number
  /** The largest of all weights. */
  readonly largest: number
  /** READS_* bits of the fields of NodeContext that the rules depend on. */
  readonly reads: number
  /** The labels of Nodes that they name, each once. */
  readonly labels: readonly string[]
}

/** What is allowed, for the message about another text. */
export const ALLOWED_WEIGHTS =
  `it must be rules such as same-zone=10,zone:eu-west-1a=5,node-label:pool=gold=3,other=1: each once, other last, weights from 1 to ${MAX_WEIGHT}, ` +
  `at most ${MAX_WEIGHT_RULES} rules and ${MAX_WEIGHTS_TEXT} characters`

/** A weight: a whole number without leading zeros. */
const WEIGHT = /^[1-9]\d{0,4}$/
/** The value of a label (apimachinery pkg/util/validation, 1.37), which the name of a zone is. */
const LABEL_VALUE = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/
/** DNS labels separated by dots. */
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/
const NO_LABELS: readonly string[] = []

/** The rules of a text such as `same-zone=10,other=1`; undefined when it is not allowed (ALLOWED_WEIGHTS). */
export function parseWeights(text: string): Weights | undefined {
  if (text.length > MAX_WEIGHTS_TEXT) return undefined
  const parts = text.split(',')
  if (parts.length > MAX_WEIGHT_RULES) return undefined
  const seen = new Set<string>()
  const rules: WeightRule[] = []
  let other: number | undefined
  for (const part of parts) {
    const rule = part.trim()
    const end = rule.lastIndexOf('=')
    const name = rule.slice(0, Math.max(end, 0))
    const weight = weightIn(rule.slice(end + 1))
    // Nothing may follow `other`, because it would never be reached.
    if (weight === undefined || other !== undefined || seen.has(name)) return undefined
    seen.add(name)
    if (name === 'other') {
      other = weight
      continue
    }
    const condition = conditionIn(name)
    if (condition === undefined) return undefined
    rules.push({ condition, weight })
  }
  const largest = Math.max(other ?? DEFAULT_WEIGHT, ...rules.map(({ weight }) => weight))
  const named = rules.flatMap(({ condition }) => (condition.kind === 'node-label' ? [condition.label] : []))
  const labels = named.length === 0 ? NO_LABELS : [...new Set(named)]
  const reads =
    (rules.some(({ condition }) => condition.kind === 'same-zone') ? READS_ZONE : 0) |
    (labels.length > 0 ? READS_NODE_LABELS : 0)
  return { rules, other: other ?? DEFAULT_WEIGHT, largest, reads, labels }
}

function weightIn(text: string): number | undefined {
  const weight = WEIGHT.test(text) ? Number(text) : 0
  return weight === 0 || weight > MAX_WEIGHT ? undefined : weight
}

function conditionIn(name: string): WeightCondition | undefined {
  if (name === 'same-zone') return { kind: 'same-zone' }
  const colon = name.indexOf(':')
  const [kind, rest] = [name.slice(0, colon), name.slice(colon + 1)]
  if (kind === 'zone') return LABEL_VALUE.test(rest) ? { kind, zone: rest } : undefined
  if (kind !== 'node-label') return undefined
  const [label = '', value, ...more] = rest.split('=')
  // A label may have no value.
  const isValid = value !== undefined && more.length === 0 && (value === '' || LABEL_VALUE.test(value))
  return isValid && isLabelName(label) ? { kind, label, value } : undefined
}

/** Whether this is the name of a label: at most 63 characters, behind a DNS subdomain and a slash or alone. */
function isLabelName(text: string): boolean {
  const slash = text.indexOf('/')
  const prefix = text.slice(0, Math.max(slash, 0))
  return LABEL_VALUE.test(text.slice(slash + 1)) && (slash < 0 || (prefix.length <= 253 && SUBDOMAIN.test(prefix)))
}

/** The weight of an endpoint for a proxy on this node. */
export function weightOf(weights: Weights, endpoint: SliceEndpoint, node: NodePlace): number {
  for (const { condition, weight } of weights.rules) if (isTrueOf(condition, endpoint, node)) return weight
  return weights.other
}

/** The weight of each endpoint, for a proxy on this node. */
export function* endpointWeights(
  weights: Weights,
  endpoints: readonly { readonly source: SliceEndpoint }[],
  node: NodePlace,
  budget: Budget,
): Work<readonly number[]> {
  const all: number[] = []
  for (const { source } of endpoints) {
    all.push(weightOf(weights, source, node))
    if (budget.spentBySteps()) yield
  }
  // A copy has no room for more (see `present` in src/values/lists.ts).
  return all.slice()
}

/** An endpoint or a node whose zone is not known is in no zone, and a Node whose labels are not known has none. */
function isTrueOf(condition: WeightCondition, endpoint: SliceEndpoint, node: NodePlace): boolean {
  const { zone = '' } = endpoint
  switch (condition.kind) {
    case 'same-zone':
      return zone !== '' && zone === node.zone
    case 'zone':
      return zone === condition.zone
    case 'node-label': {
      const labels = node.nodeLabels?.get(endpoint.nodeName)
      return (
        labels !== undefined && Object.hasOwn(labels, condition.label) && labels[condition.label] === condition.value
      )
    }
  }
}
