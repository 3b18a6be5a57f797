/**
 * `npm run bench -- --hostile`: how long one ordinary change takes to reach the kernel beside
 * objects with which a tenant could try to stall a node: a Service of 1,000 externalIPs x 200
 * ports, 10,000 claims that lose, 10,000 virtual servers whose endpoint the kernel refuses.
 * Measured while these objects rest, then while the large Service changes all the time.
 */
import { join } from 'node:path'
import { bundle } from '../bundle.ts'
import { boot } from './boot.ts'
import { type HostSetting, ROOT } from './host.ts'

export interface HostileTask {
  /** Our bundle's. */
  readonly entry: string
  readonly services: number
  readonly changes: number
}

const GUEST = join(ROOT, 'dev/bench/hostile-guest.ts')
const TIMEOUT_MS = 1_800_000

/** One line of JSON. The guest is not kept on one processor: the program has one for itself. */
export async function runHostile(setting: HostSetting, task: Omit<HostileTask, 'entry'>): Promise<string> {
  const { entry } = await bundle({ directory: setting.bundled, minify: true })
  const command = [process.execPath, GUEST, JSON.stringify({ ...task, entry } satisfies HostileTask)]
  const { code, stdout } = await boot(command, TIMEOUT_MS, { ...setting, cwd: ROOT })
  if (code !== 0) throw new Error(`the measurement ended with code ${code}`)
  return stdout.trim()
}
