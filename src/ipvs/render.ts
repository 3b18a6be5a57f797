/**
 * Frontends rendered to virtual servers. Every field is compared with what the kernel lists, so it must be the value that the
 * kernel returns after the write. Endpoints are already in the order of real servers (compareRealServers).
 */
import type { AddressFrontend } from '../service/frontends.ts'
import { FLAG_PERSISTENT, FLAG_SCHED_1, FLAG_SCHED_2, type RealServer, type VirtualServer } from './types.ts'

/** Weight of every wanted real server. */
const WEIGHT = 1

/**
 * Flags that a scheduler needs so that a draining real server (weight 0) refuses no new connection: `sh` and `mh` choose
 * another server when the hashed one has weight 0 (IP_VS_SVC_F_SCHED_SH_FALLBACK, IP_VS_SVC_F_SCHED_MH_FALLBACK). `mh` also
 * hashes the source port, as in kube-proxy (IP_VS_SVC_F_SCHED_MH_PORT).
 */
function schedulerFlags(scheduler: string): number {
  switch (scheduler) {
    case 'sh':
      return FLAG_SCHED_1
    case 'mh':
      return FLAG_SCHED_1 | FLAG_SCHED_2
    default:
      return 0
  }
}

/** The virtual server of one frontend. Its real servers are the endpoints this node may use. */
export function renderVirtualServer(frontend: AddressFrontend, scheduler: string): VirtualServer {
  const { address, port, selection, servicePort } = frontend
  const { family, protocol, service } = servicePort
  return {
    family,
    address,
    port,
    protocol,
    scheduler,
    flags: schedulerFlags(scheduler) | (service.affinityTimeoutSeconds > 0 ? FLAG_PERSISTENT : 0),
    timeoutSeconds: service.affinityTimeoutSeconds,
    netmask: family === 'IPv4' ? 0xffffffff : 128,
    persistenceEngine: '',
    realServers: selection.endpoints.map(renderRealServer),
  }
}

function renderRealServer(endpoint: { readonly address: string; readonly port: number }): RealServer {
  const { address, port } = endpoint
  return { address, port, weight: WEIGHT, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 }
}
