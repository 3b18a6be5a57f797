/**
 * How much the kernel has to write when a frontend changes: it takes longer than to find out what
 * changes, and nobody else is written meanwhile.
 */
import { compareEndpoints, type Endpoint } from '../service/endpoints.ts'
import type { Frontend } from '../service/frontends.ts'
import { weightsOf } from '../service/service-port.ts'

/**
 * The items that the kernel gets, changes or loses: a virtual server, its real servers, and an
 * entry for each source range.
 */
export function writtenItems(before: Frontend | undefined, after: Frontend | undefined): number {
  if (before === undefined || after === undefined) return itemsOf(before) + itemsOf(after)
  const [was, is] = [before.servicePort, after.servicePort]
  if (was.choices !== is.choices || rangesOf(before) !== rangesOf(after)) return itemsOf(before) + itemsOf(after)
  return 1 + differing(serversOf(before), serversOf(after))
}

function itemsOf(frontend: Frontend | undefined): number {
  return frontend === undefined ? 0 : 1 + frontend.selection.endpoints.length + rangesOf(frontend)
}

function rangesOf({ firewall }: Frontend): number {
  return firewall?.ranges.length ?? 0
}

interface Servers {
  readonly endpoints: readonly Endpoint[]
  readonly weights: readonly number[] | undefined
}

function serversOf({ servicePort, selection }: Frontend): Servers {
  return { endpoints: selection.endpoints, weights: weightsOf(servicePort, selection) }
}

/** How many endpoints are in only one of two lists, which are sorted, or have another weight in the other. */
function differing(some: Servers, others: Servers): number {
  if (some.endpoints === others.endpoints && some.weights === others.weights) return 0
  let [at, common, reweighted] = [0, 0, 0]
  for (const [index, endpoint] of others.endpoints.entries()) {
    let order = compareAt(some.endpoints, at, endpoint)
    while (order < 0) order = compareAt(some.endpoints, ++at, endpoint)
    if (order !== 0) continue
    common++
    if (some.weights?.[at] !== others.weights?.[index]) reweighted++
  }
  return some.endpoints.length + others.endpoints.length - 2 * common + reweighted
}

function compareAt(endpoints: readonly Endpoint[], at: number, endpoint: Endpoint): number {
  const there = endpoints[at]
  return there === undefined ? 1 : compareEndpoints(there, endpoint)
}
