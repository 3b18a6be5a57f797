/** A kernel object of a Service, compared with what the kernel has: what `--output json` prints of it. */
import type { ServiceTable } from '../../explain/wanted.ts'
import type { SettingsInWords } from '../../ipvs/text.ts'
import type { VirtualServerTraffic } from '../../modes/look/live-tables.ts'
import type { SERVICE_TABLES } from '../../modes/look/service-tables.ts'
import type { FrontendKey } from '../../service/frontends.ts'

/**
 * `present`: as wanted. `differs`: it is there with other contents. `extra`: nothing wants it.
 * `unknown`: the kernel was not read, or what is wanted is not known.
 */
export type ObjectState = 'present' | 'missing' | 'differs' | 'extra' | 'unknown'

export interface ExplainedRealServer {
  readonly key: string
  readonly weight: number
  readonly forwarding: string
  /** null: it is not in the kernel. */
  readonly activeConnections: number | null
  readonly inactiveConnections: number | null
  /** Connections that it may have; 0: no limit. */
  readonly maxConnections: number
  /** `suspect`: it is wanted with weight 0, because it does not answer. */
  readonly state: ObjectState | 'draining' | 'suspect'
}

export interface ExplainedObject {
  readonly kind: (typeof SERVICE_TABLES)[ServiceTable]['kind'] | 'rule'
  /** The frontend that needs it; null: the Service port as a whole. */
  readonly frontend: FrontendKey | null
  /** `10.96.0.1,tcp:80`, a rule, the name of a chain: what an operator would look for. */
  readonly name: string
  /** Where it is: `KUBE-CLUSTER-IP`, `nat KUBE-SERVICES`, `kube-ipvs0`; '' where the kind says it. */
  readonly place: string
  readonly state: ObjectState
  /** What follows for traffic; '' when it is as wanted. */
  readonly means: string
  /** What makes it as wanted. */
  readonly commands: readonly string[]
  readonly virtualServer?: SettingsInWords & {
    readonly realServers: readonly ExplainedRealServer[]
    /** null: it is not in the kernel. */
    readonly traffic: VirtualServerTraffic | null
  }
  /** Rules of a chain. */
  readonly rules?: readonly string[]
}
