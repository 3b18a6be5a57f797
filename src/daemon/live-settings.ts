/**
 * Applies the fields that may change while the proxy runs. A field that is live in the table of
 * fields and has no line here does not compile.
 */
import type { KubeProxyConfiguration, LivePath } from '../config/types.ts'
import { processorCount } from '../node/host.ts'
import { conntrackSettings } from '../node/kernel-settings.ts'
import { applySysctls } from '../node/sysctl.ts'
import type { LogVerbosity } from '../serve/log.ts'
import { formatProblem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { applyOomScore } from './process.ts'

export interface LiveSettingsOptions {
  readonly log: Log & { setVerbosity(verbosity: LogVerbosity): void }
  readonly proxy: { reconfigure(configuration: KubeProxyConfiguration): void }
}

type Apply = (configuration: KubeProxyConfiguration, options: LiveSettingsOptions) => void

const verbosity: Apply = ({ logging }, { log }) => log.setVerbosity(logging)

const conntrack: Apply = (configuration, { log }) => {
  for (const problem of applySysctls(conntrackSettings(configuration.conntrack, processorCount())))
    log.warn('Cannot apply a setting of the configuration', { error: formatProblem(problem) })
}

/** The proxy reads the field where it needs it, from the configuration that it gets after every change. */
const readByProxy: Apply = () => undefined

const APPLY: Readonly<Record<LivePath, Apply>> = {
  'logging.verbosity': verbosity,
  'logging.vmodule': verbosity,
  nodePortAddresses: readByProxy,
  'ipvs.syncPeriod': readByProxy,
  'ipvs.minSyncPeriod': readByProxy,
  'iptables.syncPeriod': readByProxy,
  'iptables.minSyncPeriod': readByProxy,
  'kubeIPVS.virtualAddresses': readByProxy,
  'kubeIPVS.firewall': readByProxy,
  'kubeIPVS.localhostNodePorts': readByProxy,
  'kubeIPVS.maxRealServers': readByProxy,
  'conntrack.maxPerCore': conntrack,
  'conntrack.min': conntrack,
  'conntrack.tcpEstablishedTimeout': conntrack,
  'conntrack.tcpCloseWaitTimeout': conntrack,
  'conntrack.tcpBeLiberal': conntrack,
  'conntrack.udpTimeout': conntrack,
  'conntrack.udpStreamTimeout': conntrack,
  mode: readByProxy,
  'kubeIPVS.switchBack': readByProxy,
  oomScoreAdj: ({ oomScoreAdj }, { log }) => applyOomScore(oomScoreAdj, log),
}

/** Never throws: failures are logged. */
export function applyLive(
  configuration: KubeProxyConfiguration,
  fields: readonly LivePath[],
  options: LiveSettingsOptions,
): void {
  for (const apply of new Set(fields.map((field) => APPLY[field]))) apply(configuration, options)
  options.proxy.reconfigure(configuration)
}
