/** What a firewall of nf_tables left in the kernel: its tables, with everything in them. */
import { findNetfilter } from '../../../../native/open.ts'
import { PrivateTables } from '../../../nftables/private-table.ts'
import { NFT_FAMILY, type NftItem, type NftOperation } from '../../../nftables/types.ts'
import { type FrontendKey, parseFrontendKey } from '../../../service/frontends.ts'
import { type Reconciled, reconciled } from '../../../sync/reconciled.ts'
import type { TableIo } from '../../../sync/table.ts'
import { TableSync } from '../../../sync/table-sync.ts'
import { CodedError } from '../../../values/errors.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import type { FirewallRemains } from '../firewall.ts'
import type { NftSetName } from './layout.ts'

/** The sets that have an element for each virtual server. */
const NAMED: readonly NftSetName[] = [
  'cluster-ips',
  'external-ips',
  'external-ips-local',
  'node-ports',
  'node-ports-local',
]

type Tables = TableIo<NftItem, NftOperation>

/** The tables alone, because a table is deleted with everything in it. */
class WholeTables implements Tables {
  readonly kind
  readonly #tables: Tables
  readonly #keys: readonly string[]

  constructor(tables: Tables, families: readonly IpFamily[]) {
    this.kind = tables.kind
    this.#tables = tables
    this.#keys = families.map((family) => NFT_FAMILY[family])
  }

  list(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, NftItem>> {
    return this.#tables.list(keys === 'all' ? this.#keys : keys, signal)
  }

  apply(ops: readonly NftOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    return this.#tables.apply(ops, signal)
  }
}

class TableRemains implements FirewallRemains {
  readonly #tables: Tables
  readonly #families: readonly IpFamily[]
  readonly #close: () => void

  constructor(tables: Tables, families: readonly IpFamily[], close: () => void) {
    this.#tables = tables
    this.#families = families
    this.#close = close
  }

  /** Node ports have an element for each address, so the addresses of the node need not be known. */
  async owned(_: ReadonlySet<string>, signal: AbortSignal): Promise<(key: FrontendKey) => boolean> {
    const items = await this.#tables.list('all', signal)
    return (key) => {
      const { family, address, port, protocol } = parseFrontendKey(key)
      return NAMED.some((set) => items.has(`${NFT_FAMILY[family]} element ${set} ${address} . ${protocol} . ${port}`))
    }
  }

  async isAny(signal: AbortSignal): Promise<boolean> {
    return (await new WholeTables(this.#tables, this.#families).list('all', signal)).size > 0
  }

  removal(): readonly Reconciled[] {
    return [reconciled(new TableSync(new WholeTables(this.#tables, this.#families)))]
  }

  close(): void {
    this.#close()
  }
}

/** Undefined where the kernel has no nf_tables. */
export async function openTableRemains(
  families: readonly IpFamily[],
  signal: AbortSignal,
): Promise<TableRemains | undefined> {
  const netlink = findNetfilter()
  if (netlink === undefined) return undefined
  try {
    const tables = new PrivateTables(netlink, { families })
    await new WholeTables(tables, families).list('all', signal)
    return new TableRemains(tables, families, () => netlink.close())
  } catch (error) {
    netlink.close()
    if (error instanceof CodedError && error.code === 'nftables-missing') return undefined
    throw error
  }
}

/** The kernel may load nf_tables: where it is built in, nothing in /sys says that it is there. */
export async function hasTables(families: readonly IpFamily[], signal: AbortSignal): Promise<boolean> {
  const remains = await openTableRemains(families, signal)
  try {
    return (await remains?.isAny(signal)) === true
  } finally {
    remains?.close()
  }
}
