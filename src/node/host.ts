/**
 * What the program asks of its host besides the kernel tables: names and versions.
 * What could break: a node name is compared with Kubernetes names, so it is trimmed and in lower case.
 */
import { hostname, release } from 'node:os'

/** Name of the Node object: the override if it is not blank, else the host's name. */
export function nodeNameOf(override: string): string {
  const wanted = override.trim()
  return (wanted === '' ? hostname().trim() : wanted).toLowerCase()
}

/** `7.2.13`, as uname -r has it. */
export function kernelRelease(): string {
  return release()
}
