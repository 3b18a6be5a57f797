/**
 * Answers of the health port and of the health check ports of Services, byte for byte those of
 * kube-proxy, because kubelet and load balancers of clouds parse them. /healthz says whether the
 * node should get traffic, /livez whether this program works. /livez ignores the Node: otherwise
 * kubelet would restart the proxy of every node that is about to be removed.
 */
import type { IpFamily } from '../values/protocol.ts'
import { cleanPath, type HttpAnswer, jsonAnswer, NOT_FOUND, redirectAnswer } from './http-answer.ts'
import type { HealthCheck } from './wanted-health-checks.ts'

/** The health of one IP family. */
export interface FamilyHealth {
  /** When the kernel was last known to have the desired state, in milliseconds since the epoch. */
  readonly lastUpdatedMs: number
  readonly healthy: boolean
}

/** What /healthz and /livez report. */
export interface HealthState {
  /** The Node exists, is not being deleted and will not be removed by the cluster autoscaler. */
  readonly nodeEligible: boolean
  /** The IP families of this node, IPv4 first. */
  readonly families: ReadonlyMap<IpFamily, FamilyHealth>
}

export type HealthPath = '/healthz' | '/livez'

/** Whether every IP family is healthy, as /livez and the health check ports of Services report. */
function isLive({ families }: HealthState): boolean {
  for (const { healthy } of families.values()) if (!healthy) return false
  return true
}

/** @param nowMs time of the request, in milliseconds since the epoch */
function formatHealth(path: HealthPath, state: HealthState, nowMs: number): HttpAnswer {
  const healthy = isLive(state)
  const ok = healthy && (path === '/livez' || state.nodeEligible)
  const updates = Array.from(state.families.values(), ({ lastUpdatedMs }) => lastUpdatedMs)
  const status: Record<string, unknown> = {}
  for (const [family, { lastUpdatedMs, healthy: isHealthy }] of state.families)
    status[family] = { lastUpdated: formatTime(lastUpdatedMs), healthy: isHealthy }
  const body = {
    lastUpdated: formatTime(ok ? nowMs : Math.max(...updates)),
    currentTime: formatTime(nowMs),
    ...(path === '/healthz' ? { nodeEligible: state.nodeEligible } : {}),
    healthy,
    ...(updates.length === 0 ? {} : { status }),
  }
  return jsonAnswer(JSON.stringify(body), ok ? 200 : 503)
}

/** Where the health port gets its answers from. */
export interface HealthPort {
  readonly state: () => HealthState
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Called for each answer of the two paths (proxy_healthz_total, proxy_livez_total). */
  readonly onAnswer?: (path: HealthPath, status: number) => void
}

/**
 * The method does not matter. A path with `//` or dots is redirected to its short form, as in Go;
 * other paths are 404.
 */
export function answerHealth(port: HealthPort, method: string, path: string, query: string): HttpAnswer {
  const short = cleanPath(path)
  if (path !== '' && short !== path)
    return redirectAnswer(method, 307, encodeURI(short) + (query === '' ? '' : `?${query}`))
  if (path !== '/healthz' && path !== '/livez') return NOT_FOUND
  const answer = formatHealth(path, port.state(), port.clock())
  port.onAnswer?.(path, answer.status)
  return answer
}

/**
 * The answer of the health check port of a Service: 200 if the Service has a ready endpoint on this
 * node and the proxy is healthy, otherwise 503, for every path and method. Load balancers may
 * distribute connections by the weight in the header.
 */
export function formatHealthCheck(check: HealthCheck, proxyHealthy: boolean): HttpAnswer {
  const { namespace, name, localEndpoints } = check
  const body = JSON.stringify(
    { service: { namespace, name }, localEndpoints, serviceProxyHealthy: proxyHealthy },
    null,
    '\t',
  )
  return jsonAnswer(body, localEndpoints > 0 && proxyHealthy ? 200 : 503, [
    ['X-Load-Balancing-Endpoint-Weight', String(localEndpoints)],
  ])
}

/** RFC 3339 as Go prints it: without trailing zeros of the fraction. In UTC, whatever the time zone of the host. */
export function formatTime(ms: number): string {
  if (!Number.isFinite(ms)) return '0001-01-01T00:00:00Z'
  return new Date(ms).toISOString().replace(/\.?0*Z$/, 'Z')
}
