/** C programs of the bench, compiled where they are needed. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Path of the compiled program in `folder`, or why there is none. */
export async function compile(
  source: string,
  folder: string,
): Promise<{ readonly program: string } | { readonly missing: string }> {
  if (!existsSync(source)) return { missing: `${source} is not there` }
  const program = join(folder, basename(source, '.c'))
  try {
    await run('gcc', ['-O2', '-w', '-o', program, source], { timeout: 60_000 })
    return { program }
  } catch (error) {
    return { missing: `gcc does not compile ${source}: ${error instanceof Error ? error.message : String(error)}` }
  }
}
