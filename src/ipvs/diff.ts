/**
 * The operations between desired and live virtual servers, and the effect of each operation on a
 * live item. An unwanted TCP real server gets weight 0 and is deleted only when it had no
 * connections. One that has weight 0 already needs no operation, so a drain in progress is no
 * difference.
 */
import type { TableKind } from '../sync/table.ts'
import type { AdditionOrder } from './addition-order.ts'
import { canDrain, isDraining } from './drains.ts'
import { formatOperation } from './text.ts'
import {
  compareRealServers,
  directionOf,
  type RealServer,
  realServerKey,
  type RealServerKey,
  type RealServerOperation,
  type VirtualServer,
  type VirtualServerFields,
  type VirtualServerKey,
  type VirtualServerOperation,
} from './types.ts'

/** Whether the fields of two virtual servers are equal, real servers aside. */
export function sameFields(a: VirtualServerFields, b: VirtualServerFields): boolean {
  return (
    a.scheduler === b.scheduler &&
    a.flags === b.flags &&
    a.timeoutSeconds === b.timeoutSeconds &&
    a.netmask === b.netmask &&
    a.persistenceEngine === b.persistenceEngine
  )
}

/** Whether two real servers with one key are equal. */
export function sameRealServer(a: RealServer, b: RealServer): boolean {
  return (
    a === b ||
    (a.weight === b.weight &&
      a.forwarding === b.forwarding &&
      a.upperThreshold === b.upperThreshold &&
      a.lowerThreshold === b.lowerThreshold)
  )
}

/** Whether two lists in key order name the same real servers with the same fields. */
export function sameRealServers(a: readonly RealServer[], b: readonly RealServer[]): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  return a.every((server, index) => {
    const other = b[index]
    return other !== undefined && compareRealServers(server, other) === 0 && sameRealServer(server, other)
  })
}

/** Whether two virtual servers with one key are equal. */
export function sameVirtualServer(a: VirtualServer, b: VirtualServer): boolean {
  return a === b || (sameFields(a, b) && sameRealServers(a.realServers, b.realServers))
}

/**
 * Operations that turn `live` into `desired`: the virtual server first, then added or changed real
 * servers, then removed ones. `idle` names real servers that just had no connections. `order` is
 * that of the added ones; without it they are added in key order. Edits are in place, never
 * delete-and-add (IPVS_CMD_SET_SERVICE, IPVS_CMD_SET_DEST keep connections).
 */
export function diffVirtualServer(
  key: VirtualServerKey,
  desired: VirtualServer | undefined,
  live: VirtualServer | undefined,
  idle?: ReadonlySet<RealServerKey>,
  order?: AdditionOrder,
): VirtualServerOperation[] {
  if (desired === live) return []
  if (desired === undefined) return live === undefined ? [] : [{ kind: 'delete-virtual-server', key, server: live }]
  const ops: VirtualServerOperation[] = []
  if (live === undefined) ops.push({ kind: 'add-virtual-server', key, server: desired })
  else if (!sameFields(desired, live)) ops.push({ kind: 'edit-virtual-server', key, server: desired })
  const { additions, edits, removals } = diffRealServers(key, desired, live?.realServers ?? [], idle)
  if (additions.length > 1) order?.(desired, additions)
  for (const some of [edits, additions, removals]) for (const op of some) ops.push(op)
  return ops
}

/** What one virtual server needs, each list in key order. */
interface RealServerOperations {
  readonly additions: RealServerOperation[]
  readonly edits: readonly RealServerOperation[]
  readonly removals: readonly RealServerOperation[]
}

function diffRealServers(
  key: VirtualServerKey,
  desired: VirtualServer,
  live: readonly RealServer[],
  idle: ReadonlySet<RealServerKey> | undefined,
): RealServerOperations {
  const additions: RealServerOperation[] = []
  const edits: RealServerOperation[] = []
  const removals: RealServerOperation[] = []
  let next = 0
  for (const wanted of desired.realServers) {
    let present = live[next]
    while (present !== undefined && compareRealServers(present, wanted) < 0) {
      unwanted(key, desired, present, idle, removals)
      present = live[++next]
    }
    if (present !== undefined && compareRealServers(present, wanted) === 0) {
      if (!sameRealServer(present, wanted))
        edits.push({ kind: 'edit-real-server', key, server: desired, realServer: wanted })
      next++
    } else additions.push({ kind: 'add-real-server', key, server: desired, realServer: wanted })
  }
  for (let present = live[next]; present !== undefined; present = live[++next])
    unwanted(key, desired, present, idle, removals)
  return { additions, edits, removals }
}

function unwanted(
  key: VirtualServerKey,
  server: VirtualServer,
  present: RealServer,
  idle: ReadonlySet<RealServerKey> | undefined,
  removals: RealServerOperation[],
): void {
  if (!canDrain(server.protocol)) removals.push({ kind: 'delete-real-server', key, server, realServer: present })
  else if (!isDraining(server.protocol, present))
    removals.push({ kind: 'edit-real-server', key, server, realServer: { ...present, weight: 0 } })
  else if (idle?.has(realServerKey(present)) === true)
    removals.push({ kind: 'delete-real-server', key, server, realServer: present })
}

