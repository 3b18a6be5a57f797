/**
 * What a change of the configuration means to a running proxy, and which fields were given a value
 * without any effect; both by the column `reload` of the table of fields.
 */
import { CodedError } from '../values/errors.ts'
import type { Consequence, ProxyMode } from './field.ts'
import { GATES_WITH_EFFECT, gatesWithoutEffect } from './gates.ts'
import type { FieldPath, KubeProxyConfiguration, LivePath, UncheckedConfiguration } from './types.ts'
import { FIELD_PATHS, fieldAt, valueOf } from './values.ts'

/**
 * Fields whose new values require no new Pod in either mode, and so in none that a live change of
 * the mode or a fallback may bring. The chart leaves them out of the checksum for which it replaces
 * Pods. Those of conntrack are settings of the kernel, which only the init container may write.
 */
export function pathsWithoutRestart(): readonly FieldPath[] {
  return FIELD_PATHS.filter(
    (path) => !path.startsWith('conntrack.') && !Object.values(fieldAt(path).reload).includes('restart'),
  )
}

export interface ConfigurationChanges {
  /** The proxy applies these; sorted, as the others. */
  readonly live: readonly LivePath[]
  /** `ipvs.scheduler`; of feature gates `featureGates.WatchList`. */
  readonly withoutEffect: readonly string[]
  /** Only a new process can apply these. */
  readonly restart: readonly string[]
}

/**
 * @param before what the proxy runs with
 * @param mode the mode that it runs in, which is not the configured one after a fallback
 */
export function changesBetween(
  before: KubeProxyConfiguration,
  after: KubeProxyConfiguration,
  mode: ProxyMode = before.mode,
): ConfigurationChanges {
  const paths = FIELD_PATHS.filter((path) => path !== 'featureGates' && !isEqual(before, after, path))
  const inMode = (consequence: Consequence) => (path: FieldPath) =>
    consequenceOf(path, before.mode, mode) === consequence
  const gates = changedGates(before.featureGates, after.featureGates)
  return {
    live: paths.filter((path): path is LivePath => inMode('live')(path)).toSorted(),
    withoutEffect: [...paths.filter(inMode('none')), ...gates.withoutEffect].toSorted(),
    restart: [...paths.filter(inMode('restart')), ...gates.restart].toSorted(),
  }
}

/** Ends the process for fields that only a new one can apply. */
export function configChanged(fields: readonly string[]): CodedError {
  const message = `content of the proxy server's configuration file was updated: a new process has to take over ${fields.join(', ')}`
  return new CodedError('config-changed', message)
}

/**
 * What a change means while one mode runs in place of another. What only one of them reads at its
 * start has no effect then: the configured mode does not run, and of the other one only fields that
 * both have are used.
 */
function consequenceOf(path: FieldPath, configured: ProxyMode, active: ProxyMode): Consequence {
  const { [configured]: one, [active]: other } = fieldAt(path).reload
  if (one === other) return one
  if (one !== 'none' && other !== 'none') return 'restart'
  return one === 'live' || other === 'live' ? 'live' : 'none'
}

/**
 * Fields and blocks that were given a value although they have no effect in any mode. Fields that
 * kube-proxy has for one mode only are not among them: kubeadm writes those of all modes.
 */
export function ineffectiveFields(
  configuration: UncheckedConfiguration,
  defaults: UncheckedConfiguration,
): readonly string[] {
  const given = FIELD_PATHS.filter((path) => hasNoEffect(path) && !isEqual(configuration, defaults, path))
  const gates = gatesWithoutEffect(configuration.featureGates).map((name) => `featureGates.${name}`)
  return [...gates, ...new Set(given.map(outermostWithoutEffect))]
}

/** The field, or the largest block around it in which nothing has an effect. */
function outermostWithoutEffect(path: FieldPath): string {
  const names = path.split('.')
  const blocks = names.map((_, index) => names.slice(0, index + 1).join('.'))
  return (
    blocks.find((block) => FIELD_PATHS.every((other) => !other.startsWith(`${block}.`) || hasNoEffect(other))) ?? path
  )
}

/** Whether a field does nothing in either mode. */
export function hasNoEffect(path: FieldPath): boolean {
  const { reload } = fieldAt(path)
  return reload.ipvs === 'none' && reload.iptables === 'none'
}

function isEqual(one: UncheckedConfiguration, other: UncheckedConfiguration, path: FieldPath): boolean {
  return JSON.stringify(valueOf(one, path)) === JSON.stringify(valueOf(other, path))
}

/** Gates whose changes require a new process; all others have no effect. */
export const GATES_THAT_COUNT: ReadonlySet<string> = new Set([...GATES_WITH_EFFECT, 'AllAlpha', 'AllBeta'])

function changedGates(
  before: KubeProxyConfiguration['featureGates'],
  after: KubeProxyConfiguration['featureGates'],
): Pick<ConfigurationChanges, 'withoutEffect' | 'restart'> {
  const changed = Object.keys({ ...before, ...after }).filter((name) => before[name] !== after[name])
  const named = (counts: boolean): string[] =>
    changed.flatMap((name) => (GATES_THAT_COUNT.has(name) === counts ? [`featureGates.${name}`] : []))
  return { withoutEffect: named(false), restart: named(true) }
}
