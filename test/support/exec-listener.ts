/**
 * Prints the path of each execve of a process and of all that come from it, before the kernel goes
 * on with the call, and ends with the last of them. Argument: the folder in which counted-start.ts
 * says where its listener is.
 */
import { closeSync, existsSync, openSync, readFileSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { getSystemErrorName } from 'node:util'
import koffi from 'koffi'
import { EXEC_CALLS, LISTENER_FILE } from './exec-count.ts'

/** asm-generic/unistd.h, linux/seccomp.h, poll.h, asm-generic/errno-base.h */
const PIDFD_OPEN = 434
const PIDFD_GETFD = 438
const SECCOMP_IOCTL_NOTIF_RECV = 0xc0502100
const SECCOMP_IOCTL_NOTIF_SEND = 0xc0182101
const SECCOMP_USER_NOTIF_FLAG_CONTINUE = 1
const POLLIN = 1
const ENOENT = 2
const EINTR = 4
/** Sizes of struct seccomp_notif and struct seccomp_notif_resp. */
const NOTIFICATION_BYTES = 80
const RESPONSE_BYTES = 24
/** A path that is longer is cut. */
const PATH_BYTES = 256
const LOOK_MS = 5

interface Calls {
  syscall(call: number, first: number, second: number, third: number): number
  ioctl(fd: number, request: number, argument: Uint8Array): number
  poll(fds: Uint8Array, count: number, timeoutMs: number): number
}
const library = koffi.load('libc.so.6')
// koffi's functions have no types; the prototypes are beside them.
const c = {
  syscall: library.func('long syscall(long, long, long, long)'),
  ioctl: library.func('int ioctl(int, unsigned long, void *)'),
  poll: library.func('int poll(void *, unsigned long, int)'),
} as unknown as Calls

function check(what: string, result: number): number {
  if (result < 0) throw new Error(`${what} failed: ${getSystemErrorName(-koffi.errno())}`)
  return result
}

const place = join(process.argv[2] ?? '', LISTENER_FILE)
while (!existsSync(place)) await sleep(LOOK_MS)
const [pid = 0, theirs = 0] = readFileSync(place, 'utf8').split(' ').map(Number)
const listener = check(
  'pidfd_getfd',
  c.syscall(PIDFD_GETFD, check('pidfd_open', c.syscall(PIDFD_OPEN, pid, 0, 0)), theirs, 0),
)
while (hasMore()) answerNext()

/** Waits for a call; false when no process is left that could make one. */
function hasMore(): boolean {
  // struct pollfd: int fd; short events; short revents
  const fds = new DataView(new ArrayBuffer(8))
  fds.setInt32(0, listener, true)
  fds.setInt16(4, POLLIN, true)
  while (c.poll(new Uint8Array(fds.buffer), 1, -1) < 0)
    if (koffi.errno() !== EINTR) throw new Error(`poll failed: ${getSystemErrorName(-koffi.errno())}`)
  return (fds.getInt16(6, true) & POLLIN) !== 0
}

function answerNext(): void {
  const notification = new Uint8Array(NOTIFICATION_BYTES)
  if (c.ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notification) < 0) {
    // The process was killed meanwhile.
    if ([ENOENT, EINTR].includes(koffi.errno())) return
    throw new Error(`SECCOMP_IOCTL_NOTIF_RECV failed: ${getSystemErrorName(-koffi.errno())}`)
  }
  // u64 id; u32 pid; u32 flags; int nr; u32 arch; u64 instruction_pointer; u64 args[6]
  const view = new DataView(notification.buffer)
  const id = view.getBigUint64(0, true)
  const isAt = view.getInt32(16, true) === EXEC_CALLS.execveat
  const path = textAt(view.getUint32(8, true), view.getBigUint64(isAt ? 40 : 32, true))
  writeSync(1, `${path}\n`)
  // u64 id; s64 val; s32 error; u32 flags
  const response = new DataView(new ArrayBuffer(RESPONSE_BYTES))
  response.setBigUint64(0, id, true)
  response.setUint32(20, SECCOMP_USER_NOTIF_FLAG_CONTINUE, true)
  const sent = c.ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, new Uint8Array(response.buffer))
  if (sent < 0 && koffi.errno() !== ENOENT) check('SECCOMP_IOCTL_NOTIF_SEND', sent)
}

/** The text at an address of a process. */
function textAt(process: number, address: bigint): string {
  const bytes = Buffer.alloc(PATH_BYTES)
  const memory = openSync(`/proc/${process}/mem`, 'r')
  try {
    const length = readSync(memory, bytes, 0, PATH_BYTES, address)
    return bytes.subarray(0, length).toString('latin1').replace(/\0.*/s, '')
  } finally {
    closeSync(memory)
  }
}
