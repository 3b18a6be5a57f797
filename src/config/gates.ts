/**
 * The feature gates of a configuration (component-base featuregate): which are on, which cannot be
 * set, which have an effect. A gate that no known release has is a warning, although kube-proxy
 * refuses to start: the file may be for a newer release than this program.
 */
import { aggregateText } from '../values/errors.ts'
import { nearest } from '../values/nearest.ts'
import { knownGates, neededGates } from './known-gates.ts'
import type { UncheckedConfiguration } from './types.ts'

type Gates = Readonly<Record<string, boolean>>

/** The gates that this program reads; all others are accepted without effect. */
export const GATES_WITH_EFFECT = ['LoggingAlphaOptions', 'LoggingBetaOptions', 'AllowServiceExternalIPs'] as const

export type GateName = (typeof GATES_WITH_EFFECT)[number]

/** Whether a gate is on: as set by its name, or by AllAlpha and AllBeta, or by its default. */
export function gate({ featureGates }: { readonly featureGates: Gates }, name: GateName): boolean {
  return gateIsOn(featureGates, name)
}

/** Gates that set all gates of a stage. */
const ALL: Readonly<Record<string, string>> = { AllAlpha: 'alpha', AllBeta: 'beta' }
/**
 * Whether kube-proxy has ipvs mode: by default until v1.39, and not at all from v1.43 on
 * (KEP-5495). Here its default stays on.
 */
export const IPVS_GATE = 'KubeProxyIPVS'

/**
 * Whether the gate refuses ipvs mode: somebody has set it to false, because the node is to have no
 * IPVS. With a block `kubeIPVS` beside it, it refuses nothing, because only a configuration for
 * this program has one, and this program is the IPVS proxy. Flags of that block count where flags
 * are the whole configuration: those of a DaemonSet say nothing about the file that its ConfigMap
 * brings.
 */
export function refusesIpvs({ featureGates, kubeIPVSGiven }: IpvsGate): boolean {
  return featureGates[IPVS_GATE] === false && kubeIPVSGiven !== true
}

type IpvsGate = Pick<UncheckedConfiguration, 'featureGates' | 'kubeIPVSGiven'>

/** Why the gates cannot be set; undefined when they can. */
export function gateError(gates: Gates): string | undefined {
  const names = Object.entries(gates)
  if (names.length === 0) return undefined
  const known = knownGates()
  const errors = names.flatMap(([name, value]) => {
    const gate = known.get(name)
    return gate?.locked === true && gate.on !== value
      ? [`cannot set feature gate ${name} to ${value}, feature is locked to ${gate.on}`]
      : []
  })
  if (errors.length > 0) return aggregateText(errors)
  const missing = neededGates().flatMap(([name, needs]) => {
    if (isOnByAllAlpha(gates, name)) return []
    const off = gateIsOn(gates, name) ? needs.filter((needed) => !gateIsOn(gates, needed)) : []
    return off.length === 0 ? [] : [`${name} is enabled, but depends on features that are disabled: [${off.join(' ')}]`]
  })
  return missing.length === 0 ? undefined : aggregateText(missing)
}

/**
 * Whether nothing but AllAlpha has switched the gate on. Some of these depend on a gate that is
 * beta in v1.37, and off; kube-proxy refuses AllAlpha: true alone for that, but none of them has an
 * effect here.
 */
function isOnByAllAlpha(gates: Gates, name: string): boolean {
  return gates['AllAlpha'] === true && !(name in gates) && knownGates().get(name)?.stage === 'alpha'
}

/** Most gates that are reported, each of which is compared with all known ones. */
const MAX_UNKNOWN = 100

/** The first gates that no known release has, each with the name that was probably meant. */
export function unknownGates(gates: Gates): readonly { readonly name: string; readonly guess: string | undefined }[] {
  const names = Object.keys(gates)
  if (names.length === 0) return []
  const known = knownGates()
  return names
    .filter((name) => !known.has(name))
    .slice(0, MAX_UNKNOWN)
    .map((name) => ({ name, guess: nearest(name, Array.from(known.keys())) }))
}

/** Gates whose value changes nothing here. AllAlpha, AllBeta and KubeProxyIPVS are not among them. */
export function gatesWithoutEffect(gates: Gates): readonly string[] {
  const effective: readonly string[] = GATES_WITH_EFFECT
  return Object.keys(gates).flatMap((name) => {
    if (effective.includes(name) || Object.hasOwn(ALL, name) || name === IPVS_GATE) return []
    return knownGates().has(name) ? [name] : []
  })
}

function gateIsOn(gates: Gates, name: string): boolean {
  return effectiveGates(gates)[name] ?? knownGates().get(name)?.on ?? false
}

/** Every known gate that was set, by name or by AllAlpha and AllBeta, in order of name. */
export function effectiveGates(gates: Gates): Gates {
  const names = Object.entries(gates)
  if (names.length === 0) return {}
  const known = knownGates()
  const set = new Map(names.filter(([name]) => known.has(name)))
  for (const [all, stage] of Object.entries(ALL)) {
    const value = gates[all]
    if (value === undefined) continue
    for (const [name, gate] of known)
      if (gate.stage === stage && !Object.hasOwn(ALL, name) && !set.has(name)) set.set(name, value)
  }
  return Object.fromEntries([...set].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Kubernetes' notice for each gate that was set although it will be removed. */
export function gateNotices(
  gates: Gates,
): readonly { readonly message: string; readonly gate: string; readonly value: boolean }[] {
  return Object.entries(gates).flatMap(([gate, value]) => {
    const stage = knownGates().get(gate)?.stage
    const word = stage === 'settled' ? 'GA' : stage
    if (word !== 'GA' && word !== 'deprecated') return []
    return [{ message: `Warning: setting ${word} feature gate. It will be removed in a future release.`, gate, value }]
  })
}
