/** What a mode wants in the kernel for one Service, for those who explain a Service: the items of its tables by frontend. */
import type { LocalRoute } from '../ipvs/route-diff.ts'
import type { VirtualServer } from '../ipvs/types.ts'
import type { TableId } from '../iptables/types.ts'
import type { FrontendKey } from '../service/frontends.ts'
import type { IpFamily } from '../values/protocol.ts'

export type WantedObject =
  | { readonly kind: 'virtual-server'; readonly frontend: FrontendKey; readonly server: VirtualServer }
  | { readonly kind: 'set-entry'; readonly frontend: FrontendKey; readonly set: string; readonly entry: string }
  /** An address on kube-ipvs0. */
  | { readonly kind: 'address'; readonly frontend: FrontendKey; readonly address: string }
  | { readonly kind: 'route'; readonly frontend: FrontendKey; readonly route: LocalRoute }
  /** A chain of one Service port with all its rules. */
  | {
      readonly kind: 'chain'
      readonly servicePort: string
      readonly family: IpFamily
      readonly table: TableId
      readonly chain: string
      readonly rules: readonly string[]
    }
  /** A rule of a Service port in a chain that all Services share. */
  | {
      readonly kind: 'rule'
      readonly servicePort: string
      readonly family: IpFamily
      readonly table: TableId
      readonly chain: string
      readonly rule: string
    }
