/**
 * The sources that may connect to the load balancer VIPs of a Service: its source ranges of one family. A range of length 0 turns off all ranges
 * of its family, as in kube-proxy; a VIP without a range of its own family has no firewall.
 */
import type { NodeIps } from './node-context.ts'
import type { Service } from './objects.ts'
import { type Cidr, contains, formatCidr, parseCidr, parseCidrs } from '../values/cidr.ts'
import type { Problem } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

/** The source ranges of the VIPs of one family. */
export interface Firewall {
  /** Sources that may connect, at least one range. */
  readonly ranges: readonly Cidr[]
  /** Whether one of the ranges contains the node's own IP of the family, so that the node itself may connect. */
  readonly allowsNode: boolean
}

/** The firewall of the Service's VIPs of this family; undefined: every source may connect. An unknown node IP is in no range. */
export function firewallOf(service: Service, family: IpFamily, nodeIps: NodeIps): Firewall | undefined {
  if (service.sourceRanges.length === 0) return undefined
  const ranges: Cidr[] = []
  for (const text of service.sourceRanges) {
    const range = parseCidr(text)
    if (range === undefined || range.family !== family) continue
    if (range.prefixLength === 0) return undefined
    ranges.push(range)
  }
  if (ranges.length === 0) return undefined
  const nodeIp = nodeIps[family]
  return { ranges, allowsNode: nodeIp !== undefined && ranges.some((range) => contains(range, nodeIp)) }
}

export function sameFirewall(a: Firewall | undefined, b: Firewall | undefined): boolean {
  if (a === b) return true
  if (a === undefined || b === undefined || a.allowsNode !== b.allowsNode) return false
  return a.ranges.map(formatCidr).join() === b.ranges.map(formatCidr).join()
}

/** Reports a range of length 0: users rarely expect that it turns off the other ranges. */
export function sourceRangeProblems(service: Service): readonly Problem[] {
  if (service.sourceRanges.length === 0) return []
  const ranges = parseCidrs(service.sourceRanges)
  return IP_FAMILIES.flatMap((family) => {
    const zero = ranges.find((range) => range.family === family && range.prefixLength === 0)
    if (zero === undefined) return []
    return {
      code: 'source-ranges-off',
      subject: `service ${service.namespace}/${service.name}`,
      field: 'spec.loadBalancerSourceRanges',
      message: `${zero.address}/0 permits every source, so no ${family} range of this Service is enforced`,
    }
  })
}
