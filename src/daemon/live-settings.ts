/**
 * Takes over what may change while the proxy runs (LIVE_FIELDS of config/changes), each field where it counts. A field
 * that is listed there and not taken over here would be silently ignored: test/kernel/config-reload has a test for each.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { processorCount } from '../node/host.ts'
import { conntrackSettings } from '../node/kernel-settings.ts'
import { applySysctls } from '../node/sysctl.ts'
import type { LogVerbosity } from '../serve/log.ts'
import { formatProblem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { applyOomScore } from './process.ts'

export interface LiveSettingsOptions {
  readonly log: Log & { setVerbosity(verbosity: LogVerbosity): void }
  /** For periods and nodePortAddresses. */
  readonly proxy: { reconfigure(configuration: KubeProxyConfiguration): void }
}

/** Never throws: what cannot be done is said. */
export function applyLive(
  configuration: KubeProxyConfiguration,
  fields: readonly string[],
  { log, proxy }: LiveSettingsOptions,
): void {
  if (fields.some((field) => field.startsWith('logging.'))) log.setVerbosity(configuration.logging)
  if (fields.includes('oomScoreAdj')) applyOomScore(configuration.oomScoreAdj, log)
  if (fields.some((field) => field.startsWith('conntrack.')))
    for (const problem of applySysctls(conntrackSettings(configuration.conntrack, processorCount())))
      log.warn('Cannot set what the configuration asks for', { error: formatProblem(problem) })
  proxy.reconfigure(configuration)
}
