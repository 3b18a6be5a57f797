/**
 * Programs that a test runs to their end while everything else waits, started with posix_spawn(3).
 * Node starts them with fork(2), which copies the page tables of this large process and lets it
 * fault for each page again: on user-mode Linux that takes ten times as long as all the rest.
 */
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { getSystemErrorName } from 'node:util'
import koffi from 'koffi'

/** spawn.h and bits/types/struct_rusage.h of glibc: opaque structures, larger than on any architecture. */
const OPAQUE_BYTES = 512
const POSIX_SPAWN_SETSIGDEF = 0x04
const POSIX_SPAWN_SETSIGMASK = 0x08
const MFD_CLOEXEC = 1
const EINTR = 4

type Strings = readonly (string | null)[]

interface Calls {
  posix_spawnp(pid: number[], file: string, actions: Uint8Array, attr: Uint8Array, argv: Strings, env: Strings): number
  posix_spawn_file_actions_init(actions: Uint8Array): number
  posix_spawn_file_actions_adddup2(actions: Uint8Array, from: number, to: number): number
  posix_spawn_file_actions_destroy(actions: Uint8Array): number
  posix_spawnattr_init(attr: Uint8Array): number
  posix_spawnattr_setflags(attr: Uint8Array, flags: number): number
  posix_spawnattr_setsigdefault(attr: Uint8Array, signals: Uint8Array): number
  posix_spawnattr_setsigmask(attr: Uint8Array, signals: Uint8Array): number
  memfd_create(name: string, flags: number): number
  waitpid(pid: number, status: number[], options: number): number
}

const library = koffi.load('libc.so.6')
// koffi's functions have no types; the prototypes are beside them.
const c = {
  posix_spawnp: library.func(
    'int posix_spawnp(_Out_ int *, const char *, void *, void *, const char **, const char **)',
  ),
  posix_spawn_file_actions_init: library.func('int posix_spawn_file_actions_init(void *)'),
  posix_spawn_file_actions_adddup2: library.func('int posix_spawn_file_actions_adddup2(void *, int, int)'),
  posix_spawn_file_actions_destroy: library.func('int posix_spawn_file_actions_destroy(void *)'),
  posix_spawnattr_init: library.func('int posix_spawnattr_init(void *)'),
  posix_spawnattr_setflags: library.func('int posix_spawnattr_setflags(void *, short)'),
  posix_spawnattr_setsigdefault: library.func('int posix_spawnattr_setsigdefault(void *, void *)'),
  posix_spawnattr_setsigmask: library.func('int posix_spawnattr_setsigmask(void *, void *)'),
  memfd_create: library.func('int memfd_create(const char *, unsigned int)'),
  waitpid: library.func('int waitpid(int, _Out_ int *, int)'),
} as unknown as Calls

export interface Ended {
  /** The exit code, or 128 and the number of the signal, as a shell reports it. */
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A program that ended with another code than 0. */
export class ProgramFailed extends Error {
  readonly ended: Ended
  constructor(argv: readonly string[], ended: Ended) {
    super(`${argv.join(' ')} ended with ${ended.code}: ${ended.stderr}${ended.stdout}`)
    this.ended = ended
  }
}

/** Runs a program that PATH has; returns what it printed. Throws ProgramFailed. */
export function run(argv: readonly string[], input = ''): string {
  const ended = finish(argv, input)
  if (ended.code !== 0) throw new ProgramFailed(argv, ended)
  return ended.stdout
}

/** The same for a shell command; a shell is not started for words without a meaning to it. */
export const sh = (command: string): string =>
  run(/^[a-z0-9 ./:_@-]+$/i.test(command) ? command.trim().split(/ +/) : ['sh', '-c', command])

/** Runs a program to its end, however it ends. Throws when it cannot be started. */
export function finish(argv: readonly string[], input = '', env = process.env): Ended {
  const [program = ''] = argv
  const stdin = input === '' ? openSync('/dev/null', 'r') : memoryFile('stdin')
  const [stdout, stderr] = [memoryFile('stdout'), memoryFile('stderr')]
  const actions = new Uint8Array(OPAQUE_BYTES)
  try {
    // At a position, so that the program reads from the start.
    if (input !== '') writeSync(stdin, input, 0)
    c.posix_spawn_file_actions_init(actions)
    for (const [to, from] of [stdin, stdout, stderr].entries()) c.posix_spawn_file_actions_adddup2(actions, from, to)
    const pid = [0]
    const environment = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const error = c.posix_spawnp(pid, program, actions, defaultSignals, [...argv, null], [...environment, null])
    if (error !== 0)
      throw Object.assign(new Error(`${program} cannot be started: error ${error}`), {
        code: getSystemErrorName(-error),
      })
    return { code: exitCodeOf(pid[0] ?? 0), stdout: contentOf(stdout), stderr: contentOf(stderr) }
  } finally {
    c.posix_spawn_file_actions_destroy(actions)
    for (const fd of [stdin, stdout, stderr]) closeSync(fd)
  }
}

/** Node ignores SIGPIPE and may block signals for a moment; a program starts with the defaults. */
const defaultSignals = (() => {
  const attributes = new Uint8Array(OPAQUE_BYTES)
  const [all, none] = [new Uint8Array(128).fill(0xff), new Uint8Array(128)]
  c.posix_spawnattr_init(attributes)
  c.posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
  c.posix_spawnattr_setsigdefault(attributes, all)
  c.posix_spawnattr_setsigmask(attributes, none)
  return attributes
})()

function memoryFile(name: string): number {
  const fd = c.memfd_create(name, MFD_CLOEXEC)
  if (fd < 0) throw new Error(`memfd_create failed with error ${koffi.errno()}`)
  return fd
}

/** Waits for the program. libuv waits only for its own children, so it does not take this one away. */
function exitCodeOf(pid: number): number {
  const status = [0]
  while (c.waitpid(pid, status, 0) < 0)
    if (koffi.errno() !== EINTR) throw new Error(`waitpid failed with error ${koffi.errno()}`)
  const [value = 0] = status
  const signal = value & 0x7f
  return signal === 0 ? (value >> 8) & 0xff : 128 + signal
}

function contentOf(fd: number): string {
  const parts: Buffer[] = []
  for (let position = 0; ; ) {
    const part = Buffer.alloc(64 << 10)
    const length = readSync(fd, part, 0, part.length, position)
    if (length === 0) return Buffer.concat(parts).toString()
    parts.push(part.subarray(0, length))
    position += length
  }
}
