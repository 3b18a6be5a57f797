/**
 * `--write-config-to FILE`: the configuration as it would be used, as a file for kube-proxy and for us.
 * What could break: the file is compared byte for byte with what kube-proxy writes.
 */
import { writeFile } from 'node:fs/promises'
import { toYaml } from '../config/to-yaml.ts'
import { toV1alpha1 } from '../config/write.ts'
import { CodedError } from '../values/errors.ts'
import { SettingsRefused, writeEarlyLine } from './early-lines.ts'
import type { FlagValues } from './flags.ts'
import { checkSettings } from './settings.ts'

/** Writes the file, over what is there; nothing is started. */
export async function writeConfiguration(flags: FlagValues, path: string): Promise<number> {
  const configuration = await checkSettings(flags)
  const format = configuration.logging.format === 'json' ? 'json' : 'text'
  try {
    await writeFile(path, toYaml(toV1alpha1(configuration)))
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.replace(/^[A-Z]+: (.*), \w+ .*$/, '$1') : String(cause)
    const text = `open ${path}: ${reason}`
    writeEarlyLine({ level: 'error', message: 'Error running ProxyServer', fields: { err: text }, format })
    throw cause instanceof CodedError ? cause : new SettingsRefused('config-unwritable', text, format)
  }
  writeEarlyLine({ level: 'info', message: 'Wrote configuration', fields: { file: path }, format })
  return 0
}
