/**
 * The answer of a health check port, to the byte what kube-proxy answers: load balancers of clouds read it.
 * What could break: the order and spelling of the headers, the tabs, and that no newline ends the body.
 */
import { type HttpAnswer, jsonAnswer } from './http-answer.ts'
import type { HealthCheck } from './wanted-health-checks.ts'

/**
 * 200 when the Service has a ready endpoint on this node and the proxy itself is healthy, whatever the path and method;
 * else 503. The weight lets a load balancer share connections out by the number of endpoints.
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
