/**
 * Reads what iptables mode writes: the chains of each Service port in the table nat. Both programs
 * name chains by Service port and endpoint, so the names in a chain's rules show where it leads.
 * One chain is read at a time, which costs the same whatever else there is; iptables-save would
 * read everything.
 */
import { openNetfilter } from '../../native/open.ts'
import { encodeListRules } from '../../src/nftables/rule-message.ts'
import { chainHash, endpointChain, serviceChain } from '../../src/modes/iptables/chains/chain-names.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { type Expected, sameSet, type SeenTable } from './table-view.ts'

/** The chain whose rules lead to the chains of Services. */
const SERVICES_CHAIN = 'KUBE-SERVICES'

export class IptablesTable implements SeenTable {
  readonly #netlink = openNetfilter({ timeoutMs: 60_000 })

  close(): void {
    this.#netlink.close()
  }

  async isThere({ port, endpoints }: Expected): Promise<boolean> {
    const wanted = new Set([...endpoints].map((endpoint) => endpointChain(portText(port), endpoint)))
    return sameSet(await this.#endpoints(port), wanted)
  }

  async hasEndpoint({ port }: Expected, endpoint: string): Promise<boolean> {
    return (await this.#endpoints(port)).has(endpointChain(portText(port), endpoint))
  }

  async missing(all: readonly Expected[]): Promise<Expected[]> {
    const led = await this.#services()
    const missing: Expected[] = []
    for (const expected of all)
      if (!led.has(chainOf(expected.port)) || !(await this.isThere(expected))) missing.push(expected)
    return missing
  }

  /** The number of Services whose rule the kernel compares with a packet before that of this one. */
  async rulesBefore({ port }: Expected): Promise<number> {
    const index = [...(await this.#services())].indexOf(chainOf(port))
    if (index === -1) throw new Error(`${SERVICES_CHAIN} has no rule of ${port}`)
    return index
  }

  /** Chains of Service ports in the order of the rules that lead to them. */
  #services(): Promise<Set<string>> {
    return this.#namesInRules(SERVICES_CHAIN, 'KUBE-SVC-')
  }

  #endpoints(port: string): Promise<Set<string>> {
    return this.#namesInRules(chainOf(port), 'KUBE-SEP-')
  }

  /** Names with this prefix in the rules of a chain, in the order of the rules; empty when the chain does not exist. */
  async #namesInRules(chain: string, prefix: string): Promise<Set<string>> {
    const request = new MessageBatch(512)
    encodeListRules(request, { family: 'IPv4', table: 'nat', chain })
    try {
      return new Set((await this.#netlink.dump(request, (message) => namesIn(textOf(message), prefix))).flat())
    } catch (error) {
      // The table or the chain does not exist yet, or is being written.
      if (error instanceof KernelError && error.code === 'ENOENT') return new Set()
      if (error instanceof Error && 'code' in error && error.code === 'netlink-dump-interrupted') return new Set()
      throw error
    }
  }
}

/** The input of the hash in the names of chains. */
const portText = (port: string): string => `${port}tcp`
const chainOf = (port: string): string => serviceChain('SVC', chainHash(portText(port)))

const textOf = ({ bytes, start, end }: ReceivedMessage): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1')

/** Every name with the prefix in a message, where each text ends with a zero byte. */
export function namesIn(message: string, prefix: string): string[] {
  const names: string[] = []
  for (let at = message.indexOf(prefix); at !== -1; ) {
    const zero = message.indexOf('\0', at)
    const end = zero === -1 ? message.length : zero
    names.push(message.slice(at, end))
    at = message.indexOf(prefix, end)
  }
  return names
}
