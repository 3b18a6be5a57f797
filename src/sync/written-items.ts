/**
 * How much the kernel has to write when a frontend changes: it takes longer than to find out what
 * changes, and nobody else is written meanwhile.
 */
import { compareEndpoints, type Endpoint } from '../service/endpoints.ts'
import type { Frontend } from '../service/frontends.ts'

/**
 * The items that the kernel gets, changes or loses: a virtual server, its real servers, and an
 * entry for each source range.
 */
export function writtenItems(before: Frontend | undefined, after: Frontend | undefined): number {
  if (before === undefined || after === undefined) return itemsOf(before) + itemsOf(after)
  const [was, is] = [before.servicePort, after.servicePort]
  // Each real server has a weight and limits.
  const isRewritten = was.choices !== is.choices || was.weights !== undefined || is.weights !== undefined
  if (isRewritten || rangesOf(before) !== rangesOf(after)) return itemsOf(before) + itemsOf(after)
  return 1 + differing(before.selection.endpoints, after.selection.endpoints)
}

function itemsOf(frontend: Frontend | undefined): number {
  return frontend === undefined ? 0 : 1 + frontend.selection.endpoints.length + rangesOf(frontend)
}

function rangesOf({ firewall }: Frontend): number {
  return firewall?.ranges.length ?? 0
}

/** How many endpoints are in only one of two lists, which are sorted. */
function differing(some: readonly Endpoint[], others: readonly Endpoint[]): number {
  if (some === others) return 0
  let [at, common] = [0, 0]
  for (const endpoint of others) {
    let order = compareAt(some, at, endpoint)
    while (order < 0) order = compareAt(some, ++at, endpoint)
    if (order === 0) common++
  }
  return some.length + others.length - 2 * common
}

function compareAt(endpoints: readonly Endpoint[], at: number, endpoint: Endpoint): number {
  const there = endpoints[at]
  return there === undefined ? 1 : compareEndpoints(there, endpoint)
}
