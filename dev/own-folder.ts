/**
 * Folders that a tool fills and that a user names: what is there already is removed only if the
 * tool itself makes such things.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Unmet } from './progress.mjs'

/**
 * Makes the folder, or empties it. Throws Unmet, and removes nothing, when it holds anything else
 * than what the tool makes.
 * @param isOurs whether the tool makes files or folders of this name there
 */
export function ownFolder(path: string, isOurs: (name: string) => boolean): void {
  mkdirSync(path, { recursive: true })
  const names = readdirSync(path)
  const foreign = names.find((name) => !isOurs(name))
  if (foreign !== undefined)
    throw new Unmet(`${path} has ${foreign}, which was not made here: name a folder that does not exist yet`)
  for (const name of names) rmSync(join(path, name), { recursive: true })
}
