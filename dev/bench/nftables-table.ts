/**
 * Reads what kube-proxy's nftables mode (1.36) writes: a map from ClusterIPs to the chain of each Service port, and in that chain one rule
 * with a map from a random number to the address and port of an endpoint. Session affinity would need other rules, and is not read.
 */
import { chainHash } from '../../src/modes/iptables/chains/chain-names.ts'
import { NftReader } from './nft-reader.ts'
import { type Expected, sameSet, type SeenTable } from './table-view.ts'

const TABLE = 'kube-proxy'
const SERVICES_MAP = 'service-ips'
/** The kernel numbers the maps that are part of a rule: `__map7`. */
const MAP_OF_RULE = '__map'

export class NftablesTable implements SeenTable {
  readonly #nft = new NftReader(TABLE)

  close(): void {
    this.#nft.close()
  }

  async isThere({ port, endpoints }: Expected): Promise<boolean> {
    return sameSet(await this.#endpoints(port), endpoints)
  }

  async hasEndpoint({ port }: Expected, endpoint: string): Promise<boolean> {
    return (await this.#endpoints(port)).has(endpoint)
  }

  async missing(all: readonly Expected[]): Promise<Expected[]> {
    const led = await this.#nft.namesInElements(SERVICES_MAP, 'service-')
    const missing: Expected[] = []
    for (const expected of all)
      if (!led.has(nftServiceChain(expected.port)) || !(await this.isThere(expected))) missing.push(expected)
    return missing
  }

  /** `10.244.0.1:8080` */
  async #endpoints(port: string): Promise<Set<string>> {
    const [map] = await this.#nft.namesInRules(nftServiceChain(port), MAP_OF_RULE)
    if (map === undefined) return new Set()
    return new Set((await this.#nft.valuesInElements(map)).map(nftEndpoint))
  }
}

const HASH_LENGTH = 8

/** The chain of a Service port (`bench-0/service-1:http`) over TCP: `service-HASH-bench-0/service-1/tcp/http`. */
export function nftServiceChain(port: string): string {
  const colon = port.lastIndexOf(':')
  const name = `${port.slice(0, colon)}/tcp/${port.slice(colon + 1)}`
  return `service-${chainHash(name).slice(0, HASH_LENGTH)}-${name}`
}

/** An endpoint (`10.0.0.1:8080`) as a map has it: an IPv4 address and a port, each in network order and in four bytes. */
export function nftEndpoint(value: Buffer): string {
  return `${value.subarray(0, 4).join('.')}:${value.readUInt16BE(4)}`
}
