/** What the answers at the local socket read of the proxy that runs. */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { Fallback } from '../modes/fallback.ts'
import type { Mode } from '../modes/mode.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { FollowedNode } from './followed-node.ts'
import type { PassLog } from './pass-log.ts'
import type { ProxyHealth } from './proxy-health.ts'
import type { Readiness } from './readiness.ts'

/** The parts of a proxy that the answers are about; they are only read. */
export interface Inspected {
  readonly inForce: { readonly configuration: KubeProxyConfiguration }
  readonly mode: Pick<Mode, 'name' | 'firewall' | 'families' | 'drains' | 'outliers'> & {
    readonly sources: {
      readonly tables: readonly Pick<Mode['sources']['tables'][number], 'kind' | 'isKnown' | 'states'>[]
    }
    readonly dataplane: Pick<Mode['dataplane'], 'wanted'>
  }
  /** Why the mode is not the configured one. */
  readonly fallback: Fallback | undefined
  readonly node: Pick<FollowedNode, 'view'>
  readonly desired: DesiredFrontends
  readonly readiness: Pick<Readiness, 'awaited'>
  readonly health: Pick<ProxyHealth, 'state' | 'troubles' | 'isHealthy'>
  readonly problems: Pick<ProblemLog, 'current' | 'count'>
  readonly passLog: Pick<PassLog, 'last'>
}
