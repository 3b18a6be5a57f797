/**
 * Runs programs of the host without a shell, with text as input and output, and kills them at a
 * deadline. A process that hangs in the kernel does not die, so the caller's wait ends with the
 * deadline, not with the process.
 * @impure
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { CodedError } from '../values/errors.ts'

/** Folders of administrators' programs, which PATH may lack. */
const SYSTEM_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/local/bin', '/usr/bin', '/bin']
/** A program that writes more than this is killed. */
const MAX_OUTPUT_BYTES = 256 << 20
const DEFAULT_DEADLINE_MS = 10_000
/** How long a killed process is awaited: one that waits for a device does not die. */
const DEATH_MS = 1000

/** What a program that has ended left. */
export interface ProgramResult {
  /** -1 if a signal ended the process. */
  readonly exitCode: number
  readonly output: string
  readonly errorText: string
}

/** One run of a program. */
export interface ProgramCall {
  /** Absolute path. */
  readonly program: string
  readonly args: readonly string[]
  /** Text for its standard input; default none. */
  readonly input?: string
  /** Default 10 s. */
  readonly deadlineMs?: number
  readonly signal: AbortSignal
  /** Its whole environment. Default: ours, with the folders of `searchPath` and with LC_ALL=C. */
  readonly env?: NodeJS.ProcessEnv
  /** Kills its descendants with it, at the deadline, at an abort and when this process exits. Default false. */
  readonly withDescendants?: boolean
  /** Called with the process id right after the start; it is also the port id of the process' first netlink socket. */
  readonly onStart?: (processId: number) => void
}

export type RunProgram = (call: ProgramCall) => Promise<ProgramResult>

/** The absolute folders of PATH, followed by those of administrators' programs. */
export function searchPath(path: string | undefined): readonly string[] {
  const folders = (path ?? '').split(':').filter((folder) => folder.startsWith('/'))
  return [...new Set([...folders, ...SYSTEM_FOLDERS])]
}

/**
 * Absolute path of the first executable file with that name; undefined if no folder has one.
 * Synchronous: a start looks for a dozen programs in several folders each, and a look takes
 * microseconds, while each way through the thread pool wakes two threads.
 */
export function findProgram(name: string, folders: readonly string[]): string | undefined {
  return folders.map((folder) => `${folder}/${name}`).find(isExecutable)
}

function isExecutable(file: string): boolean {
  if (!existsSync(file)) return false
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * Runs a program to its end. Rejects with CodedError `program-missing` or `program-failed` (cannot
 * be started), `program-timeout` (deadline), `program-output` (too much output), or with the reason
 * of the abort. A non-zero exit code is a result, not an error.
 */
export function runProgram(call: ProgramCall): Promise<ProgramResult> {
  const { program, args, signal } = call
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason)
      return
    }
    const { withDescendants = false } = call
    const env = call.env ?? { ...process.env, PATH: searchPath(process.env['PATH']).join(':'), LC_ALL: 'C' }
    const child = spawn(program, [...args], { env, stdio: 'pipe', detached: withDescendants })
    if (!hasPipes(child)) {
      child.once('error', (error) => reject(startError(program, error)))
      return
    }
    const kill = (): void => killAll(child, withDescendants)
    if (withDescendants) process.once('exit', kill)
    const output = new Chunks()
    const errors = new Chunks()
    let isStopped = false
    const stop = (error: unknown): void => {
      if (isStopped) return
      isStopped = true
      kill()
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy()
      // A process that is still in a system call may change the kernel after whoever began it has
      // gone on, and what is read then is wrong.
      const end = (): void => {
        clearTimeout(dying)
        // If the process does not die, it may not keep the event loop alive.
        child.unref()
        finish(() => reject(error))
      }
      const dying = setTimeout(end, DEATH_MS)
      child.once('exit', end)
    }
    const deadlineMs = call.deadlineMs ?? DEFAULT_DEADLINE_MS
    const timer = setTimeout(
      () =>
        stop(new CodedError('program-timeout', `${program} did not end within ${deadlineMs / 1000} s and was killed`)),
      deadlineMs,
    )
    const onAbort = (): void => stop(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    const finish = (settle: () => void): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      process.off('exit', kill)
      settle()
    }
    child.once('error', (error) => finish(() => reject(startError(program, error))))
    // The process may end without reading all input (EPIPE); its exit code says what happened.
    child.stdin.on('error', () => undefined)
    for (const [stream, chunks] of [
      [child.stdout, output],
      [child.stderr, errors],
    ] as const) {
      stream.on('data', (chunk: Buffer) => {
        if (!chunks.add(chunk))
          stop(new CodedError('program-output', `${program} wrote more than ${MAX_OUTPUT_BYTES} bytes`))
      })
    }
    child.once('close', (code) => {
      if (isStopped) return
      finish(() => resolve({ exitCode: code ?? -1, output: output.text(), errorText: errors.text() }))
    })
    if (child.pid !== undefined) call.onStart?.(child.pid)
    child.stdin.end(call.input ?? '')
  })
}

/**
 * Without free file descriptors (EMFILE, ENFILE) Node creates no pipes, although its types say so,
 * and emits `error` later.
 */
function hasPipes(child: { readonly stdin: unknown }): boolean {
  return child.stdin !== undefined
}

/** `withDescendants` processes lead a process group, which is killed as a whole. */
function killAll(child: ChildProcess, withDescendants: boolean): void {
  if (!withDescendants || child.pid === undefined) {
    child.kill('SIGKILL')
    return
  }
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // All processes of the group have ended already.
  }
}

function startError(program: string, error: NodeJS.ErrnoException): CodedError {
  return error.code === 'ENOENT'
    ? new CodedError('program-missing', `${program} does not exist`, { cause: error })
    : new CodedError('program-failed', `${program} cannot be started: ${error.message}`, { cause: error })
}

class Chunks {
  readonly #chunks: Buffer[] = []
  #length = 0

  /** Returns false if the output exceeds the limit. */
  add(chunk: Buffer): boolean {
    this.#length += chunk.length
    if (this.#length > MAX_OUTPUT_BYTES) return false
    this.#chunks.push(chunk)
    return true
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}
