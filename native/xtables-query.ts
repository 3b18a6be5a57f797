/**
 * Asks the legacy back end of iptables (ip_tables, ip6_tables) whether it has a match or target, as
 * iptables-legacy does: getsockopt IPT_SO_GET_REVISION_* on any socket of the family. The kernel
 * loads the extension's module if it can. No other option of this family may be read, because
 * reading a table creates it.
 */
import { KernelError } from '../src/netlink/errors.ts'
import { FAMILY_NUMBER, type IpFamily } from '../src/values/protocol.ts'
import { libc } from './libc.ts'

const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000

/** IPPROTO_IP and IPT_SO_GET_REVISION_* of linux/netfilter_ipv4/ip_tables.h; the same for IPv6. */
const OPTIONS: Readonly<Record<IpFamily, { readonly level: number; readonly match: number; readonly target: number }>> =
  { IPv4: { level: 0, match: 66, target: 67 }, IPv6: { level: 41, match: 68, target: 69 } }
/** struct xt_get_revision of linux/netfilter/x_tables.h: char name[29] and the revision in one byte. */
const NAME_BYTES = 29
const REVISION_BYTES = 30

export type XtablesAnswer =
  | 'present'
  | 'missing'
  /** ip_tables itself is not loaded; only a program like iptables-legacy loads it. */
  | 'not-loaded'

/** Throws KernelError, EPERM without CAP_NET_ADMIN. */
export function askXtables(kind: 'match' | 'target', name: string, family: IpFamily): XtablesAnswer {
  const c = libc()
  const fd = c.socket(FAMILY_NUMBER[family], SOCK_DGRAM | SOCK_CLOEXEC, 0)
  if (fd < 0) throw new KernelError(c.errno(), `socket(${family})`)
  try {
    const revision = new Uint8Array(REVISION_BYTES)
    // Asks for revision 0; the last byte of the name stays 0.
    new TextEncoder().encodeInto(name, revision.subarray(0, NAME_BYTES - 1))
    const length = new Uint8Array(new Uint32Array([REVISION_BYTES]).buffer)
    const options = OPTIONS[family]
    const ask = (): KernelError | undefined =>
      c.getsockopt(fd, options.level, options[kind], revision, length) >= 0
        ? undefined
        : new KernelError(c.errno(), `getsockopt(IPT_SO_GET_REVISION) ${kind} ${name}`)
    let error = ask()
    // User-mode Linux 6.1 sometimes answers EFAULT after a process was started.
    if (error?.code === 'EFAULT') error = ask()
    switch (error?.code) {
      case undefined:
        return 'present'
      case 'ENOENT':
        return 'missing'
      case 'EPROTONOSUPPORT':
        return 'present'
      case 'ENOPROTOOPT':
        return 'not-loaded'
      default:
        throw error
    }
  } finally {
    c.close(fd)
  }
}
