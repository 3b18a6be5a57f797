/**
 * What the feature gates of a configuration amount to (component-base featuregate).
 * What could break: an unknown gate stops the start, as in kube-proxy; nothing but logging looks at one here.
 */
import { knownGates, neededGates } from './known-gates.ts'

type Gates = Readonly<Record<string, boolean>>

/** Whether a gate is on: as set by its name, or by AllAlpha and AllBeta, or by its default. */
export function gate({ featureGates }: { readonly featureGates: Gates }, name: string): boolean {
  return gateIsOn(featureGates, name)
}

const ALL: Readonly<Record<string, string>> = { AllAlpha: 'alpha', AllBeta: 'beta' }

/** The first thing wrong with the gates; undefined when they can be set. */
export function gateError(gates: Gates): string | undefined {
  const names = Object.entries(gates)
  if (names.length === 0) return undefined
  const known = knownGates()
  const unknown = names.find(([name]) => !known.has(name))
  if (unknown !== undefined) return `unrecognized feature gate: ${unknown[0]}`
  const errors = names.flatMap(([name, value]) => {
    const gate = known.get(name)
    return gate?.locked === true && gate.on !== value
      ? [`cannot set feature gate ${name} to ${value}, feature is locked to ${gate.on}`]
      : []
  })
  if (errors.length > 0) return aggregate(errors)
  const missing = neededGates().flatMap(([name, needs]) => {
    const off = gateIsOn(gates, name) ? needs.filter((needed) => !gateIsOn(gates, needed)) : []
    return off.length === 0 ? [] : [`${name} is enabled, but depends on features that are disabled: [${off.join(' ')}]`]
  })
  return missing.length === 0 ? undefined : aggregate(missing)
}

/** Whether a gate is on: as set, or as AllAlpha and AllBeta say, or by itself. */
export function gateIsOn(gates: Gates, name: string): boolean {
  return effectiveGates(gates)[name] ?? knownGates().get(name)?.on ?? false
}

/** Every gate that was set, by name or by AllAlpha and AllBeta, in order of name. */
export function effectiveGates(gates: Gates): Gates {
  const set = new Map(Object.entries(gates))
  for (const [all, stage] of Object.entries(ALL)) {
    const value = gates[all]
    if (value === undefined) continue
    for (const [name, gate] of knownGates())
      if (gate.stage === stage && !(name in ALL) && !set.has(name)) set.set(name, value)
  }
  return Object.fromEntries([...set].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Gates that were set although they will go: what Kubernetes says of each when it is set. */
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

function aggregate(errors: readonly string[]): string {
  return errors.length === 1 ? errors.join('') : `[${errors.join(', ')}]`
}
