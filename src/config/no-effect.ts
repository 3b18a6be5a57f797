/**
 * Fields that are accepted because files are shared with other proxies, and that change nothing here.
 * What could break: a field that gets a meaning must leave this list; kubeadm writes most fields with their defaults, which
 * is no reason to speak of them.
 */
import { gatesWithoutEffect } from './gates.ts'
import type { UncheckedConfiguration } from './types.ts'

/** Names of the fields that were given a value of their own for nothing; empty when there are none. */
export function ineffectiveFields(configuration: UncheckedConfiguration): readonly string[] {
  const { logging, nftables, winkernel } = configuration
  const given: readonly (readonly [field: string, given: boolean])[] = [
    ...gatesWithoutEffect(configuration.featureGates).map((name) => [`featureGates.${name}`, true] as const),
    ['configSyncPeriod', configuration.configSyncPeriodMs !== 15 * 60_000],
    ['logging.flushFrequency', logging.flushFrequencyMs !== 5_000],
    [
      'logging.options',
      Object.values(logging.options).some((option) => option.splitStream || option.infoBufferSize !== '0'),
    ],
    ['nftables', nftables.masqueradeBit !== 14 || nftables.masqueradeAll],
    ['showHiddenMetricsForVersion', configuration.showHiddenMetricsForVersion !== ''],
    ['winkernel', Object.values(winkernel).some((value) => value !== '' && value !== false)],
    ['windowsRunAsService', configuration.windowsRunAsService],
  ]
  return given.flatMap(([field, isGiven]) => (isGiven ? [field] : []))
}
