/**
 * Divides the room of a node, which is counted in real servers, when the Services want more than
 * there is. Each namespace may have the same share: one that wants less has all that it wants, and
 * the others share what it leaves. Within a namespace the oldest Services come first, and of a
 * Service its first frontends. So no namespace loses anything within its share because another one
 * grows.
 */
import type { Shortage } from '../service/costs.ts'

/**
 * The part of the room that stays free when Services grow, and that is used up before one has to
 * give up anything. Without it Services would take turns with each small change.
 */
export const SLACK = 1 / 32

/** A Service with what it has and what it lacks. */
export interface Member {
  readonly owner: string
  readonly used: number
  readonly shortage: Shortage | undefined
  /** It has all that it wants in any case. */
  readonly isNeeded: boolean
}

export interface NamespaceUse {
  readonly used: number
  /** What its Services have and lack. */
  readonly wants: number
  /** Its Services that lack something. */
  readonly short: readonly Member[]
}

export interface RoomState {
  readonly limit: number
  /** What all Services have. */
  readonly total: number
  /** Whether the last division left anything out. */
  readonly wasShort: boolean
  readonly namespaces: ReadonlyMap<string, NamespaceUse>
  /** Services that keep what they have, although it is more than they may have as computed. */
  readonly undecided: ReadonlySet<string>
  /** The Services of a namespace that wants more than its share, those that come first in front. */
  readonly membersOf: (namespace: string) => Iterable<Member>
}

/** What each namespace may have; Infinity while all have room. */
export interface Share {
  /** A namespace that has more gives up the rest if others need it. */
  readonly toKeep: number
  /** A namespace grows to this at most. */
  readonly toGrow: number
}

export const UNLIMITED: Share = { toKeep: Number.POSITIVE_INFINITY, toGrow: Number.POSITIVE_INFINITY }

export interface Division {
  readonly share: Share
  /** What a Service may have: of each that lacks something, and of those that have to give up something. */
  readonly caps: Map<string, number>
  /** The Services that may have more than they have, or have to give up something now. */
  readonly changed: readonly string[]
  /** The undecided Services that get what they want when others have given it up. */
  readonly waiting: ReadonlySet<string>
}

/** A Service that may have more. */
interface Growth extends Member {
  readonly next: number
  readonly cap: number
  /** What its namespace has. */
  readonly usedIn: number
}

/** Nodes with the same Services divide their rooms alike, but for the slack. */
export function divideRoom(state: RoomState): Division {
  const { limit, total, namespaces, undecided, membersOf } = state
  const share = shareOf(state)
  const caps = new Map<string, number>()
  const growing: Growth[] = []
  const tooLarge: (readonly [owner: string, cap: number])[] = []
  for (const [name, { used, wants, short }] of namespaces)
    if (wants > share.toGrow) divideShare(membersOf(name), share, used, { caps, growing, tooLarge })
    else
      for (const member of short)
        if (member.shortage !== undefined)
          growing.push({ ...member, next: member.shortage.next, cap: member.shortage.wants, usedIn: used })
  // The sort is stable, so within a namespace the order stays.
  growing.sort((a, b) => a.usedIn - b.usedIn)
  const changed: string[] = []
  const waiting = new Set<string>()
  let free = limit - total
  let isBlocked = free < 0
  for (const { owner, used, next, cap } of growing) {
    const most = Math.min(cap, used + free)
    // A part would be less than an undecided Service has now.
    if (most < cap && tooLarge.length > 0 && undecided.has(owner)) {
      waiting.add(owner)
      caps.delete(owner)
      free -= Math.max(0, most - used)
      isBlocked = true
      continue
    }
    const fits = next <= most
    // Of what it wants the part that fits: this is an estimate, and it may need less.
    caps.set(owner, fits ? most : used)
    if (fits) {
      changed.push(owner)
      free -= most - used
    } else isBlocked = true
  }
  // As long as nobody needs it, a Service keeps what is more than its share.
  for (const [owner, cap] of tooLarge)
    if (isBlocked) {
      caps.set(owner, cap)
      changed.push(owner)
    }
  return { share, caps, changed, waiting }
}

/** Divides the share of a namespace among its Services. */
function divideShare(
  members: Iterable<Member>,
  { toKeep, toGrow }: Share,
  usedIn: number,
  to: { caps: Map<string, number>; growing: Growth[]; tooLarge: (readonly [owner: string, cap: number])[] },
): void {
  let older = 0
  for (const member of members) {
    const { owner, used, shortage, isNeeded } = member
    const room = Math.max(0, toGrow - older)
    if (shortage !== undefined) to.caps.set(owner, used)
    if (!isNeeded && used > toKeep - older) {
      to.tooLarge.push([owner, room])
      older += room
    } else if (shortage !== undefined && shortage.next <= room) {
      const cap = Math.min(shortage.wants, room)
      to.growing.push({ ...member, next: shortage.next, cap, usedIn })
      older += Math.max(used, cap)
    } else older += used
  }
}

function shareOf({ limit, wasShort, namespaces }: RoomState): Share {
  const wants = Float64Array.from(namespaces.values(), (one) => one.wants).sort()
  const wanted = wants.reduce((sum, one) => sum + one, 0)
  const withSlack = limit * (1 - SLACK)
  if (wanted <= (wasShort ? withSlack : limit)) return UNLIMITED
  return { toKeep: fairShare(wants, limit), toGrow: fairShare(wants, withSlack) }
}

/** What each may have so that all together have `room`; Infinity if all have what they want. */
function fairShare(sorted: Float64Array, room: number): number {
  let left = room
  for (const [index, one] of sorted.entries()) {
    const share = left / (sorted.length - index)
    if (one > share) return share
    left -= one
  }
  return Number.POSITIVE_INFINITY
}
