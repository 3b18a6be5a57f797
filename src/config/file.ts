/**
 * The configuration file on disk.
 * What could break: a file that cannot be read is an error like any other of the configuration, never an exception.
 */
import { readFile } from 'node:fs/promises'
import { type ConfigurationResult, loadConfiguration } from './load.ts'

/** Reads and checks the file; all that can go wrong with it comes back as problems that name it. */
export async function readConfigurationFile(path: string, signal?: AbortSignal): Promise<ConfigurationResult> {
  let text: string
  try {
    text = await readFile(path, { encoding: 'utf8', ...(signal === undefined ? {} : { signal }) })
  } catch (cause) {
    if (signal?.aborted === true) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    return { errors: [{ code: 'config-unreadable', subject: path, message: `cannot be read: ${reason}` }] }
  }
  return loadConfiguration(text, path)
}
