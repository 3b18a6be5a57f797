/**
 * The floor: what the kernel alone needs for the same table, written by a C program (KUBE_IPVS_FLOOR names its source).
 * What could break: it may be missing, as may the compiler; then the bench goes on without a floor and says so.
 */
import { join, resolve } from 'node:path'
import { compile } from './compile.ts'

const DEFAULT_SOURCE = join(import.meta.dirname, '../../../shared/tools/bench/floor.c')

/** Path of the compiled program in `folder`, or why there is none. */
export function compileFloor(folder: string, env: NodeJS.ProcessEnv): ReturnType<typeof compile> {
  return compile(resolve(env['KUBE_IPVS_FLOOR'] ?? DEFAULT_SOURCE), folder)
}

/** The total in what the program prints, in milliseconds: virtual servers, real servers, addresses and one set. */
export function parseFloor(output: string): number | null {
  const total = /\btotal=([\d.]+)ms/.exec(output)?.[1]
  return total === undefined ? null : Number(total)
}
