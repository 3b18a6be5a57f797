/**
 * What files say of IPVS that netlink does not: the table of connections and its limit, and whether
 * the kernel knows SCTP there.
 * @impure
 */
import { closeSync, constants, existsSync, openSync, readSync } from 'node:fs'
import { type Seen, unseen } from './seen.ts'
import type { IpvsTableFact } from './facts.ts'
import { readNumber, readText } from './read-files.ts'

/** null before Linux 7.1, which has no such file. */
export function readIpvsTable(root = ''): Seen<IpvsTableFact | null> {
  const file = '/proc/net/ip_vs_status'
  const text = readText(root + file)
  if (text === undefined) return existsSync(root + file) ? unseen(`only root may read ${file}`) : { value: null }
  const [, connections] = /^Conns:\s*(\d+)$/m.exec(text) ?? []
  const [, buckets, bits] = /^Conn buckets:\s*(\d+) \((\d+) bits/m.exec(text) ?? []
  if (connections === undefined || buckets === undefined) return unseen(`${file} has another form`)
  return {
    value: {
      connections: Number(connections),
      buckets: Number(buckets),
      bits: Number(bits),
      largestBits: readNumber(`${root}/sys/module/ip_vs/parameters/conn_tab_bits`) ?? null,
      max: readNumber(`${root}/proc/sys/net/ipv4/vs/conn_max`) ?? null,
    },
  }
}

/** Functions of net/netfilter/ipvs/ip_vs_proto_*.c; every kernel with IPVS has that of TCP. */
const OF_TCP = 'tcp_conn_schedule'
const OF_SCTP = 'sctp_conn_schedule'

/**
 * Whether IPVS forwards SCTP. The kernel accepts virtual servers of SCTP in any case, so only its
 * symbols tell; their names can be read by everybody, in Pods too.
 */
export function readIpvsSctp(root = ''): Seen<boolean> {
  const symbols = symbolsOf(`${root}/proc/kallsyms`, [OF_TCP, OF_SCTP])
  return symbols.has(OF_TCP) ? { value: symbols.has(OF_SCTP) } : unseen('the kernel does not list its symbols')
}

/** Several times what kernels have, with all modules loaded. */
const MAX_BYTES = 128 * 1024 * 1024
const LONGEST_LINE = 1024

/** Which of the names a list of symbols has, without keeping the list: it may be 20 MB long. */
function symbolsOf(path: string, names: readonly string[]): ReadonlySet<string> {
  // `ffffffff81a0 t sctp_conn_schedule	[ip_vs]`; a compiler may have added `.llvm.123`.
  const wanted = names.map((name) => [name, new RegExp(` ${name}[\\s.]`)] as const)
  const found = new Set<string>()
  let fd: number | undefined
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const buffer = Buffer.alloc(65_536)
    let rest = ''
    for (let total = 0; total < MAX_BYTES && found.size < names.length; ) {
      const length = readSync(fd, buffer)
      if (length === 0) break
      total += length
      const text = rest + buffer.toString('latin1', 0, length)
      for (const [name, pattern] of wanted) if (pattern.test(text)) found.add(name)
      rest = text.slice(-LONGEST_LINE)
    }
  } catch {
    // Not there, or not for this user: what was found counts.
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
  return found
}
