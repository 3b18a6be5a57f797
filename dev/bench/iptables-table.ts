/**
 * Reads what iptables mode writes: the chains of each Service port in the table nat. Both programs name chains by Service port and
 * endpoint, so the names in a chain's rules show where it leads.
 */
import { chainHash, endpointChain, serviceChain } from '../../src/modes/iptables/chains/chain-names.ts'
import { NftReader } from './nft-reader.ts'
import { type Expected, sameSet, type SeenTable } from './table-view.ts'

/** The chain whose rules lead to the chains of Services. */
const SERVICES_CHAIN = 'KUBE-SERVICES'

export class IptablesTable implements SeenTable {
  readonly #nat = new NftReader('nat')

  close(): void {
    this.#nat.close()
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
    return this.#nat.namesInRules(SERVICES_CHAIN, 'KUBE-SVC-')
  }

  #endpoints(port: string): Promise<Set<string>> {
    return this.#nat.namesInRules(chainOf(port), 'KUBE-SEP-')
  }
}

/** The input of the hash in the names of chains. */
const portText = (port: string): string => `${port}tcp`
const chainOf = (port: string): string => serviceChain('SVC', chainHash(portText(port)))
