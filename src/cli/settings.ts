/**
 * What commands have in common at their start: the configuration, the node's name, and where objects come from.
 * What could break: with --config most other flags do not count (kube-proxy's rule).
 */
import { readdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { readConfigurationFile } from '../config/file.ts'
import { type ConfigurationResult, formatConfigurationErrors } from '../config/load.ts'
import { configurationFromFlags, nodeName, overrideConfiguration } from '../config/overrides.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { CodedError, formatProblem, type Problem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import type { Events } from '../watch/event-recorder.ts'
import type { RequestObserver } from '../watch/http-pool.ts'
import type { ObjectSink, Source } from '../watch/source.ts'
import type { FlagValues } from './flags.ts'
import { VERSION } from './version.ts'

export interface Settings {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  readonly warnings: readonly Problem[]
}

/** Rejects with a CodedError that says what is wrong with the configuration. */
export async function loadSettings(flags: FlagValues): Promise<Settings> {
  const { configuration, warnings } = accepted(
    flags.config === undefined || flags.config === ''
      ? configurationFromFlags(flags)
      : await fromFile(flags.config, flags),
  )
  return { configuration, warnings, nodeName: nodeName(configuration, hostname()) }
}

async function fromFile(path: string, flags: FlagValues): Promise<ConfigurationResult> {
  const { configuration, warnings } = accepted(await readConfigurationFile(path))
  const overridden = overrideConfiguration(configuration, flags)
  return 'errors' in overridden
    ? overridden
    : { configuration: overridden.configuration, warnings: [...warnings, ...overridden.warnings] }
}

function accepted(result: ConfigurationResult): {
  readonly configuration: KubeProxyConfiguration
  readonly warnings: readonly Problem[]
} {
  if (!('errors' in result)) return result
  const [first] = result.errors
  throw new CodedError(
    first?.code ?? 'config-invalid',
    `${first?.subject ?? 'configuration'}: ${formatConfigurationErrors(result.errors)}`,
  )
}

/** Where objects come from and Events go to. */
export interface Sources {
  readonly openSource: (sink: ObjectSink) => Source
  readonly openEvents: () => Events
}

/** The manifests folder or the API server that the flags and the configuration name; nothing is opened yet. */
export async function sourcesOf(
  flags: FlagValues,
  settings: Settings,
  log: Log,
  observer?: RequestObserver,
): Promise<Sources> {
  const watchLog = log.child('watch')
  const { nodeName: node, configuration } = settings
  const { manifests } = flags
  const { EventRecorder, loggedEvents } = await import('../watch/event-recorder.ts')
  if (manifests !== undefined) {
    await requireFolder(manifests)
    const { openManifestsSource } = await import('../watch/manifests-source.ts')
    return {
      openSource: (sink) => openManifestsSource({ directory: manifests, nodeName: node, sink, log: watchLog }),
      openEvents: () => loggedEvents(watchLog),
    }
  }
  const { ApiClient } = await import('../watch/api-client.ts')
  const { openApiSource } = await import('../watch/api-source.ts')
  const { KubeAccess } = await import('../watch/kube-config.ts')
  const { kubeconfig, contentType, acceptContentTypes, qps, burst } = configuration.clientConnection
  const access = new KubeAccess({ kubeconfig, master: flags.master ?? '' })
  const options = { access, nodeName: node, version: VERSION, contentType, acceptContentTypes, log: watchLog, observer }
  return {
    openSource: (sink) => openApiSource({ ...options, sink }),
    openEvents: () => {
      const client = new ApiClient({
        access,
        userAgent: `kube-ipvs/${VERSION}`,
        contentType: 'application/json',
        observer,
      })
      return new EventRecorder({ client, hostName: hostname(), qps, burst, log: watchLog })
    },
  }
}

/** Later the source waits for a folder to come back; at a start a wrong name is most likely a mistake. */
async function requireFolder(directory: string): Promise<void> {
  try {
    await readdir(directory)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new CodedError('manifests-unreadable', `--manifests: cannot read the folder ${directory}: ${reason}`, {
      cause,
    })
  }
}

/** One line for each warning about the configuration. */
export function logWarnings(warnings: readonly Problem[], log: Log): void {
  for (const warning of warnings) log.warn('Configuration', { warning: formatProblem(warning) })
}

/** Only ipvs mode exists so far. */
export function requireIpvsMode({ configuration }: Settings): void {
  if (configuration.mode !== 'ipvs')
    throw new CodedError(
      'mode-unsupported',
      `mode ${configuration.mode} is not there yet: set mode: ipvs in the configuration, or --proxy-mode=ipvs`,
    )
}
