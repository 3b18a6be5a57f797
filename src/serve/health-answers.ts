/**
 * The health port: /healthz says whether this node should get traffic, /livez whether this program works. To the byte what
 * kube-proxy answers: probes of clouds and of kubelet read it.
 * What could break: only /healthz knows the Node; if /livez did, every proxy on a node that goes would be restarted.
 */
import type { IpFamily } from '../values/protocol.ts'
import { cleanPath, type HttpAnswer, jsonAnswer, NOT_FOUND, redirectAnswer } from './http-answer.ts'

/** How one family fares; times in milliseconds since the epoch. */
export interface FamilyHealth {
  /** When the kernel was last seen to hold what it should. */
  readonly lastUpdatedMs: number
  readonly healthy: boolean
}

export interface HealthState {
  /** The Node is there, stays there, and is not about to be taken out of the cluster. */
  readonly nodeEligible: boolean
  /** Families this node has, IPv4 first. */
  readonly families: ReadonlyMap<IpFamily, FamilyHealth>
}

export type HealthPath = '/healthz' | '/livez'

/** Whether every family is well: what /livez and the health check ports of Services say. */
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
  for (const [family, { lastUpdatedMs, healthy: well }] of state.families)
    status[family] = { lastUpdated: formatTime(lastUpdatedMs), healthy: well }
  const body = {
    lastUpdated: formatTime(ok ? nowMs : Math.max(...updates)),
    currentTime: formatTime(nowMs),
    ...(path === '/healthz' ? { nodeEligible: state.nodeEligible } : {}),
    healthy,
    ...(updates.length === 0 ? {} : { status }),
  }
  return jsonAnswer(JSON.stringify(body), ok ? 200 : 503)
}

export interface HealthPort {
  readonly state: () => HealthState
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Hears of each answer of the two paths (proxy_healthz_total, proxy_livez_total). */
  readonly onAnswer?: (path: HealthPath, status: number) => void
}

/** Every method is answered alike; other paths are not there, and a path in a long form is sent to the short one. */
export function answerHealth(port: HealthPort, method: string, path: string, query: string): HttpAnswer {
  const short = cleanPath(path)
  if (path !== '' && short !== path)
    return redirectAnswer(method, 307, encodeURI(short) + (query === '' ? '' : `?${query}`))
  if (path !== '/healthz' && path !== '/livez') return NOT_FOUND
  const answer = formatHealth(path, port.state(), port.clock())
  port.onAnswer?.(path, answer.status)
  return answer
}

/** RFC 3339 as Go prints it: fractions without zeros at their end. In UTC, whatever the zone of the host. */
export function formatTime(ms: number): string {
  if (!Number.isFinite(ms)) return '0001-01-01T00:00:00Z'
  return new Date(ms).toISOString().replace(/\.?0*Z$/, 'Z')
}
