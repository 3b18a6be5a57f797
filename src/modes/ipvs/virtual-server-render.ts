/** The virtual server of a frontend, under the scheduler that is in force for it. */
import { schedulerFlags, schedulerWeights } from '../../ipvs/scheduler.ts'
import { FLAG_PERSISTENT, FLAG_SCHED_1, type RealServer, type VirtualServer } from '../../ipvs/types.ts'
import { goesElsewhere } from '../../service/annotations.ts'
import type { AddressFrontend } from '../../service/frontends.ts'
import { weightsOf } from '../../service/service-port.ts'
import { DEFAULT_WEIGHT, isGradual, slowStartFactor, usesWeights } from '../../service/weights.ts'
import type { IpFamily } from '../../values/protocol.ts'

/**
 * How long new endpoints of a frontend start, in milliseconds; undefined: its Service or the
 * scheduler in force knows no slow start.
 */
export function slowStartOf({ servicePort }: AddressFrontend, scheduler: string): number | undefined {
  return isGradual(scheduler) ? servicePort.choices.slowStartMs : undefined
}

/**
 * Whether real servers of a frontend that do not answer get no new connections for a while.
 * @param byDefault for a Service that does not choose
 */
export function judgesOutliers(
  { servicePort: { protocol, choices } }: AddressFrontend,
  { scheduler, flags }: Pick<VirtualServer, 'scheduler' | 'flags'>,
  byDefault: boolean,
): boolean {
  const isWanted = choices.outlierDetection ?? byDefault
  return isWanted && protocol !== 'sctp' && goesElsewhere(scheduler, (flags & FLAG_SCHED_1) !== 0)
}

/**
 * The virtual server of one frontend, with the full weight of each real server. Its real servers
 * are the endpoints that this node may use, already in the order of compareRealServers. Every field
 * is compared with what the kernel lists, so it has the value that the kernel returns after the
 * write. A scheduler that is not the chosen one has its own flags.
 */
export function renderVirtualServer(frontend: AddressFrontend, scheduler: string): VirtualServer {
  const { address, port, selection, servicePort } = frontend
  const { family, protocol, service, choices } = servicePort
  const { affinityTimeoutSeconds: timeoutSeconds } = service
  const isChosen = choices.scheduler === undefined || choices.scheduler.name === scheduler
  const prefixLength = (timeoutSeconds > 0 && choices.affinityPrefixLength?.[family]) || FULL_LENGTH[family]
  const upperThreshold = choices.maxConnections ?? 0
  const chosen = usesWeights(scheduler) ? weightsOf(servicePort, selection) : undefined
  const weights = chosen && schedulerWeights(scheduler, chosen)
  const factor = slowStartOf(frontend, scheduler) === undefined ? 1 : slowStartFactor(choices.weights)
  return {
    family,
    address,
    port,
    protocol,
    scheduler,
    flags:
      schedulerFlags(scheduler, isChosen ? choices.hashFlags : undefined) | (timeoutSeconds > 0 ? FLAG_PERSISTENT : 0),
    timeoutSeconds,
    netmask: family === 'IPv4' ? (-1 << (32 - prefixLength)) >>> 0 : prefixLength,
    persistenceEngine: '',
    realServers: selection.endpoints.map((endpoint, index) =>
      renderRealServer(endpoint, factor * (weights?.[index] ?? DEFAULT_WEIGHT), upperThreshold),
    ),
  }
}

const FULL_LENGTH: Readonly<Record<IpFamily, number>> = { IPv4: 32, IPv6: 128 }

/** With the lower threshold 0 the kernel uses three quarters of the upper one (ip_vs_unbind_dest). */
function renderRealServer({ address, port }: RealServerAddress, weight: number, upperThreshold: number): RealServer {
  return { address, port, weight, forwarding: 'masquerade', upperThreshold, lowerThreshold: 0 }
}

type RealServerAddress = Pick<RealServer, 'address' | 'port'>
