/**
 * Connections of Services in iptables mode, from `iptables-save -c`. A rule of the table nat sees
 * the first packet of each connection only, so the counter of the rule that chooses an endpoint's
 * address is the number of its connections; packets and bytes are counted nowhere. kube-proxy and
 * this program name the Service port in the comment of that rule.
 */
import { optionValues } from '../iptables/rule-parts.ts'
import { saveLines } from '../iptables/save-lines.ts'

export interface EndpointCounter {
  /** `namespace/name:port` */
  readonly servicePort: string
  readonly protocol: string
  /** `10.244.0.1:8080` */
  readonly endpoint: string
  /** Connections that the rule has seen. */
  readonly connections: number
}

const COUNTED = /^\[(\d{1,20}):\d{1,20}\] -A (KUBE-SEP-\S+) ([^]*)$/

/** The endpoints of all Service ports of a family, one for each chain of an endpoint. */
export function endpointCounters(saved: string): readonly EndpointCounter[] {
  const found: EndpointCounter[] = []
  let isNat = false
  for (const line of saveLines(saved)) {
    if (line.startsWith('*')) isNat = line.trim() === '*nat'
    if (!isNat || !line.startsWith('[')) continue
    const [, packets, , rule] = COUNTED.exec(line) ?? []
    if (packets === undefined || rule === undefined) continue
    const options = optionValues(rule)
    const [servicePort = '', protocol, endpoint] = ['--comment', '-p', '--to-destination'].map((name) =>
      options.get(name),
    )
    if (endpoint === undefined || protocol === undefined || !/^\S+\/\S+$/.test(servicePort)) continue
    found.push({ servicePort, protocol, endpoint, connections: Number(packets) })
  }
  return found
}
