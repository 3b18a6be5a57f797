/**
 * Completes a configuration: adds the defaults that depend on other fields, keeps of the modes'
 * blocks what kube-proxy's internal type keeps, and applies the flags. Without a file every flag
 * counts. With a file kube-proxy silently ignores most flags, and command lines of DaemonSets
 * depend on that.
 */
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import { FIELDS } from './fields.ts'
import { GIVEN_EMPTY } from './schema.ts'
import type { FieldPath, FieldValues, FlagPath, UncheckedConfiguration } from './types.ts'
import { FIELD_PATHS, fieldAt, withValues } from './values.ts'

const HEALTHZ_PORT = 10_256
const METRICS_PORT = 10_249

/**
 * Fills in the addresses of the ports. It does not change the mode, not even '': flags may still
 * change it (`completeModes`).
 */
export function completeDefaults(document: UncheckedConfiguration): UncheckedConfiguration {
  const parsed = parseAddressSloppy(document.bindAddress)
  const ipv6 = parsed === undefined || familyOf(parsed) === 'IPv6'
  return {
    ...document,
    healthzBindAddress: withPort(document.healthzBindAddress || (ipv6 ? '::' : '0.0.0.0'), HEALTHZ_PORT),
    metricsBindAddress: withPort(document.metricsBindAddress || (ipv6 ? '::1' : '127.0.0.1'), METRICS_PORT),
  }
}

/**
 * kube-proxy's internal type keeps one pair of periods and one masqueradeAll, those of the mode. An
 * unknown mode has those of iptables, as '' does.
 */
export function keepBlockOfMode(document: UncheckedConfiguration): UncheckedConfiguration {
  const mode = document.mode === 'ipvs' || document.mode === 'nftables' ? document.mode : 'iptables'
  return withValues(document, {
    ...(mode === 'ipvs' ? {} : { 'ipvs.syncPeriod': 0, 'ipvs.minSyncPeriod': 0 }),
    ...(mode === 'iptables' ? {} : { 'iptables.syncPeriod': 0, 'iptables.minSyncPeriod': 0 }),
    ...(mode === 'nftables'
      ? { 'iptables.masqueradeAll': false }
      : { 'nftables.masqueradeAll': false, 'nftables.syncPeriod': 0, 'nftables.minSyncPeriod': 0 }),
  })
}

/** Replaces '' by the mode that it means, once file and flags are merged. */
export function completeModes(configuration: UncheckedConfiguration): UncheckedConfiguration {
  const { mode, detectLocalMode, nodePortAddresses } = configuration
  return {
    ...configuration,
    ...(mode === '' ? { mode: 'iptables', modeIsDefault: true } : {}),
    detectLocalMode: detectLocalMode === '' ? 'ClusterCIDR' : detectLocalMode,
    nodePortAddresses: mode === 'nftables' && nodePortAddresses.length === 0 ? ['primary'] : nodePortAddresses,
  }
}

