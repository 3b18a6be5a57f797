/**
 * The names of the kernel's nfacct counters, which no installed program lists.
 * What could break: it asks in the network namespace of the calling thread, as the rest of a state is taken.
 */
import { openNetfilter } from '../../native/open.ts'
import { readCounters } from '../../src/modes/iptables/counters.ts'

/** One name a line, sorted. */
export async function counterNames(): Promise<string> {
  const netlink = openNetfilter()
  try {
    const names = [...(await readCounters(netlink)).keys()].sort()
    return names.map((name) => `${name}\n`).join('')
  } finally {
    netlink.close()
  }
}
