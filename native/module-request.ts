/**
 * Asks the kernel to load one of its modules by name. The kernel starts the modprobe of the node
 * itself, so this works in a container that has neither modprobe nor the files of modules. An ioctl
 * that names a network interface makes the kernel look for a module of that name (dev_load of
 * net/core/dev_ioctl.c), if the caller has CAP_SYS_MODULE; otherwise nothing happens.
 */
import { libc } from './libc.ts'

const AF_INET = 2
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000
/** linux/sockios.h */
const SIOCGIFFLAGS = 0x8913
/** struct ifreq of linux/if.h: char ifr_name[16], and a union. */
const NAME_BYTES = 16
const IFREQ_BYTES = 40

/**
 * Returns when the module is loaded or cannot be; the caller looks for its effect. @param name at
 * most 15 characters
 */
export function requestModule(name: string): void {
  const c = libc()
  const fd = c.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)
  if (fd < 0) return
  const request = new Uint8Array(IFREQ_BYTES)
  new TextEncoder().encodeInto(name, request.subarray(0, NAME_BYTES - 1))
  // The answer is ENODEV, because no interface has the name of a module.
  c.ioctl(fd, SIOCGIFFLAGS, request)
  c.close(fd)
}
