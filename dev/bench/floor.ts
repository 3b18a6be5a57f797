/**
 * The floor: how long the kernel alone takes for the same tables, which a C program writes: `floor.c` beside this file, or the
 * source that KUBE_IPVS_FLOOR names. Without a compiler the bench runs without a floor and says so.
 */
import { join, resolve } from 'node:path'
import { compile } from './compile.ts'

const DEFAULT_SOURCE = join(import.meta.dirname, 'floor.c')

/** Path of the compiled program in `folder`, or why there is none. */
export function compileFloor(folder: string, env: NodeJS.ProcessEnv): ReturnType<typeof compile> {
  return compile(resolve(env['KUBE_IPVS_FLOOR'] ?? DEFAULT_SOURCE), folder)
}

/** The total in what the program prints, in milliseconds: virtual servers, real servers, addresses and one set. */
export function parseFloor(output: string): number | null {
  const total = /\btotal=([\d.]+)ms/.exec(output)?.[1]
  return total === undefined ? null : Number(total)
}
