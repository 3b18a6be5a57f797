/** Which program runs on a node, as what the rows of the evidence name. Pure. */

export const MODES = ['ipvs', 'iptables', 'nftables'] as const

export interface Proxy {
  readonly program: 'kube-ipvs' | 'kube-proxy'
  /** A release (`1.37.2`), a commit, or `HEAD`: this checkout. */
  readonly release: string
  readonly mode: (typeof MODES)[number]
  /** Of kube-ipvs in ipvs mode; absent: its default. */
  readonly firewall?: 'iptables' | 'nftables'
}

/**
 * One node gets another proxy, or the mode of the one that runs is changed (`to` is the same
 * program).
 */
export interface Move {
  readonly node: number
  readonly to: Proxy
  /**
   * The steps of the document: `kube-ipvs cleanup` runs, and `to` is the proxy that runs already.
   */
  readonly cleanup?: true
}

/** What happens one after the other on fresh nodes, each of which begins with the first proxy. */
export interface Journey {
  readonly nodes: number
  readonly first: Proxy
  readonly moves: readonly Move[]
}

/** What runs in one boot, and is left out when a program is not to be had. */
export interface Group {
  readonly name: string
  readonly journeys: readonly Journey[]
}

/** One for each minor release; those that the Go module proxy has. */
export const RELEASES = ['1.33.13', '1.34.4', '1.35.4', '1.36.3', '1.37.2'] as const
const NEWEST = RELEASES[4]
/** Of this morning, and of 22 November, the second day of the project. */
export const COMMITS = ['22c735a6', 'aa7996b9'] as const

const ours = (mode: Proxy['mode'], release = 'HEAD', firewall?: 'iptables' | 'nftables'): Proxy => ({
  program: 'kube-ipvs',
  release,
  mode,
  ...(firewall === undefined ? {} : { firewall }),
})
const theirs = (mode: Proxy['mode'], release: string): Proxy => ({ program: 'kube-proxy', release, mode })

/** One node that has each of them in turn. */
const chain = (first: Proxy, ...next: readonly Proxy[]): Journey => ({
  nodes: 1,
  first,
  moves: next.map((to) => ({ node: 0, to })),
})

/** Node by node to another proxy, and back. */
function nodeByNode(first: Proxy, second: Proxy): Journey {
  const to = [second, second, first, first]
  return { nodes: 2, first, moves: to.map((proxy, index) => ({ node: index % 2, to: proxy })) }
}

function withRelease(release: string): Group {
  const [ipvs, iptables, nftables] = [theirs('ipvs', release), theirs('iptables', release), theirs('nftables', release)]
  const cleanup: Journey = {
    ...chain(ours('ipvs'), iptables),
    moves: [
      { node: 0, to: iptables },
      { node: 0, to: iptables, cleanup: true },
    ],
  }
  return {
    name: `kube-proxy ${release}`,
    journeys: [
      chain(ipvs, ours('ipvs'), ipvs),
      // The last two steps are the way back without a gap that docs/migration.md describes.
      chain(iptables, ours('iptables'), iptables, ours('ipvs'), ours('iptables'), iptables),
      chain(nftables, ours('ipvs'), nftables, ours('iptables'), nftables),
      ...(release === NEWEST ? [cleanup] : []),
    ],
  }
}

function withCommit(commit: string): Group {
  const before = ours('ipvs', commit)
  return {
    name: `kube-ipvs ${commit}`,
    journeys: [
      chain(ours('iptables', commit), ours('iptables'), ours('iptables', commit)),
      // Then as docs/operating.md has it for releases that do not know the tables of the nftables
      // firewall.
      chain(before, ours('ipvs'), before, ours('ipvs', 'HEAD', 'nftables'), ours('ipvs', 'HEAD', 'iptables'), before),
    ],
  }
}

function mixed(): Group {
  return {
    name: 'node by node',
    journeys: [
      nodeByNode(theirs('ipvs', NEWEST), ours('ipvs')),
      nodeByNode(theirs('iptables', NEWEST), ours('ipvs')),
      nodeByNode(ours('ipvs', COMMITS[0]), ours('ipvs')),
    ],
  }
}

export const GROUPS: readonly Group[] = [...RELEASES.map(withRelease), ...COMMITS.map(withCommit), mixed()]

/** `kube-proxy 1.37.2` */
export const programOf = ({ program, release }: Pick<Proxy, 'program' | 'release'>): string => `${program} ${release}`

/** `kube-proxy 1.37.2 ipvs`. @param withRelease false: without it, for rows of several releases */
export function nameOf({ program, release, mode, firewall }: Proxy, withRelease = true): string {
  const known = withRelease ? [release] : program === 'kube-ipvs' ? [release === 'HEAD' ? 'HEAD' : 'older'] : []
  return [program, ...known, mode, ...(firewall === undefined ? [] : [`firewall ${firewall}`])].join(' ')
}

export const isSameProgram = (a: Proxy, b: Proxy): boolean => programOf(a) === programOf(b)

/** Every proxy of a journey, each once by its name. */
export function proxiesOf({ first, moves }: Journey): readonly Proxy[] {
  return [...new Map([first, ...moves.map(({ to }) => to)].map((proxy) => [nameOf(proxy), proxy])).values()]
}

export const programsOf = (journey: Journey): readonly string[] => proxiesOf(journey).map(programOf)
