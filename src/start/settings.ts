/**
 * What commands have in common at their start: the configuration, the node's name and where objects
 * come from, all read from the command line. With --config most other flags do not count
 * (kube-proxy's rule).
 */
import { hostname } from 'node:os'
import { completeModes, configurationFromFlags, nameError, nodeName, withFlagsForFile } from '../config/complete.ts'
import { decodeConfigurationFile } from '../config/file.ts'
import {
  checkConfiguration,
  type ConfigurationResult,
  type DecodedConfiguration,
  defaultDocument,
  formatConfigurationErrors,
  type Refused,
} from '../config/load.ts'
import type { FlagPath, UncheckedConfiguration } from '../config/types.ts'
import { FIELD_PATHS, fieldAt } from '../config/values.ts'
import type { SourceSettings } from '../daemon/sources.ts'
import { CodedError, formatProblem, type Problem } from '../values/errors.ts'
import type { Log } from '../values/log.ts'
import { type EarlyLine, type LogFormat, SettingsRefused, writeStartLines } from './early-lines.ts'
import { type FlagKey, FLAGS, type FlagValues } from './flags.ts'

export interface Settings extends SourceSettings {
  readonly warnings: readonly Problem[]
}

/** Writes what kube-proxy logs while it reads its configuration. */
type WriteLine = (line: EarlyLine) => void
const writeNothing: WriteLine = () => undefined

/**
 * Rejects with a CodedError that says what is wrong with the configuration, in kube-proxy's words.
 * `writeLine` gets the lines of kube-proxy's log; only the start of the daemon writes them.
 */
export async function loadSettings(flags: FlagValues, writeLine = writeNothing): Promise<Settings> {
  const { result, warnings, format } = await check(flags, writeLine)
  if ('errors' in result) throw refusal(result, format)
  return {
    configuration: result.configuration,
    warnings: [...warnings, ...result.warnings],
    nodeName: nodeName(result.configuration, hostname()),
    manifests: flags.manifests,
    master: flags.master,
  }
}

/** The source of Services that flags or their file name, in words; undefined: they name none. */
export function namedSource(flags: FlagValues, { configuration, manifests }: Settings): string | undefined {
  if (manifests !== undefined) return `the manifests in ${manifests}`
  const { kubeconfig } = configuration.clientConnection
  return [flags.config, flags.master, kubeconfig].some((one) => (one ?? '') !== '') ? 'the API server' : undefined
}

/** The configuration that kube-proxy would use, also in a mode that we do not have; otherwise as `loadSettings`. */
export async function checkSettings(flags: FlagValues, writeLine = writeNothing): Promise<UncheckedConfiguration> {
  return (await check(flags, writeLine)).configuration
}

/** The same for a cleanup, which the gate KubeProxyIPVS never refuses: a node that may not use IPVS needs it most. */
export async function cleanupSettings(flags: FlagValues): Promise<UncheckedConfiguration> {
  return (await check(flags, writeNothing, (configuration) => ({ ...configuration, kubeIPVSGiven: true })))
    .configuration
}

interface Checked {
  readonly configuration: UncheckedConfiguration
  /** Errors only about the mode. */
  readonly result: ConfigurationResult
  readonly warnings: readonly Problem[]
  readonly format: LogFormat
}

type Adjust = (configuration: UncheckedConfiguration) => UncheckedConfiguration

async function check(flags: FlagValues, writeLine: WriteLine, adjust: Adjust = (given) => given): Promise<Checked> {
  const { configuration: given, warnings } = await complete(flags, writeLine)
  const configuration = adjust(given)
  const result = checkConfiguration(configuration, flags.config || 'command line')
  const code = 'errors' in result ? result.errors[0]?.code : undefined
  const early = code === 'config-gates' || code === 'config-logging'
  const format = !early && configuration.logging.format === 'json' ? 'json' : 'text'
  const gates = Object.keys(configuration.featureGates).length > 0
  if (code !== 'config-gates' && (gates || configuration.logging.verbosity > 0))
    writeStartLines({ flags, configuration, isLoggingValid: !early, format, writeLine })
  if ('errors' in result && code !== 'config-mode') throw refusal(result, format)
  return { configuration, result, warnings, format }
}

function refusal({ errors, advice }: Refused, format: LogFormat): SettingsRefused {
  return new SettingsRefused(errors[0]?.code ?? 'config-invalid', formatConfigurationErrors(errors), format, advice)
}

/** Joins file and flags, and fills in the modes: kube-proxy's Complete. */
async function complete(flags: FlagValues, writeLine: WriteLine): Promise<Omit<DecodedConfiguration, 'lenient'>> {
  const { configuration, warnings, lenient } = await joined(flags)
  if (lenient !== undefined)
    writeLine({
      level: 'info',
      message: 'Using lenient decoding as strict decoding failed',
      fields: { err: lenient },
      format: 'text',
    })
  const blank = nameError(flags)
  if (blank !== undefined) throw new CodedError('config-invalid', `failed complete: ${blank}`)
  return { configuration: completeModes(configuration), warnings }
}

async function joined(flags: FlagValues): Promise<DecodedConfiguration> {
  if (flags.config === undefined || flags.config === '') {
    // kube-proxy has no manifests, so their default mode need not be kube-proxy's.
    const mode = flags.mode ?? (flags.manifests === undefined ? undefined : 'ipvs')
    const given = mode === undefined ? flags : { ...flags, mode }
    return { configuration: configurationFromFlags(defaultDocument(), given), warnings: [], lenient: undefined }
  }
  const decoded = await decodeConfigurationFile(flags.config)
  if ('errors' in decoded) throw refusal(decoded, 'text')
  const ignored = flagsWithoutEffect(flags)
  const message = `with --config these flags have no effect: ${ignored.join(', ')}`
  const warnings: readonly Problem[] =
    ignored.length === 0
      ? []
      : [{ code: 'config-ignored-flag', about: 'configuration', subject: 'command line', message }]
  return {
    ...decoded,
    configuration: withFlagsForFile(decoded.configuration, flags),
    warnings: [...decoded.warnings, ...warnings],
  }
}

/**
 * The flags that were given beside --config and do not count then, by their names: kube-proxy's
 * rule, of which it says nothing.
 */
export function flagsWithoutEffect(flags: FlagValues): readonly string[] {
  if (flags.config === undefined || flags.config === '') return []
  const given = new Set(Object.keys(flags))
  return OF_FILE.filter((key) => given.has(key)).map((key) => `--${FLAGS[key].name}`)
}

/** The flags of fields that a file has, but for those that count with it. */
const OF_FILE: readonly FlagKey[] = [
  ...FIELD_PATHS.filter((path): path is FlagPath => {
    const { flag } = fieldAt(path)
    return flag !== undefined && flag.appliesWithFile !== true
  }),
  'healthzPort',
  'metricsPort',
]

/** Logs one line for each warning about the configuration. */
export function logWarnings(warnings: readonly Problem[], log: Log): void {
  for (const warning of warnings) log.warn('Configuration', { warning: formatProblem(warning) })
}
