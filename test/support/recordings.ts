/**
 * Recorded behaviour that lies beside the repository in `../shared`: present on the project's own machines only.
 * What could break: a test that needs it must skip, with the reason, when it is not there.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Absolute path of a file or folder in `../shared`. */
export function sharedPath(path: string): string {
  return fileURLToPath(new URL(`../../../shared/${path}`, import.meta.url))
}

/** For the `skip` option of a test: false when the path is there, else the reason. */
export function skipWithoutShared(path: string): string | false {
  return existsSync(sharedPath(path)) ? false : `needs ../shared/${path}`
}
