/**
 * Reports Services whose source ranges the kernel refuses: their new addresses get no virtual server,
 * and everybody who may write a Service can cause that. Only so many are looked at in one pass.
 */
import { type NftItem, nftKey, type NftOperation } from '../../../nftables/types.ts'
import type { TableSync } from '../../../sync/table-sync.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { CodedError } from '../../../values/errors.ts'
import type { FirewallOptions } from '../firewall.ts'
import { RANGES } from './layout.ts'

/** The most failing items that are looked at in one pass. */
const LOOKS = 200

interface Failed {
  readonly error: Error
  /** Whether the kernel has the chain of the Service, perhaps with earlier ranges. */
  readonly isThere: boolean
}

type Failing = Pick<TableSync<NftItem, NftOperation>, 'failures' | 'failing' | 'desired' | 'live'>

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
    for (const [service, { error, isThere }] of found) {
      const effect = isThere
        ? 'load-balancer addresses keep the ranges that they had, and new ones take no packets'
        : 'load-balancer addresses take no packets'
      this.#problems.report('nftables', service, [
        {
          code: error instanceof CodedError ? error.code : 'nftables-refused',
          about: 'object',
          subject: `service ${service}`,
          field: 'spec.loadBalancerSourceRanges',
          message: `the kernel refuses the source ranges, so the ${effect}: ${error.message}`,
        },
      ])
    }
    for (const service of this.#reported) if (!found.has(service)) this.#problems.report('nftables', service, [])
    this.#reported = new Set(found.keys())
  }

  #failed(taken: ReadonlyMap<IpFamily, unknown>): ReadonlyMap<string, Failed> {
    const found = new Map<string, Failed>()
    if (this.#sync.failures.wantedCount === 0) return found
    let looks = 0
    for (const [key, error] of this.#sync.failing()) {
      const item = this.#sync.desired(key)
      const name = item === undefined || taken.has(item.family) ? undefined : chainOf(item)
      if (item !== undefined && name?.startsWith(RANGES) === true) {
        const { family } = item
        const isThere = this.#sync.live(nftKey({ kind: 'chain', family, name, rules: [] })) !== undefined
        found.set(name.slice(RANGES.length), { error, isThere })
      }
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
