/**
 * The programs that tests start, made once for a run: in a guest a compiler costs a second, and the
 * sources of the program many times what its bundle does.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compile } from '../bench/floor.ts'
import { bundle } from '../bundle.ts'
import { PROGRAM_VARIABLE, TRAFFIC_VARIABLE } from './variables.ts'

export interface TestPrograms {
  /** For the environment of the tests. */
  readonly env: Readonly<Record<string, string>>
  remove(): void
}

export async function makePrograms(): Promise<TestPrograms> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-programs-'))
  const [{ entry }, traffic] = await Promise.all([
    bundle(),
    compile(join(import.meta.dirname, '../bench/traffic.c'), folder),
  ])
  return {
    env: { [PROGRAM_VARIABLE]: entry, ...('program' in traffic ? { [TRAFFIC_VARIABLE]: traffic.program } : {}) },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
