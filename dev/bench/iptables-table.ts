/**
 * Reads what iptables mode writes: the chains of each Service port in the table nat. It requests the rules of one chain at a
 * time from nf_tables, which costs the same whatever else there is; iptables-save would read all of them. Both programs name
 * chains by Service port and endpoint, so the names in a chain's rules show where it leads.
 */
import { openNetfilter } from '../../native/open.ts'
import { chainHash, endpointChain, serviceChain } from '../../src/modes/iptables/chains/chain-names.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import type { NetlinkConnection } from '../../src/netlink/connection.ts'
import { NLM_F_DUMP } from '../../src/netlink/constants.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { beginNetfilter, NFNL_SUBSYS } from '../../src/netlink/nfnetlink-codec.ts'
import { type Expected, sameSet, type SeenTable } from './table-view.ts'

// linux/netfilter/nf_tables.h
const NFT_MSG_GETRULE = 7
const NFTA_RULE_TABLE = 1
const NFTA_RULE_CHAIN = 2

/** The chain whose rules lead to the chains of Services. */
const SERVICES_CHAIN = 'KUBE-SERVICES'

export class IptablesTable implements SeenTable {
  readonly #netlink: NetlinkConnection = openNetfilter({ timeoutMs: 60_000 })

  close(): void {
    this.#netlink.close()
  }

  async isThere({ port, endpoints }: Expected): Promise<boolean> {
    const wanted = new Set([...endpoints].map((endpoint) => endpointChain(portText(port), endpoint)))
    return sameSet(await this.#jumps(chainOf(port), 'KUBE-SEP-'), wanted)
  }

  async hasEndpoint({ port }: Expected, endpoint: string): Promise<boolean> {
    return (await this.#jumps(chainOf(port), 'KUBE-SEP-')).has(endpointChain(portText(port), endpoint))
  }

  async missing(all: readonly Expected[]): Promise<Expected[]> {
    const led = await this.#jumps(SERVICES_CHAIN, 'KUBE-SVC-')
    const missing: Expected[] = []
    for (const expected of all)
      if (!led.has(chainOf(expected.port)) || !(await this.isThere(expected))) missing.push(expected)
    return missing
  }

  /** The number of Services whose rule the kernel compares with a packet before that of this one. */
  async rulesBefore({ port }: Expected): Promise<number> {
    const index = [...(await this.#jumps(SERVICES_CHAIN, 'KUBE-SVC-'))].indexOf(chainOf(port))
    if (index === -1) throw new Error(`${SERVICES_CHAIN} has no rule of ${port}`)
    return index
  }

  /** Names of the chains with this prefix that the rules of a chain jump to; empty when the chain does not exist. */
  async #jumps(chain: string, prefix: string): Promise<Set<string>> {
    const request = new MessageBatch(256)
    beginNetfilter(request, NFNL_SUBSYS.NFTABLES, NFT_MSG_GETRULE, NLM_F_DUMP, 'NFT_MSG_GETRULE', 'IPv4')
    request.string(NFTA_RULE_TABLE, 'nat')
    request.string(NFTA_RULE_CHAIN, chain)
    request.end()
    try {
      return new Set(await this.#netlink.dump(request, (message) => jumpIn(message, prefix)))
    } catch (error) {
      // The table or the chain does not exist yet, or is being written.
      if (error instanceof KernelError && error.code === 'ENOENT') return new Set()
      if (isInterrupted(error)) return new Set()
      throw error
    }
  }
}

/** The name with the prefix in a rule as the kernel lists it; a rule has at most one jump. */
function jumpIn({ bytes, start, end }: ReceivedMessage, prefix: string): string | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1')
  const at = text.indexOf(prefix)
  return at === -1 ? undefined : text.slice(at, text.indexOf('\0', at))
}

function isInterrupted(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'netlink-dump-interrupted'
}

/** The input of the hash in the names of chains. */
const portText = (port: string): string => `${port}tcp`
const chainOf = (port: string): string => serviceChain('SVC', chainHash(portText(port)))
