/** placeholder */
import type { QemuKernel } from './choice.ts'
import type { Guest } from './run.ts'

export function qemuGuest(choice: QemuKernel, liveFolders: readonly string[]): Guest {
  throw new Error(`${choice.kind} ${liveFolders.length}`)
}
