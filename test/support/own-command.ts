/**
 * Runs a command of the program in this process, as main.ts does in a process of its own: from its
 * command line to its exit code. To start Node and load the program takes ten times as long as most
 * commands. For commands that end by themselves and leave nothing open.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { main as runTool } from '../../src/cli/main.ts'
import { isDaemon, parseCommandLine } from '../../src/start/command-line.ts'
import { main as runDaemon } from '../../src/start/main.ts'
import type { Ended } from './programs.ts'
import { spawnQuickly } from './quick-spawn.ts'

interface Printed {
  stdout: string
  stderr: string
}

/** What the command prints that runs in this chain of promises. */
const printed = new AsyncLocalStorage<Printed>()

for (const name of ['stdout', 'stderr'] as const) {
  const stream = process[name]
  const write = stream.write.bind(stream)
  // The other arguments of a write are an encoding and a callback, which commands do not use.
  stream.write = (chunk: string | Uint8Array): boolean => {
    const current = printed.getStore()
    if (current === undefined) return write(chunk)
    current[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
    return true
  }
}

spawnQuickly(() => printed.getStore() !== undefined)

/** Never rejects. Several may run at the same time. */
export async function runOwnCommand(args: readonly string[]): Promise<Ended> {
  const output: Printed = { stdout: '', stderr: '' }
  const line = parseCommandLine(args)
  const code = await printed.run(output, () => (isDaemon(line) ? runDaemon(line) : runTool(line)))
  return { code, ...output }
}
