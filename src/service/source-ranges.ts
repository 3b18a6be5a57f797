/**
 * The sources that may connect to the load balancer VIPs of a Service: its source ranges of one
 * family. A range of length 0 turns off all ranges of its family, as in kube-proxy; a VIP without a
 * range of its family is open to every source.
 */
import type { NodeIps } from './node-context.ts'
import type { Service } from './objects.ts'
import { type Cidr, contains } from '../values/cidr.ts'
import type { Problem } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

/** The source ranges of the VIPs of one family. */
export interface SourceRanges {
  /** Sources that may connect, at least one range. */
  readonly ranges: readonly Cidr[]
  /** Whether one of the ranges contains the node's own IP of the family, so that the node itself may connect. */
  readonly allowsNode: boolean
}

/**
 * Those that restrict the VIPs of this family of a Service; undefined: every source may connect. An
 * unknown node IP is in no range.
 */
export function rangesInForce(sources: readonly Cidr[], family: IpFamily, nodeIps: NodeIps): SourceRanges | undefined {
  const ranges = sources.filter((range) => range.family === family)
  if (ranges.length === 0 || ranges.some(({ prefixLength }) => prefixLength === 0)) return undefined
  const nodeIp = nodeIps[family]
  return { ranges, allowsNode: nodeIp !== undefined && ranges.some((range) => contains(range, nodeIp)) }
}

export function sameSourceRanges(a: SourceRanges | undefined, b: SourceRanges | undefined): boolean {
  if (a === b) return true
  if (a === undefined || b === undefined || a.allowsNode !== b.allowsNode) return false
  return a.ranges.length === b.ranges.length && a.ranges.every((range, index) => isSameRange(range, b.ranges[index]))
}

/** Both are of one family. */
function isSameRange(a: Cidr, b: Cidr | undefined): boolean {
  return a.address === b?.address && a.prefixLength === b.prefixLength
}

/** Reports a range of length 0: users rarely expect that it turns off the other ranges. */
export function sourceRangeProblems(service: Service, ranges: readonly Cidr[]): readonly Problem[] {
  if (ranges.length === 0) return []
  return IP_FAMILIES.flatMap((family) => {
    const zero = ranges.find((range) => range.family === family && range.prefixLength === 0)
    if (zero === undefined) return []
    return {
      code: 'source-ranges-off',
      about: 'object',
      subject: `service ${service.namespace}/${service.name}`,
      field: 'spec.loadBalancerSourceRanges',
      message: `${zero.address}/0 permits every source, so no ${family} range of this Service is enforced`,
    }
  })
}
