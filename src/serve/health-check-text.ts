/**
 * The answer of a health check port, to the byte what kube-proxy answers: load balancers of clouds read it.
 * What could break: the order and spelling of the headers, the tabs, and that no newline ends the body.
 */
import type { HealthCheck } from './wanted-health-checks.ts'

export interface HealthCheckAnswer {
  /** 200 or 503 */
  readonly status: number
  /** Names with their values, in the order in which they are sent. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

/**
 * 200 when the Service has a ready endpoint on this node and the proxy itself is healthy, whatever the path and method;
 * else 503. The weight lets a load balancer share connections out by the number of endpoints.
 */
export function formatHealthCheck(check: HealthCheck, proxyHealthy: boolean): HealthCheckAnswer {
  const { namespace, name, localEndpoints } = check
  const body = JSON.stringify(
    { service: { namespace, name }, localEndpoints, serviceProxyHealthy: proxyHealthy },
    null,
    '\t',
  )
  return {
    status: localEndpoints > 0 && proxyHealthy ? 200 : 503,
    headers: [
      ['Content-Type', 'application/json'],
      ['X-Content-Type-Options', 'nosniff'],
      ['X-Load-Balancing-Endpoint-Weight', String(localEndpoints)],
    ],
    body,
  }
}
