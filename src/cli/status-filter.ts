/** Which part of a status `kube-ipvs status` shows when it is asked for one. */
import type { VirtualServerStatus } from './node-status.ts'
import { serviceOfPort } from '../traffic/rows.ts'
import { parseAddress, parseEndpoint } from '../values/address.ts'
import { CodedError } from '../values/errors.ts'
import { quote } from '../values/quote.ts'
import type { FlagValues } from '../start/flags.ts'
import type { Status } from './node-status.ts'

export interface StatusFilter {
  /** Services as `namespace/name`; empty: all. */
  readonly services: readonly string[]
  /** Of a virtual server, of a node port or of an endpoint; absent: all. */
  readonly address?: string
  /** A pod as `namespace/name`; absent: all. */
  readonly pod?: string
  /** Only what drains. */
  readonly draining: boolean
  /** Only Services with problems and conflicts. */
  readonly problems: boolean
}

const SERVICE = /^[a-z0-9][a-z0-9.-]{0,252}\/[a-z0-9][a-z0-9.-]{0,252}$/

/** Rejects words that are no `namespace/name`, and addresses that are none. */
export function statusFilter(words: readonly string[], flags: FlagValues): StatusFilter {
  for (const word of words)
    if (!SERVICE.test(word)) throw new CodedError('usage', `${quote(word)} is not the NAMESPACE/NAME of a Service`)
  if (flags.pod !== undefined && !SERVICE.test(flags.pod))
    throw new CodedError('usage', `--pod: ${quote(flags.pod)} is not the NAMESPACE/NAME of a pod`)
  const given = flags.address
  const address = given === undefined ? undefined : parseAddress(given)
  if (given !== undefined && address === undefined)
    throw new CodedError('usage', `--address: ${quote(given)} is not an IP address`)
  return {
    services: words,
    ...(address === undefined ? {} : { address }),
    ...(flags.pod === undefined ? {} : { pod: flags.pod }),
    draining: flags.draining === true,
    problems: flags.problems === true,
  }
}

/** Whether a part is asked for, and not everything. */
export function isPartial({ services, address, pod, draining, problems }: StatusFilter): boolean {
  return services.length > 0 || address !== undefined || pod !== undefined || draining || problems
}

/**
 * The part of a status that the filter asks for. What is about the node as a whole stays.
 * @param ofPod the endpoints of the pod of the filter, `10.244.0.1:8080`
 */
export function filterStatus(status: Status, filter: StatusFilter, ofPod: readonly string[] = []): Status {
  if (!isPartial(filter)) return status
  const { ipvs, rules, daemon } = status
  const wanted = filter.services.length === 0 ? undefined : new Set(filter.services)
  const troubled = filter.problems ? troubledServices(status) : undefined
  const isWanted = (servicePort: string | null | undefined): boolean => {
    const name = typeof servicePort === 'string' ? serviceOfPort(servicePort) : ''
    return (wanted === undefined || wanted.has(name)) && (troubled === undefined || troubled.has(name))
  }
  const hasAddress = (keys: readonly string[]): boolean =>
    filter.address === undefined || keys.some((key) => addressOf(key) === filter.address)
  const pods = new Set(ofPod)
  const hasPod = (endpoints: readonly string[]): boolean =>
    filter.pod === undefined || endpoints.some((endpoint) => pods.has(endpoint))
  const isDrained = ({ realServers }: VirtualServerStatus): boolean =>
    !filter.draining || realServers.some(({ draining }) => draining)
  return {
    ...status,
    ipvs: ipvs && {
      ...ipvs,
      virtualServers: ipvs.virtualServers
        .filter((virtual) => isWanted(virtual.service) && isDrained(virtual))
        .filter(({ key, realServers }) => {
          const endpoints = realServers.map((server) => server.key)
          return hasAddress([key, ...endpoints]) && hasPod(endpoints)
        })
        .map((virtual) =>
          filter.draining
            ? { ...virtual, realServers: virtual.realServers.filter(({ draining }) => draining) }
            : virtual,
        ),
    },
    // Iptables mode drains nothing: connections live in connection tracking alone.
    rules:
      rules &&
      rules.filter(
        ({ service, key, endpoints }) =>
          !filter.draining && isWanted(service) && hasAddress([key, ...endpoints]) && hasPod(endpoints),
      ),
    daemon: daemon && {
      ...daemon,
      problems: daemon.problems.filter(
        ({ subject }) => wanted?.has(subject.replace(/^service /, '')) ?? filter.problems,
      ),
      conflicts: daemon.conflicts.filter(
        ({ key, owner, others }) =>
          hasAddress([key]) &&
          (wanted === undefined
            ? filter.problems || filter.address !== undefined
            : [owner, ...others].some((one) => wanted.has(one))),
      ),
    },
  }
}

/** Services with a problem or in a conflict. */
function troubledServices({ daemon }: Status): ReadonlySet<string> {
  const names = new Set<string>()
  for (const { subject } of daemon?.problems ?? [])
    if (subject.startsWith('service ')) names.add(subject.slice('service '.length))
  for (const { owner, others } of daemon?.conflicts ?? []) for (const name of [owner, ...others]) names.add(name)
  return names
}

/** The address of `10.96.0.1:80/tcp` and of `10.244.0.1:8080`. */
function addressOf(key: string): string {
  const slash = key.lastIndexOf('/')
  return parseEndpoint(slash < 0 ? key : key.slice(0, slash)).address
}
