/**
 * The C program of the bench: the floor (`floor.c`), which writes the same tables and shows how
 * long the kernel alone takes. Without a compiler the bench runs without it and says so.
 */
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

/** Path of the compiled program in `folder`, or why there is none. */
export function compileFloor(folder: string): ReturnType<typeof compile> {
  return compile(join(import.meta.dirname, 'floor.c'), folder)
}

/** The total in what the program prints, in milliseconds: virtual servers, real servers, addresses and one set. */
export function parseFloor(output: string): number | null {
  const total = /\btotal=([\d.]+)ms/.exec(output)?.[1]
  return total === undefined ? null : Number(total)
}
