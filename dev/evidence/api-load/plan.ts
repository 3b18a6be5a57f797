/** One run of the part `api-load`: what its process is told, and what it writes. */
import type { PartResult } from '../part.ts'
import { excess, type Figures, listsOf } from './figures.ts'

/** Paths of the programs. */
export interface RealServer {
  readonly kubeApiserver: string
  readonly etcd: string
}

export interface Plan {
  /** kube-ipvs: our sets of reflectors without the rest of the program. */
  readonly program: 'kube-ipvs' | 'kube-proxy'
  /** Of kube-proxy. */
  readonly path?: string
  /** The kube-apiserver that is measured; absent: the API server of the tests. */
  readonly server?: RealServer
  readonly nodes: number
  /** Each with one slice. */
  readonly services: number
  /** Of each Service, 100 at most: that is what a slice holds. */
  readonly endpointsEach: number
  /** In how many changes of each slice a rolling update replaces all endpoints. */
  readonly steps: number
  /** 0 leaves the phase out. */
  readonly steadySeconds: number
  readonly outageSeconds: number
  /** Of the outages in which the server forgets the versions that nodes know. */
  readonly compactionSeconds: number
}

export interface Run {
  readonly plan: Plan
  /** By the name of the phase. */
  readonly phases: Readonly<Record<string, Figures>>
  /** Open when everything was listed. */
  readonly watchesPerNode: number
  readonly connectionsPerNode: number
  readonly problems: readonly string[]
}

/**
 * The most that may come back within ten seconds, in percent of all watches. Waits of 30 to 60 s
 * make it 22; not seconds are judged, because a busy machine has pauses.
 */
const MOST_PERCENT = 40
/** After so long the waits of all nodes are the longest ones. */
const LONG_OUTAGE_SECONDS = 120
/** Kinds of objects: each has one list and one watch. */
export const KINDS = 3

/** Where a run of ours is not as it has to be, one sentence each. */
export function runProblems({ plan, phases }: Pick<Run, 'plan' | 'phases'>): readonly string[] {
  const { nodes, outageSeconds } = plan
  return Object.entries(phases).flatMap(([name, { perNode, peakInTenSeconds }]) => {
    const lists = perNode.streamingLists + perNode.lists
    const expected = LISTS[name] ?? 0
    const wrong = lists === expected ? [] : [`${name}: ${lists} lists of a node, not ${expected}`]
    const most = (nodes * KINDS * MOST_PERCENT) / 100
    const isSpread = name !== 'outage' || outageSeconds < LONG_OUTAGE_SECONDS || peakInTenSeconds <= most
    return isSpread
      ? wrong
      : [...wrong, `outage: ${peakInTenSeconds} of ${nodes * KINDS} watches came back within ten seconds`]
  })
}

/** Lists of a node in a phase, where there may be any. A refused streaming list is followed by pages. */
const LISTS: Readonly<Record<string, number>> = { start: KINDS, expired: KINDS, expiredPaged: 2 * KINDS }

/**
 * The result of all runs: a sentence for each phase, and the figures. A run of kube-proxy is
 * compared with the one before it.
 */
export function resultOf(runs: readonly Run[], unmet: readonly string[]): PartResult {
  const compared = runs.flatMap((run, index) => {
    const before = runs[index - 1]
    return run.plan.program === 'kube-proxy' && before !== undefined ? excess(before.phases, run.phases) : []
  })
  const nameOf = ({ program, nodes, services, endpointsEach, server }: Plan): string =>
    `${nodes} nodes with ${program} and ${services * endpointsEach} endpoints${server === undefined ? '' : ' at a kube-apiserver'}`
  const sentences = (run: Run): object =>
    Object.fromEntries(Object.entries(run.phases).map(([name, figures]) => [name, sentenceOf(figures)]))
  return {
    problems: [
      ...runs.filter(({ plan }) => plan.program === 'kube-ipvs').flatMap(({ problems }) => problems),
      ...compared,
    ],
    ...Object.fromEntries(runs.map((run) => [nameOf(run.plan), sentences(run)])),
    unmet,
    runs,
  }
}

function sentenceOf({ seconds, perNode, peakInOneSecond, peakInTenSeconds }: Figures): string {
  const { nextPages, watches, bytes } = perNode
  const each = `${listsOf(perNode)} lists, ${nextPages} further pages, ${watches} watches and ${bytes} bytes of a node`
  return `${each} in ${seconds} s; at most ${peakInOneSecond} requests in one second, ${peakInTenSeconds} in ten`
}
