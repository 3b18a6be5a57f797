/**
 * Counts each call of execve and execveat by a daemon of a workbench and by all that come from it,
 * also calls that fail: a filter of seccomp reports them, before the daemon's own first one, to a
 * process that ends with the last of them. For x86-64.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Workbench } from './daemon.ts'

/** asm/unistd_64.h */
export const EXEC_CALLS = { execve: 59, execveat: 322 } as const

export const FOLDER_VARIABLE = 'KUBE_IPVS_EXEC_FOLDER'
export const PROGRAM_VARIABLE = 'KUBE_IPVS_EXEC_PROGRAM'
/** In the folder: the process and its descriptor of the listener. */
export const LISTENER_FILE = 'listener'

const here = (name: string): string => join(import.meta.dirname, name)

export class ExecCount {
  readonly #folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-exec-count-'))
  readonly #listener = spawn(process.execPath, [here('exec-listener.ts'), this.#folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  readonly #paths = text(this.#listener.stdout)

  /** Starts the daemon of which it counts. */
  start(bench: Workbench, ...flags: string[]): ChildProcess {
    const { env, program } = bench
    bench.env = { ...env, [FOLDER_VARIABLE]: this.#folder, [PROGRAM_VARIABLE]: program }
    bench.program = here('counted-start.ts')
    try {
      return bench.start(...flags)
    } finally {
      bench.env = env
      bench.program = program
    }
  }

  /** The paths of all calls in their order, when the last of the processes has ended. The first is the daemon's own start. */
  async paths(): Promise<readonly string[]> {
    return (await this.#paths).split('\n').filter((line) => line !== '')
  }

  close(): void {
    this.#listener.kill('SIGKILL')
    rmSync(this.#folder, { recursive: true })
  }
}