/** Adds the port to an address that has none. Validation reports everything else. */
function withPort(address: string, port: number): string {
  if (parseAddressSloppy(address) === undefined) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** Values from the command line, by the field that the flag is for; absent means that the flag was not given. */
export type ConfigurationFlags = Pick<FieldValues, FlagPath> & {
  /** Ports of deprecated flags; 0 switches the port off. */
  readonly healthzPort?: number
  readonly metricsPort?: number
  readonly writeConfigTo?: string
}

/** The configuration of a start without a file: `defaults` with the flags over them. */
export function configurationFromFlags(
  defaults: UncheckedConfiguration,
  flags: ConfigurationFlags,
): UncheckedConfiguration {
  const given = withValues(
    defaults,
    valuesOf(flags, () => true),
  )
  const changed = withValues(given, {
    ...periodsOf(given.mode, flags),
    'nftables.masqueradeAll': given.iptables.masqueradeAll,
    ...listenAddresses(given, flags),
  })
  const completed = keepBlockOfMode({
    ...changed,
    clusterCIDRGiven: flags.clusterCIDR !== undefined,
    kubeIPVSGiven: Object.keys(flags).some((path) => path.startsWith('kubeIPVS.')),
  })
  return withFlagsForFile(completed, flags)
}

/** Applies the flags that also count with a file: the node name, logging, and those of kubeIPVS. */
export function withFlagsForFile(
  configuration: UncheckedConfiguration,
  flags: ConfigurationFlags,
): UncheckedConfiguration {
  const { hostnameOverride: name, 'logging.vmodule': vmodule = [] } = flags
  return withValues(configuration, {
    ...valuesOf(flags, (path) => fieldAt(path).flag?.appliesWithFile === true),
    hostnameOverride: name ? name.trim().toLowerCase() : configuration.hostnameOverride,
    // The first pattern that matches wins, so those of the command line are first.
    'logging.vmodule': [...vmodule, ...configuration.logging.vmodule],
  })
}

/** Fields that a flag does not simply replace; `withFlagsForFile` sets them. */
const SET_APART: ReadonlySet<FieldPath> = new Set(['hostnameOverride', 'logging.vmodule'])

/** The values of the flags that were given. */
function valuesOf(flags: ConfigurationFlags, counts: (path: FieldPath) => boolean): FieldValues {
  const given: ReadonlyMap<string, unknown> = new Map(Object.entries(flags))
  const values = FIELD_PATHS.flatMap((path): (readonly [FieldPath, unknown])[] => {
    const value = given.get(path)
    const { kind } = fieldAt(path)
    const isEmptyAddress = (kind === 'address' || kind === 'addressPort') && value === ''
    if (value === undefined || isEmptyAddress || SET_APART.has(path) || !counts(path)) return []
    return [[path, kind === 'texts' && Array.isArray(value) && value.length === 0 ? GIVEN_EMPTY : value]]
  })
  return Object.fromEntries(values)
}

/** kube-proxy has one pair of periods for all modes, with the defaults of iptables mode. */
function periodsOf(mode: string, flags: ConfigurationFlags): FieldValues {
  const block = mode === 'ipvs' ? 'ipvs' : 'iptables'
  const syncPeriod = flags[`${block}.syncPeriod`] ?? FIELDS['iptables.syncPeriod'].default
  const minSyncPeriod = flags[`${block}.minSyncPeriod`] ?? FIELDS['iptables.minSyncPeriod'].default
  return {
    'ipvs.syncPeriod': syncPeriod,
    'ipvs.minSyncPeriod': minSyncPeriod,
    'iptables.syncPeriod': syncPeriod,
    'iptables.minSyncPeriod': minSyncPeriod,
    'nftables.syncPeriod': syncPeriod,
    'nftables.minSyncPeriod': minSyncPeriod,
  }
}

/** kube-proxy adds the ports of --healthz-port and --metrics-port only when it is going to listen. */
function listenAddresses(
  { healthzBindAddress, metricsBindAddress }: UncheckedConfiguration,
  { healthzPort, metricsPort, writeConfigTo }: ConfigurationFlags,
): FieldValues {
  if (writeConfigTo !== undefined && writeConfigTo !== '') return {}
  return {
    healthzBindAddress: healthzPort === 0 ? '' : withPort(healthzBindAddress, healthzPort ?? HEALTHZ_PORT),
    metricsBindAddress: metricsPort === 0 ? '' : withPort(metricsBindAddress, metricsPort ?? METRICS_PORT),
  }
}

/** An empty flag counts as not given; a flag of only spaces is an error. */
export function nameError({ hostnameOverride: name }: ConfigurationFlags): string | undefined {
  return name === undefined || name === '' || name.trim() !== '' ? undefined : 'empty hostname-override is invalid'
}

/** The name of the Node object: the configured name trimmed and in lower case, else the host's name likewise. */
export function nodeName(configuration: Pick<UncheckedConfiguration, 'hostnameOverride'>, hostName: string): string {
  return (configuration.hostnameOverride.trim() || hostName.trim()).toLowerCase()
}
