/**
 * Which endpoints of a Service port this node uses, and why.
 *
 * Policy Cluster: the ready endpoints, narrowed by hints when every ready endpoint has hints and
 * one names this node (or else this node's zone). When none is ready: the endpoints that serve
 * while they terminate, on any node. Policy Local: the ready endpoints on this node. When there are
 * none: those on this node that serve while they terminate.
 */
import { type NodePlace, READS_ZONE } from './node-context.ts'
import type { SliceEndpoint, TrafficPolicy } from './objects.ts'

/** An address and port that can answer for a Service port. */
export interface Endpoint {
  readonly address: string
  /** Target port, 1-65535. */
  readonly port: number
  /** Conditions, node and hints: the slice's own value, shared by all ports of the slice. */
  readonly source: SliceEndpoint
}

/** Orders by the text of the address, then by port, like compareRealServers in `src/ipvs`. */
export function compareEndpoints(a: Endpoint, b: Endpoint): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1
  return a.port - b.port
}

/** Whether the slice says that the endpoint runs on the node of that name; false when the name is ''. */
export function isLocalTo(endpoint: SliceEndpoint, nodeName: string): boolean {
  return endpoint.nodeName === nodeName && nodeName !== ''
}

/** Why an endpoint is used or not. */
export type Verdict =
  | 'used'
  | 'used-local'
  | 'used-node-hint'
  | 'used-zone-hint'
  /** The traffic policy is Local, but no endpoint of this node can be used. */
  | 'used-no-local'
  /** It still serves, and no ready endpoint is left. */
  | 'used-terminating'
  | 'not-ready'
  /** It terminates and no longer serves. */
  | 'not-serving'
  /** It still serves, but there are ready endpoints. */
  | 'terminating'
  | 'not-local'
  | 'other-node-hint'
  | 'other-zone-hint'

/** Whether an endpoint with this verdict gets traffic. */
export function isUsed(verdict: Verdict): boolean {
  return verdict.startsWith('used')
}

/** The endpoints that one kind of traffic may use. */
export interface Selection {
  /** The traffic policy that chose them. */
  readonly policy: TrafficPolicy
  /** In the order of the candidates. The candidates' own array when all of them are used. */
  readonly endpoints: readonly Endpoint[]
  /** One for each candidate, in their order. */
  readonly verdicts: readonly Verdict[]
  /**
   * The policy is Local, no endpoint of this node can be used, but some endpoint elsewhere can
   * (kubeproxy_sync_proxy_rules_no_local_endpoints_total).
   */
  readonly noLocalEndpoints: boolean
  /** READS_* bits of the fields of NodeContext that the selection depends on. */
  readonly reads: number
}

/** The selections of one Service port and family. Two selections that are equal are the same object. */
export interface PortSelections {
  /** Under policy Cluster. */
  readonly cluster: Selection
  /** Under policy Local, without a fallback; undefined when neither policy of the Service is Local. */
  readonly local: Selection | undefined
  /** For a cluster IP: `cluster` or `local`. */
  readonly internal: Selection
  /** For all other addresses. Under policy Local without an endpoint on this node it has the endpoints of `cluster`. */
  readonly external: Selection
}

type Hints = 'zoneHints' | 'nodeHints'

const NOTHING = { endpoints: [], verdicts: [], noLocalEndpoints: false, reads: 0 } as const
/** The selections of a port without endpoints. */
const NO_ENDPOINTS: Readonly<Record<TrafficPolicy, Selection>> = {
  Cluster: { policy: 'Cluster', ...NOTHING },
  Local: { policy: 'Local', ...NOTHING },
}

function servesWhileTerminating(endpoint: SliceEndpoint): boolean {
  return endpoint.serving && endpoint.terminating
}

/** Whether every ready candidate has hints of this kind. There must be a ready candidate. */
function allHinted(candidates: readonly Endpoint[], hints: Hints): boolean {
  for (const { source } of candidates) {
    if (source.ready && (source[hints] === undefined || source[hints].length === 0)) return false
  }
  return true
}

function isHinted(endpoint: SliceEndpoint, hints: Hints, name: string): boolean {
  return endpoint[hints]?.includes(name) === true
}

function someHinted(candidates: readonly Endpoint[], hints: Hints, name: string): boolean {
  for (const { source } of candidates) if (source.ready && isHinted(source, hints, name)) return true
  return false
}

/** Why an endpoint that is not ready is not used. */
function unreadyVerdict(endpoint: SliceEndpoint): Verdict {
  if (!endpoint.terminating) return 'not-ready'
  return endpoint.serving ? 'terminating' : 'not-serving'
}

function finish(
  policy: TrafficPolicy,
  candidates: readonly Endpoint[],
  verdicts: readonly Verdict[],
  noLocalEndpoints: boolean,
  reads: number,
): Selection {
  const used = candidates.filter((_, index) => isUsed(verdicts[index] ?? 'not-ready'))
  const endpoints = used.length === candidates.length ? candidates : used
  return { policy, endpoints, verdicts, noLocalEndpoints, reads }
}

/** Lists that repeat one verdict, by verdict and length. Nearly all Services share a few of them. */
const UNIFORM = new Map<Verdict, (readonly Verdict[])[]>()
/** The largest number of endpoints in a slice. Longer lists are not shared. */
const LONGEST_UNIFORM = 1000

