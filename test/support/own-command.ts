/**
 * Runs a command of the program in this process, as main.ts does in a process of its own: from its
 * command line to its exit code. To start Node and load the program takes ten times as long as most
 * commands. For commands that end by themselves and leave nothing open.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Script } from 'node:vm'
import { PROGRAM_VARIABLE } from '../../dev/testing/variables.ts'
import { parseCommandLine } from '../../src/start/command-line.ts'
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

type Tools = Pick<typeof import('../../src/cli/main.ts'), 'main'>

let tools: Promise<Tools> | undefined

/** Those of the bundle if the test runner has made one: it loads in a sixth of the time. */
async function loadTools(): Promise<Tools> {
  const program = process.env[PROGRAM_VARIABLE]
  if (program === undefined) return import('../../src/cli/main.ts')
  const filename = join(dirname(program), 'tools.js')
  // As dev/entry.cjs does it.
  const script = new Script(readFileSync(filename, 'latin1'), {
    filename,
    cachedData: readFileSync(`${filename}.cache`),
  })
  const module: { exports: Partial<Tools> } = { exports: {} }
  script.runInThisContext()(createRequire(program), filename, module)
  const { main } = module.exports
  if (main === undefined) throw new Error(`${filename} exports no main`)
  return { main }
}

/** Never rejects. Several may run at the same time. */
export async function runOwnCommand(args: readonly string[]): Promise<Ended> {
  const output: Printed = { stdout: '', stderr: '' }
  const { main } = await (tools ??= loadTools())
  const code = await printed.run(output, () => main(parseCommandLine(args)))
  return { code, ...output }
}
