/**
 * A fresh network namespace for this process and everything it starts from then on: cheaper than a process per case.
 * What could break: unshare(2) moves the calling thread alone, so it must be called on the main thread, which is also the
 * one that opens sockets and starts processes.
 */
import koffi from 'koffi'
import { CodedError } from '../../src/values/errors.ts'

/** linux/sched.h */
const CLONE_NEWNET = 0x40000000
/** umount2(2): at once for new users, in the end for those who still look. */
const MNT_DETACH = 2

interface Calls {
  unshare(flags: number): number
  umount2(target: string, flags: number): number
  mount(source: string, target: string, type: string, flags: number, data: null): number
}

let calls: Calls | undefined

/** Also mounts /sys anew: it shows the network namespace that it was mounted in. */
export function enterNetworkNamespace(): void {
  calls ??= bindCalls()
  check('unshare', calls.unshare(CLONE_NEWNET))
  calls.umount2('/sys', MNT_DETACH) // fails when it is not mounted
  check('mount of /sys', calls.mount('sys', '/sys', 'sysfs', 0, null))
}

function bindCalls(): Calls {
  const library = koffi.load('libc.so.6')
  // koffi's functions have no types; the prototypes stand beside them.
  return {
    unshare: library.func('int unshare(int flags)'),
    umount2: library.func('int umount2(const char *target, int flags)'),
    mount: library.func(
      'int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data)',
    ),
  } as unknown as Calls
}

function check(what: string, result: number): void {
  if (result !== 0) throw new CodedError('NAMESPACE', `${what} failed with errno ${koffi.errno()}`)
}
