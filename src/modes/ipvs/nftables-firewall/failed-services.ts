/**
 * Reports Services whose source ranges the kernel refuses: their addresses get no virtual server,
 * and everybody who may write a Service can cause that. Only so many are looked at in one pass.
 */
import type { NftItem, NftOperation } from '../../../nftables/types.ts'
import type { TableSync } from '../../../sync/table-sync.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { CodedError } from '../../../values/errors.ts'
import type { FirewallOptions } from '../firewall.ts'
import { RANGES } from './layout.ts'

/** The most failing items that are looked at in one pass. */
const LOOKS = 200

type Failing = Pick<TableSync<NftItem, NftOperation>, 'failures' | 'failing' | 'desired'>

export class FailedServices {
  readonly #sync: Failing
  readonly #problems: FirewallOptions['problems']
  #reported: ReadonlySet<string> = new Set()

  constructor(sync: Failing, problems: FirewallOptions['problems']) {
    this.#sync = sync
    this.#problems = problems
  }

  /** A pass has tried everything that was due. @param taken families whose table another process writes */
  report(taken: ReadonlyMap<IpFamily, unknown>): void {
    const found = this.#failed(taken)
    for (const [service, error] of found)
      this.#problems.report('nftables', service, [
        {
          code: error instanceof CodedError ? error.code : 'nftables-refused',
          about: 'object',
          subject: `service ${service}`,
          field: 'spec.loadBalancerSourceRanges',
          message: `the kernel refuses the source ranges, so the load-balancer addresses take no new connections: ${error.message}`,
        },
      ])
    for (const service of this.#reported) if (!found.has(service)) this.#problems.report('nftables', service, [])
    this.#reported = new Set(found.keys())
  }

  #failed(taken: ReadonlyMap<IpFamily, unknown>): ReadonlyMap<string, Error> {
    const found = new Map<string, Error>()
    if (this.#sync.failures.wantedCount === 0) return found
    let looks = 0
    for (const [key, error] of this.#sync.failing()) {
      const item = this.#sync.desired(key)
      const chain = item === undefined || taken.has(item.family) ? undefined : chainOf(item)
      if (chain?.startsWith(RANGES) === true) found.set(chain.slice(RANGES.length), error)
      if (++looks >= LOOKS) break
    }
    return found
  }
}

/** The chain that the item is, or leads to. */
function chainOf(item: NftItem): string | undefined {
  if (item.kind === 'chain') return item.name
  const action = item.kind === 'element' ? item.action : undefined
  return action !== undefined && 'chain' in action ? action.chain : undefined
}
