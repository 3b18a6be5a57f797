/** What the proxy is made of and whom it tells: everything that differs between the daemon, one pass and a preview. */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { RequestCounts } from '../metrics/request-counts.ts'
import type { VirtualIpGuard } from '../service/virtual-ips.ts'
import type { PassReport } from '../sync/reconciler.ts'
import type { Log } from '../values/log.ts'
import type { Events } from '../events/event-recorder.ts'
import type { ObjectSink, Source } from '../watch/source.ts'
import type { NodeWaits } from './node-presence.ts'
import type { ProxyHealth } from './proxy-health.ts'

export interface ProxyOptions {
  readonly configuration: KubeProxyConfiguration
  readonly nodeName: string
  readonly log: Log
  readonly events?: Events
  /** Absent: Services may have any externalIPs and load-balancer addresses. */
  readonly virtualIps?: VirtualIpGuard
  /** Hears how this proxy fares; absent: nobody asks but health checks of Services. */
  readonly health?: ProxyHealth
  /** Opens the source of objects on this sink. */
  readonly openSource: (sink: ObjectSink) => Source
  /** How long the Node is waited for, where that is not as long as kube-proxy does. */
  readonly nodeWaits?: NodeWaits
  /** False for a source that may have no Node object, which then counts only if it is there. Default true. */
  readonly needsNode?: boolean
  /** Hears of each pass; `complete` when nothing is under way that another pass waits for. */
  readonly onPass?: (report: PassReport, complete: boolean) => void
  /** Requests to the API server, counted by whoever makes them. */
  readonly requests?: RequestCounts
}
