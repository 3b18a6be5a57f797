/**
 * What a phase has cost the API server, computed from the requests that it saw; and the comparison
 * of two programs in the same phases.
 */

/** A request as the server has seen it. */
export interface Seen {
  /** Undefined for another collection than Services, EndpointSlices and Nodes. */
  readonly kind: string | undefined
  readonly verb: string
  readonly query: URLSearchParams
  readonly atMs: number
}

/** Lists and watches of one phase by their form, each divided by the number of nodes. */
export interface PerNode {
  /** A watch that begins with all objects. */
  readonly streamingLists: number
  /** The first page of a list, or the whole list. */
  readonly lists: number
  readonly nextPages: number
  /** A watch that continues from a resourceVersion. */
  readonly watches: number
  /** Sent by the server, with everything that TLS and HTTP/2 add. */
  readonly bytes: number
}

export interface Figures {
  readonly seconds: number
  readonly perNode: PerNode
  /** Lists and watches within any one second, and within any ten, of all nodes together. */
  readonly peakInOneSecond: number
  readonly peakInTenSeconds: number
  /** From the beginning of the phase. */
  readonly lastRequestSecond: number
}

export interface Phase {
  readonly startMs: number
  readonly endMs: number
  readonly nodes: number
  readonly requests: readonly Seen[]
  readonly bytes: number
}

export function figuresOf({ startMs, endMs, nodes, requests, bytes }: Phase): Figures {
  const known = requests.filter(({ kind, verb }) => kind !== undefined && (verb === 'list' || verb === 'watch'))
  const times = known.map(({ atMs }) => atMs)
  const each = (form: Form): number => rounded(known.filter((seen) => formOf(seen) === form).length / nodes)
  return {
    seconds: rounded((endMs - startMs) / 1000),
    perNode: {
      streamingLists: each('streamingList'),
      lists: each('list'),
      nextPages: each('nextPage'),
      watches: each('watch'),
      bytes: Math.round(bytes / nodes),
    },
    peakInOneSecond: mostWithin(times, 1000),
    peakInTenSeconds: mostWithin(times, 10_000),
    lastRequestSecond: times.length === 0 ? 0 : rounded((Math.max(...times) - startMs) / 1000),
  }
}

type Form = 'streamingList' | 'list' | 'nextPage' | 'watch'

function formOf({ verb, query }: Seen): Form {
  if (verb === 'watch') return query.get('sendInitialEvents') === 'true' ? 'streamingList' : 'watch'
  return query.has('continue') ? 'nextPage' : 'list'
}

const rounded = (value: number): number => Math.round(value * 100) / 100

/** The largest number of these times that lie within a window of this width. */
export function mostWithin(times: readonly number[], widthMs: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  let first = 0
  let most = 0
  for (const [index, atMs] of sorted.entries()) {
    while (atMs - (sorted[first] ?? atMs) >= widthMs) first++
    most = Math.max(most, index - first + 1)
  }
  return most
}

/** How many percent more a figure may be before it counts as more: the times of requests are random. */
const TOLERANCE = { perNode: 15, peak: 50 } as const

/** Where `ours` is more than `theirs`, one sentence each. Both had the same number of nodes. */
export function excess(
  ours: Readonly<Record<string, Figures>>,
  theirs: Readonly<Record<string, Figures>>,
): readonly string[] {
  return Object.entries(ours).flatMap(([phase, figures]) => {
    const other = theirs[phase]
    if (other === undefined) return []
    const rows: readonly (readonly [what: string, our: number, their: number, tolerance: number])[] = [
      ['requests of a node', requestsOf(figures.perNode), requestsOf(other.perNode), TOLERANCE.perNode],
      ['lists of a node', listsOf(figures.perNode), listsOf(other.perNode), TOLERANCE.perNode],
      ['bytes of a node', figures.perNode.bytes, other.perNode.bytes, TOLERANCE.perNode],
      ['requests within ten seconds', figures.peakInTenSeconds, other.peakInTenSeconds, TOLERANCE.peak],
    ]
    return rows
      .filter(([, our, their, tolerance]) => our > their * (1 + tolerance / 100))
      .map(([what, our, their]) => `${phase}: ${our} ${what}, kube-proxy ${their}`)
  })
}

/** Lists in either form; a page after the first is none. */
export const listsOf = ({ streamingLists, lists }: PerNode): number => rounded(streamingLists + lists)

const requestsOf = (one: PerNode): number => rounded(listsOf(one) + one.nextPages + one.watches)