/** The live virtual server after one successful operation. */
export function stepVirtualServer(
  live: VirtualServer | undefined,
  op: VirtualServerOperation,
): VirtualServer | undefined {
  switch (op.kind) {
    case 'add-virtual-server':
      return { ...op.server, realServers: [] }
    case 'edit-virtual-server':
      return { ...op.server, realServers: live?.realServers ?? [] }
    case 'delete-virtual-server':
      return undefined
    case 'add-real-server':
    case 'edit-real-server':
    case 'delete-real-server':
      return live === undefined ? undefined : { ...live, realServers: stepRealServers(live.realServers, op) }
  }
}

/** So many operations are cheaper one by one. */
const FEW = 4

/**
 * The live virtual server after successful operations. The cost of each does not depend on the
 * number of real servers.
 */
export function stepVirtualServerThrough(
  live: VirtualServer | undefined,
  ops: readonly VirtualServerOperation[],
): VirtualServer | undefined {
  if (ops.length <= FEW) return ops.reduce(stepVirtualServer, live)
  let now = live
  let together: RealServerOperation[] = []
  const finish = (): void => {
    if (now !== undefined && together.length > 0) now = { ...now, realServers: stepTogether(now.realServers, together) }
    together = []
  }
  for (const op of ops) {
    if ('realServer' in op) {
      together.push(op)
      continue
    }
    finish()
    now = stepVirtualServer(now, op)
  }
  finish()
  return now
}

/** Both lists are in key order; of the operations on one real server the last one counts. */
function stepTogether(live: readonly RealServer[], ops: readonly RealServerOperation[]): readonly RealServer[] {
  const sorted = ops.toSorted((a, b) => compareRealServers(a.realServer, b.realServer))
  const after: RealServer[] = []
  let next = 0
  for (const [index, op] of sorted.entries()) {
    const following = sorted[index + 1]
    if (following !== undefined && compareRealServers(op.realServer, following.realServer) === 0) continue
    let present = live[next]
    while (present !== undefined && compareRealServers(present, op.realServer) < 0) {
      after.push(present)
      present = live[++next]
    }
    if (present !== undefined && compareRealServers(present, op.realServer) === 0) next++
    if (op.kind !== 'delete-real-server') after.push(op.realServer)
  }
  return after.concat(live.slice(next))
}

function stepRealServers(live: readonly RealServer[], op: RealServerOperation): readonly RealServer[] {
  let low = 0
  let high = live.length
  while (low < high) {
    const middle = (low + high) >> 1
    const there = live[middle]
    if (there !== undefined && compareRealServers(there, op.realServer) < 0) low = middle + 1
    else high = middle
  }
  const found = live[low]
  const replaced = found !== undefined && compareRealServers(found, op.realServer) === 0 ? 1 : 0
  return op.kind === 'delete-real-server' ? live.toSpliced(low, replaced) : live.toSpliced(low, replaced, op.realServer)
}

/**
 * Whether a virtual server works as well as before after these removals: a usable real server
 * (weight above 0) is left, or none of them removes a usable one.
 */
function servesWithout(live: VirtualServer | undefined, removals: readonly VirtualServerOperation[]): boolean {
  const after = stepVirtualServerThrough(live, removals)
  if (after === undefined) return false
  const left = usableCount(after)
  return left > 0 || left === usableCount(live)
}

function usableCount(server: VirtualServer | undefined): number {
  return server?.realServers.filter(({ weight }) => weight > 0).length ?? 0
}

/** Keys of real servers that drain and that nothing wants: they stay only until their connections end. */
export function drainingRealServers(
  desired: VirtualServer | undefined,
  live: VirtualServer | undefined,
): RealServerKey[] {
  if (desired === undefined || live === undefined || desired === live) return []
  if (live.realServers.length === desired.realServers.length && live.realServers === desired.realServers) return []
  const draining: RealServerKey[] = []
  let next = 0
  for (const server of live.realServers) {
    if (!isDraining(live.protocol, server)) continue
    let wanted = desired.realServers[next]
    while (wanted !== undefined && compareRealServers(wanted, server) < 0) wanted = desired.realServers[++next]
    if (wanted === undefined || compareRealServers(wanted, server) !== 0) draining.push(realServerKey(server))
  }
  return draining
}

/** A virtual server is an item, with its real servers. */
export type VirtualServerKind = TableKind<VirtualServer, VirtualServerOperation>

export const VIRTUAL_SERVERS: VirtualServerKind = {
  name: 'virtual-servers',
  key: (op) => op.key,
  diff: (key, desired, live, idle) => diffVirtualServer(key, desired, live, idle),
  equal: sameVirtualServer,
  step: stepVirtualServer,
  stepAll: stepVirtualServerThrough,
  direction: directionOf,
  canSpare: servesWithout,
  isDraining: (desired, live) => drainingRealServers(desired, live).length > 0,
  text: formatOperation,
}

/** The same, where real servers are added in this order. */
export function virtualServersInOrder(order: AdditionOrder): VirtualServerKind {
  return { ...VIRTUAL_SERVERS, diff: (key, desired, live, idle) => diffVirtualServer(key, desired, live, idle, order) }
}
