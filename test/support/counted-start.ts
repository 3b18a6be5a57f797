/**
 * Becomes a program whose calls of execve a listener counts (exec-count.ts). Arguments: the
 * program's. The environment names the folder in which the listener looks for this process, and
 * what node runs.
 */
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { getSystemErrorName } from 'node:util'
import koffi from 'koffi'
import { EXEC_CALLS, FOLDER_VARIABLE, LISTENER_FILE, PROGRAM_VARIABLE } from './exec-count.ts'
import { programOf, reportOf } from './seccomp.ts'

/** asm/unistd_64.h, linux/seccomp.h, linux/fcntl.h */
const SECCOMP = 317
const SECCOMP_SET_MODE_FILTER = 1
const SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
const F_SETFD = 2

interface Calls {
  seccomp(call: number, operation: number, flags: number, program: bigint): number
  fcntl(fd: number, command: number, value: number): number
  execve(path: string, argv: readonly (string | null)[], environment: readonly (string | null)[]): number
}
const library = koffi.load('libc.so.6')
// koffi's functions have no types; the prototypes are beside them.
const c = {
  seccomp: library.func('long syscall(long, unsigned long, unsigned long, unsigned long)'),
  fcntl: library.func('int fcntl(int, int, int)'),
  execve: library.func('int execve(const char *, const char **, const char **)'),
} as unknown as Calls

function check(what: string, result: number): number {
  if (result < 0) throw new Error(`${what} failed: ${getSystemErrorName(-koffi.errno())}`)
  return result
}

const { [FOLDER_VARIABLE]: folder = '', [PROGRAM_VARIABLE]: program = '', ...env } = process.env
const code = reportOf(Object.values(EXEC_CALLS))
const filter = programOf(code, koffi.address(code))
// The kernel marks the listener as to be closed by an execve, so the program does not have it.
const listener = check(
  'seccomp',
  c.seccomp(SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, koffi.address(filter)),
)
writeFileSync(join(folder, 'new'), `${process.pid} ${listener}`)
renameSync(join(folder, 'new'), join(folder, LISTENER_FILE))
// Node marks its own input and outputs as to be closed by an execve.
for (const fd of [0, 1, 2]) check('fcntl', c.fcntl(fd, F_SETFD, 0))
const argv = [process.execPath, program, ...process.argv.slice(2)]
const environment = Object.entries(env).map(([name, value]) => `${name}=${value}`)
check('execve', c.execve(process.execPath, [...argv, null], [...environment, null]))