/** Uses all candidates for the same reason. */
function allUsed(
  policy: TrafficPolicy,
  candidates: readonly Endpoint[],
  verdict: Verdict,
  noLocalEndpoints: boolean,
  reads: number,
): Selection {
  const { length } = candidates
  const made = UNIFORM.get(verdict) ?? []
  const verdicts = made[length] ?? new Array<Verdict>(length).fill(verdict)
  if (length <= LONGEST_UNIFORM) {
    made[length] = verdicts
    UNIFORM.set(verdict, made)
  }
  return { policy, endpoints: candidates, verdicts, noLocalEndpoints, reads }
}

/** Selects under policy Cluster. @param noLocal the result replaces an empty selection under policy Local */
function selectCluster(candidates: readonly Endpoint[], node: NodePlace, noLocal: boolean): Selection {
  const policy: TrafficPolicy = noLocal ? 'Local' : 'Cluster'
  let someReady = false
  let allReady = true
  for (const { source } of candidates) {
    someReady ||= source.ready
    allReady &&= source.ready
  }
  if (!someReady) {
    let someServing = false
    const verdicts = candidates.map(({ source }): Verdict => {
      if (!servesWhileTerminating(source)) return unreadyVerdict(source)
      someServing = true
      return 'used-terminating'
    })
    return finish(policy, candidates, verdicts, noLocal && someServing, 0)
  }
  let reads = 0
  let hints: Hints | undefined
  let name = ''
  if (allHinted(candidates, 'nodeHints') && someHinted(candidates, 'nodeHints', node.nodeName)) {
    hints = 'nodeHints'
    name = node.nodeName
  } else if (allHinted(candidates, 'zoneHints')) {
    reads = READS_ZONE
    if (node.zone !== undefined && node.zone !== '' && someHinted(candidates, 'zoneHints', node.zone)) {
      hints = 'zoneHints'
      name = node.zone
    }
  }
  const plain: Verdict = noLocal ? 'used-no-local' : 'used'
  if (allReady && hints === undefined) return allUsed(policy, candidates, plain, noLocal, reads)
  const hit: Verdict = noLocal ? 'used-no-local' : hints === 'nodeHints' ? 'used-node-hint' : 'used-zone-hint'
  const miss: Verdict = hints === 'nodeHints' ? 'other-node-hint' : 'other-zone-hint'
  const verdicts = candidates.map(({ source }): Verdict => {
    if (!source.ready) return unreadyVerdict(source)
    if (hints === undefined) return plain
    return isHinted(source, hints, name) ? hit : miss
  })
  return finish(policy, candidates, verdicts, noLocal, reads)
}

/** Selects under policy Local; undefined when no endpoint of this node can be used. */
function selectLocal(candidates: readonly Endpoint[], node: NodePlace): Selection | undefined {
  let ready = false
  let serving = false
  for (const { source } of candidates) {
    if (!isLocalTo(source, node.nodeName)) continue
    ready ||= source.ready
    serving ||= servesWhileTerminating(source)
  }
  if (!ready && !serving) return undefined
  const verdicts = candidates.map(({ source }): Verdict => {
    const usable = source.ready || servesWhileTerminating(source)
    if (!isLocalTo(source, node.nodeName)) return usable ? 'not-local' : unreadyVerdict(source)
    if (source.ready) return 'used-local'
    return !ready && servesWhileTerminating(source) ? 'used-terminating' : unreadyVerdict(source)
  })
  return finish('Local', candidates, verdicts, false, 0)
}

/** The empty selection: policy Local, and no endpoint of this node can be used. */
function selectNone(candidates: readonly Endpoint[]): Selection {
  let usable = false
  const verdicts = candidates.map(({ source }): Verdict => {
    if (!source.ready && !servesWhileTerminating(source)) return unreadyVerdict(source)
    usable = true
    return 'not-local'
  })
  return finish('Local', candidates, verdicts, usable, 0)
}

/**
 * Selects among the endpoints of one Service port and family for internal traffic (ClusterIP) and
 * external traffic (external IPs, load balancer VIPs, node ports). With internal policy Local and
 * no endpoint on this node a ClusterIP has none, even when the Service also has external addresses
 * (kube-proxy in ipvs mode then uses all); external traffic with policy Local falls back to all
 * (kubernetes PR 97081).
 */
export function selectEndpoints(
  internalPolicy: TrafficPolicy,
  externalPolicy: TrafficPolicy,
  candidates: readonly Endpoint[],
  node: NodePlace,
): PortSelections {
  const wantsLocal = internalPolicy === 'Local' || externalPolicy === 'Local'
  if (candidates.length === 0)
    return {
      cluster: NO_ENDPOINTS.Cluster,
      local: wantsLocal ? NO_ENDPOINTS.Local : undefined,
      internal: NO_ENDPOINTS[internalPolicy],
      external: NO_ENDPOINTS[externalPolicy],
    }
  // In iptables mode pods of this node use it even when both policies are Local.
  const cluster = selectCluster(candidates, node, false)
  if (!wantsLocal) return { cluster, local: undefined, internal: cluster, external: cluster }
  const here = selectLocal(candidates, node)
  const local = here ?? selectNone(candidates)
  return {
    cluster,
    local,
    internal: internalPolicy === 'Cluster' ? cluster : local,
    external: externalPolicy === 'Cluster' ? cluster : (here ?? selectCluster(candidates, node, true)),
  }
}
