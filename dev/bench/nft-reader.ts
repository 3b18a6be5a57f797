/**
 * Reads names out of nf_tables, one chain or one set at a time, which costs the same whatever else there is; iptables-save and nft list
 * would read everything.
 */
import { openNetfilter } from '../../native/open.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import type { NetlinkConnection } from '../../src/netlink/connection.ts'
import { NLM_F_DUMP } from '../../src/netlink/constants.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { beginNetfilter, netfilterAttributes, NFNL_SUBSYS } from '../../src/netlink/nfnetlink-codec.ts'

/** Messages and the attributes that select what they list, from linux/netfilter/nf_tables.h. */
const RULES = { type: 7, name: 'NFT_MSG_GETRULE', table: 1, of: 2 } as const
const ELEMENTS = { type: 13, name: 'NFT_MSG_GETSETELEM', table: 1, of: 2 } as const
const NFT_MSG_NEWSETELEM = 12
const NFTA_SET_ELEM_LIST_ELEMENTS = 3
const NFTA_SET_ELEM_DATA = 2
const NFTA_DATA_VALUE = 1

export class NftReader {
  readonly #netlink: NetlinkConnection = openNetfilter({ timeoutMs: 60_000 })
  readonly #table: string

  /** @param table the name of an IPv4 table */
  constructor(table: string) {
    this.#table = table
  }

  close(): void {
    this.#netlink.close()
  }

  /** Names with this prefix in the rules of a chain, in the order of the rules; empty when the chain does not exist. */
  async namesInRules(chain: string, prefix: string): Promise<Set<string>> {
    return new Set((await this.#list(RULES, chain, (message) => namesIn(textOf(message), prefix))).flat())
  }

  /** Names with this prefix in the elements of a set or map; empty when it does not exist. */
  async namesInElements(set: string, prefix: string): Promise<Set<string>> {
    return new Set((await this.#list(ELEMENTS, set, (message) => namesIn(textOf(message), prefix))).flat())
  }

  /** What a map leads to, as the kernel stores it; empty when it does not exist. */
  async valuesInElements(map: string): Promise<Buffer[]> {
    return (await this.#list(ELEMENTS, map, valuesIn)).flat()
  }

  async #list<T>(
    listed: typeof RULES | typeof ELEMENTS,
    of: string,
    decode: (message: ReceivedMessage) => T,
  ): Promise<T[]> {
    const request = new MessageBatch(512)
    beginNetfilter(request, NFNL_SUBSYS.NFTABLES, listed.type, NLM_F_DUMP, listed.name, 'IPv4')
    request.string(listed.table, this.#table)
    request.string(listed.of, of)
    request.end()
    try {
      return await this.#netlink.dump(request, decode)
    } catch (error) {
      // The table or the chain does not exist yet, or is being written.
      if (error instanceof KernelError && error.code === 'ENOENT') return []
      if (isInterrupted(error)) return []
      throw error
    }
  }
}

const textOf = ({ bytes, start, end }: ReceivedMessage): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1')

/** The values of the elements in one message. */
function valuesIn(message: ReceivedMessage): Buffer[] {
  const values: Buffer[] = []
  const list = netfilterAttributes(message, NFNL_SUBSYS.NFTABLES, NFT_MSG_NEWSETELEM, ELEMENTS.name)
  while (list.next()) {
    if (list.type !== NFTA_SET_ELEM_LIST_ELEMENTS) continue
    for (const elements = list.nested(); elements.next(); )
      for (const element = elements.nested(); element.next(); ) {
        if (element.type !== NFTA_SET_ELEM_DATA) continue
        for (const data = element.nested(); data.next(); )
          if (data.type === NFTA_DATA_VALUE)
            values.push(Buffer.from(data.bytes.slice(data.offset, data.offset + data.length)))
      }
  }
  return values
}

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

function isInterrupted(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'netlink-dump-interrupted'
}
