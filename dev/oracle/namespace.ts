/**
 * A fresh network namespace for this process and everything it starts from then on: cheaper than a process per case.
 * What could break: unshare(2) moves the calling thread alone, so it must be called on the main thread, which is also the
 * one that opens sockets and starts processes.
 */
import { execFileSync } from 'node:child_process'
import koffi from 'koffi'
import { CodedError } from '../../src/values/errors.ts'

/** linux/sched.h */
const CLONE_NEWNET = 0x40000000

let unshare: ((flags: number) => number) | undefined

export function enterNetworkNamespace(): void {
  unshare ??= koffi.load('libc.so.6').func('int unshare(int flags)') as (flags: number) => number
  if (unshare(CLONE_NEWNET) !== 0) throw new CodedError('NAMESPACE', `unshare failed with errno ${koffi.errno()}`)
  // sysfs shows the network namespace that it was mounted in.
  execFileSync('sh', ['-c', 'umount /sys 2>/dev/null; mount -t sysfs sys /sys'])
}
