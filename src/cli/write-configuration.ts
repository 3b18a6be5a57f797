/**
 * `--write-config-to FILE`: the configuration as the daemon would use it, as a file for kube-proxy
 * and for us. Tests compare the file byte for byte with the one that kube-proxy writes.
 */
import { writeFile } from 'node:fs/promises'
import { unknownGateWarnings } from '../config/load.ts'
import { toV1alpha1, toYaml } from '../config/write.ts'
import { formatProblem } from '../values/errors.ts'
import { type LogFormat, SettingsRefused, writeEarlyLine } from '../start/early-lines.ts'
import type { FlagValues } from '../start/flags.ts'
import { checkSettings } from '../start/settings.ts'

/** Overwrites an existing file; starts nothing. */
export async function writeConfiguration(flags: FlagValues, path: string): Promise<number> {
  const configuration = await checkSettings(flags, writeEarlyLine)
  const format = configuration.logging.format === 'json' ? 'json' : 'text'
  // The daemon logs them with its other warnings, but this command starts no daemon.
  for (const warning of unknownGateWarnings(configuration, flags.config || 'command line'))
    writeEarlyLine({ level: 'warn', message: 'Configuration', fields: { warning: formatProblem(warning) }, format })
  const { qps } = configuration.clientConnection
  if (!Number.isFinite(qps))
    throw unwritable(`json: unsupported value: ${Number.isNaN(qps) ? 'NaN' : qps > 0 ? '+Inf' : '-Inf'}`, format)
  try {
    await writeFile(path, toYaml(toV1alpha1(configuration)))
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.replace(/^[A-Z]+: (.*), \w+ .*$/, '$1') : String(cause)
    throw unwritable(`open ${path}: ${reason}`, format)
  }
  writeEarlyLine({ level: 'info', message: 'Wrote configuration', fields: { file: path }, format })
  return 0
}

function unwritable(reason: string, format: LogFormat): SettingsRefused {
  writeEarlyLine({ level: 'error', message: 'Error running ProxyServer', fields: { err: reason }, format })
  return new SettingsRefused('config-unwritable', reason, format)
}
