/**
 * Which source ranges of a Service guard its load balancer VIPs of one family.
 * What could break: a range of length 0 switches all ranges of its family off, as in kube-proxy; a VIP without a range
 * of its own family has no firewall at all.
 */
import type { NodeIps } from './node-context.ts'
import type { Service } from './objects.ts'
import { type Cidr, contains, parseCidr } from '../values/cidr.ts'
import type { Problem } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

const NONE: readonly Cidr[] = []

/** The ranges that count for VIPs of this family; none: everybody may connect. */
export function sourceRangesOf(service: Service, family: IpFamily): readonly Cidr[] {
  if (service.sourceRanges.length === 0) return NONE
  const ranges: Cidr[] = []
  for (const text of service.sourceRanges) {
    const range = parseCidr(text)
    if (range === undefined || range.family !== family) continue
    if (range.prefixLength === 0) return NONE
    ranges.push(range)
  }
  return ranges
}

/** Whether one of the ranges holds the node's own IP of their family: then the node itself may connect. */
export function allowsNode(ranges: readonly Cidr[], nodeIps: NodeIps): boolean {
  return ranges.some((range) => {
    const nodeIp = nodeIps[range.family]
    return nodeIp !== undefined && contains(range, nodeIp)
  })
}

/** A range of length 0 beside others is rarely meant as what it does, so it is reported. */
export function sourceRangeProblems(service: Service): readonly Problem[] {
  if (service.sourceRanges.length === 0) return []
  const ranges = service.sourceRanges.flatMap((text) => parseCidr(text) ?? [])
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
