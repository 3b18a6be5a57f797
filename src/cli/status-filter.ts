/** Which virtual servers and addresses `kube-ipvs status` shows when it is asked for a part of them. */
import { CodedError } from '../values/errors.ts'
import { quote } from '../values/quote.ts'
import type { Status } from './status.ts'

export interface StatusFilter {
  /** Services as `namespace/name`; empty: all. */
  readonly services: readonly string[]
}

const SERVICE = /^[a-z0-9][a-z0-9.-]{0,252}\/[a-z0-9][a-z0-9.-]{0,252}$/

/** Rejects words that are no `namespace/name`. */
export function statusFilter(words: readonly string[]): StatusFilter {
  for (const word of words)
    if (!SERVICE.test(word)) throw new CodedError('usage', `${quote(word)} is not the NAMESPACE/NAME of a Service`)
  return { services: words }
}

/** `demo/web` of the Service port `demo/web:http`. */
export function serviceOf(servicePort: string): string {
  const colon = servicePort.indexOf(':')
  return colon < 0 ? servicePort : servicePort.slice(0, colon)
}

/** The part of a status that the filter asks for; the summary's numbers are then of that part. */
export function filterStatus(status: Status, { services }: StatusFilter): Status {
  if (services.length === 0) return status
  const wanted = new Set(services)
  const isWanted = (servicePort: string | null | undefined): boolean =>
    typeof servicePort === 'string' && wanted.has(serviceOf(servicePort))
  const { ipvs, rules } = status
  return {
    ...status,
    ipvs: ipvs && { ...ipvs, virtualServers: ipvs.virtualServers.filter(({ service }) => isWanted(service)) },
    rules: rules && rules.filter(({ service }) => isWanted(service)),
  }
}
