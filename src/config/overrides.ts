/**
 * What the command line changes in a configuration: everything when there is no file, little when there is one.
 * What could break: with a file, kube-proxy ignores most flags without a word; a DaemonSet's command line counts on it.
 */
import type { Problem } from '../values/errors.ts'
import { type ConfigurationResult, checkConfiguration, defaultsForMode } from './load.ts'
import type { KubeProxyConfiguration, UncheckedConfiguration } from './types.ts'

/** Values from the command line; absent means that the flag was not given. */
export interface ConfigurationOverrides {
  readonly hostnameOverride?: string
  readonly kubeconfig?: string
  readonly proxyMode?: string
  readonly verbosity?: number
  readonly loggingFormat?: string
}

/** The configuration of a start without a file. `proxyMode` is ipvs unless given. */
export function configurationFromFlags(overrides: ConfigurationOverrides): ConfigurationResult {
  const defaults = checkConfiguration(defaultsForMode(overrides.proxyMode || 'ipvs'), 'command line')
  if ('errors' in defaults) return defaults
  const { clientConnection } = defaults.configuration
  const kubeconfig = overrides.kubeconfig ?? clientConnection.kubeconfig
  return overrideConfiguration(
    { ...defaults.configuration, clientConnection: { ...clientConnection, kubeconfig } },
    overrides,
  )
}

/** A file's configuration with the few flags that count beside a file: node name and logging. */
export function overrideConfiguration(
  configuration: KubeProxyConfiguration,
  overrides: ConfigurationOverrides,
): ConfigurationResult {
  const { hostnameOverride, verbosity, loggingFormat } = overrides
  const problems = blankName(hostnameOverride)
  if (problems.length > 0) return { errors: problems }
  const changed: UncheckedConfiguration = {
    ...configuration,
    hostnameOverride: hostnameOverride ? hostnameOverride.trim().toLowerCase() : configuration.hostnameOverride,
    logging: {
      ...configuration.logging,
      verbosity: verbosity ?? configuration.logging.verbosity,
      format: loggingFormat ?? configuration.logging.format,
    },
  }
  const checked = checkConfiguration(changed, 'command line')
  // Warnings about the file were given when it was loaded.
  return 'errors' in checked ? checked : { configuration: checked.configuration, warnings: [] }
}

/** The name of the Node object: the configured name trimmed and in lower case, else the host's name likewise. */
export function nodeName(configuration: KubeProxyConfiguration, hostName: string): string {
  return (configuration.hostnameOverride.trim() || hostName.trim()).toLowerCase()
}

/** An empty flag is as good as none, but one of nothing than spaces is a mistake. */
function blankName(name: string | undefined): Problem[] {
  if (name === undefined || name === '' || name.trim() !== '') return []
  return [{ code: 'config-invalid', subject: 'command line', message: 'empty hostname-override is invalid' }]
}
