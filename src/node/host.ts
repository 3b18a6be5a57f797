/**
 * What the program says about its host.
 * What could break: nothing is decided from a kernel release; what a kernel offers is found out by asking it.
 */
import { release } from 'node:os'

/** `7.2.13`, as uname -r has it. */
export function kernelRelease(): string {
  return release()
}
