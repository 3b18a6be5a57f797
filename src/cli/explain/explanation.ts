/**
 * What `kube-ipvs explain` found out, as one value: the text and `--output json` are made from it.
 * It joins what the daemon (or the same code in this process) says about Services with what the
 * kernel has; when nobody knows the Services, it is what the kernel alone shows.
 */
import type { ProxyMode } from '../../config/types.ts'
import type { PacketPath } from '../../explain/types.ts'
import type { DaemonView, EndpointView, FrontendView, ServicePortView, ServiceView } from '../../inspect/view.ts'
import type { RelayView } from '../../inspect/relay-view.ts'
import { keyOfSaved, savedFrontends } from '../../modes/iptables/saved-frontends.ts'
import { type Live, readLive } from '../../modes/look/live-tables.ts'
import type { Look } from '../../modes/look/look.ts'
import { modesIn, onlyMode } from '../../modes/modes-in-kernel.ts'
import { annotationField } from '../../service/annotations.ts'
import { type FrontendKey, parseFrontendKey } from '../../service/frontends.ts'
import { CodedError } from '../../values/errors.ts'
import { IP_FAMILIES } from '../../values/protocol.ts'
import { SERVICE_ANNOTATION } from '../../values/well-known.ts'
import { compareObjects, objectsAt } from './objects.ts'
import { isRuleOf } from './rule-objects.ts'
import type { ExplainedObject } from './object-types.ts'
import { isTargeted, type Target } from './target.ts'
import { verdictWords, type VerdictWords } from './verdicts.ts'

/** Where the knowledge of Services comes from. */
export type KnownFrom = 'daemon' | 'api-server' | 'manifests' | 'kernel'

export interface ExplainedEndpoint extends Omit<EndpointView, 'internal' | 'external'> {
  readonly internal: VerdictWords
  readonly external: VerdictWords
}

export interface ExplainedFrontend extends FrontendView {
  /** False: another Service answers there. */
  readonly isWon: boolean
  readonly objects: readonly ExplainedObject[]
}

export interface ExplainedPort extends Omit<ServicePortView, 'endpoints' | 'frontends'> {
  readonly endpoints: readonly ExplainedEndpoint[]
  readonly frontends: readonly ExplainedFrontend[]
  /** Chains and rules of the port as a whole. */
  readonly objects: readonly ExplainedObject[]
}

/** An annotation of the Service that kube-ipvs knows. */
export interface ExplainedAnnotation {
  readonly name: string
  /** Foreign text. */
  readonly value: string
  readonly isInForce: boolean
  /** Why it is not; '' when it is. */
  readonly because: string
}

export interface ExplainedService {
  readonly namespace: string
  readonly name: string
  readonly annotations: readonly ExplainedAnnotation[]
  readonly problems: ServiceView['problems']
  readonly ports: readonly ExplainedPort[]
  /** Endpoints and frontends that the daemon left out because there are too many. */
  readonly omitted: number
  /** Node ports at loopback addresses; null: they are switched off, or the daemon does not say. */
  readonly relays: readonly RelayView[] | null
}

/** What the kernel alone shows at an address and port, without knowing the Service. */
export interface KernelFrontend {
  readonly key: FrontendKey
  /** `namespace/name:port`, where rules name it in a comment; null when nothing names it. */
  readonly servicePort: string | null
  readonly objects: readonly ExplainedObject[]
  /** Of rules of iptables mode. */
  readonly endpoints: readonly string[]
}

export interface ExplainedPath {
  readonly frontend: FrontendKey
  /** The source that was asked about: an address; null for a process of this node. */
  readonly source: string | null
  /** The destination of the packet: for a node port without an address one of this node. */
  readonly destination: string
  /** null: it could not be predicted. */
  readonly path: PacketPath | null
  /** Why not; '' otherwise. */
  readonly because: string
}

export interface Explanation {
  readonly target: string
  /** --from; null when it was not given. */
  readonly from: string | null
  readonly knownFrom: KnownFrom
  /** `kube-ipvs 0.1.0 (pid 5)`, `the manifests in /x`; '' for the kernel. */
  readonly source: string
  readonly mode: ProxyMode | null
  readonly node: { readonly name: string; readonly zone: string | null }
  /** What this answer cannot say, and why, as whole sentences. */
  readonly unknown: readonly string[]
  readonly isFound: boolean
  /** Targets that may have been meant, when nothing was found. */
  readonly nearest: readonly string[]
  readonly services: readonly ExplainedService[]
  /** Only when the knowledge is from the kernel. */
  readonly kernel: readonly KernelFrontend[]
  readonly paths: readonly ExplainedPath[]
}

/** That rules could not be read, as a sentence. */
export function rulesUnread({ rules: { unread } }: Pick<Live, 'rules'>): readonly string[] {
  return unread === undefined ? [] : [`The rules could not be read: ${unread.message}.`]
}

/** The part of a Service that a target names, compared with the kernel; undefined when it names none. */
export function explainService(
  view: ServiceView,
  target: Target,
  daemon: Pick<DaemonView, 'mode' | 'node' | 'settings'>,
  live: Live,
): ExplainedService | undefined {
  const { namespace, name, problems, omitted, relays = null } = view
  const ports = view.ports.flatMap((port): readonly ExplainedPort[] => {
    const frontends =
      target.kind === 'service'
        ? isPort(port, view, target.port)
          ? port.frontends
          : []
        : port.frontends.filter((frontend) => isTargeted(target, frontend))
    return frontends.length === 0 ? [] : [explainPort(port, frontends, view, daemon, live)]
  })
  if (ports.length === 0) return undefined
  return { namespace, name, problems, omitted, annotations: annotationsOf(view, daemon), ports, relays }
}

/** Whether a port of a Service is the one that a target names, by name or number. */
function isPort(port: ServicePortView, { namespace, name }: ServiceView, wanted: string | undefined): boolean {
  if (wanted === undefined) return true
  return port.name === `${namespace}/${name}:${wanted}` || String(port.port) === wanted
}

function explainPort(
  port: ServicePortView,
  frontends: readonly FrontendView[],
  { namespace, name, wanted: all, omittedRows }: ServiceView,
  { node }: Pick<DaemonView, 'node'>,
  live: Live,
): ExplainedPort {
  const owner = `${namespace}/${name}`
  const keys = new Set(frontends.map(({ key }) => key))
  const wanted = all.filter(({ table, neededBy, item }) =>
    'rules' in item ? table === `chains-${port.family}` && neededBy === port.name : keys.has(neededBy),
  )
  const won = frontends.filter((frontend) => frontend.owner === owner)
  const compared = compareObjects(
    wanted,
    live,
    [port],
    won.map(({ key, roles }) => ({ key, isNodePort: roles.includes('NodePort') })),
    omittedRows === 0,
  )
  return {
    ...port,
    endpoints: port.endpoints.map((endpoint) => ({
      ...endpoint,
      internal: verdictWords(endpoint, 'internal', port, node),
      external: verdictWords(endpoint, 'external', port, node),
    })),
    frontends: frontends.map((frontend) => ({
      ...frontend,
      isWon: frontend.owner === owner,
      objects: compared.filter((object) => object.frontend === frontend.key),
    })),
    objects: compared.filter((object) => object.frontend === null && isRuleOf(object, frontends)),
  }
}

function annotationsOf(
  { annotations, problems }: ServiceView,
  { mode, settings }: Pick<DaemonView, 'mode' | 'settings'>,
): readonly ExplainedAnnotation[] {
  const given = new Set(annotations.map(([name]) => name))
  const general =
    mode === 'iptables'
      ? 'annotations have an effect in ipvs mode only'
      : settings.serviceAnnotations
        ? ''
        : 'kubeIPVS.serviceAnnotations is false'
  return annotations.map(([name, value]) => {
    const wrong = problems.find(({ field }) => field === annotationField(name))?.message
    const better = PRECEDES.get(name)
    const replaced = better !== undefined && given.has(better) ? `${better} precedes it` : ''
    const because = general || (wrong ?? replaced)
    return { name, value, isInForce: because === '', because }
  })
}

/** Ours precede those of kube-router. */
const PRECEDES: ReadonlyMap<string, string> = new Map([
  [SERVICE_ANNOTATION.kubeRouterScheduler, SERVICE_ANNOTATION.scheduler],
  [SERVICE_ANNOTATION.kubeRouterFlags, SERVICE_ANNOTATION.schedulerFlags],
])

/**
 * What is at the addresses and ports of virtual servers that a target names, when nothing tells
 * which Service it is.
 */
export function explainKernel(target: Target, live: Live): readonly KernelFrontend[] {
  if (target.kind === 'service') return []
  const keys = Array.from(live.tables['virtual-servers']?.items.keys() ?? [])
  return keys
    .filter((key) => isTargeted(target, { key, roles: ['NodePort'] }))
    .map((key) => ({ key, servicePort: null, objects: objectsAt(key, live), endpoints: [] }))
}

/** What the kernel alone shows. Rejects when only names would help. */
export async function fromKernel(look: Look, target: Target, signal: AbortSignal) {
  const live = await readLive(look, {
    isWanted: (key) => target.kind !== 'service' && isTargeted(target, { key, roles: ['NodePort'] }),
    readsRules: true,
    signal,
  })
  const mode = onlyMode(modesIn({ ...live.virtualIps, ...live.rules }))
  const rules = ruleFrontends(target, live)
  if (target.kind === 'service' && mode !== 'iptables')
    throw new CodedError(
      'names-unknown',
      'the kernel has no names of Services: start the daemon, name a source with --config, --kubeconfig or --manifests, or give VIP:PORT',
    )
  const kernel = [...explainKernel(target, live), ...rules]
  return {
    mode,
    node: { name: '', zone: null },
    unknown: [
      'No daemon answers, so Services are unknown; so are unused endpoints, owners, policies and what is missing in the kernel. ' +
        'Start the daemon, or name a source of Services with --config, --kubeconfig or --manifests.',
      ...rulesUnread(live),
    ],
    isFound: kernel.length > 0,
    nearest: [],
    services: [],
    kernel,
  }
}

/** What rules of iptables mode serve, by the names in their comments. */
function ruleFrontends(target: Target, live: Live): readonly KernelFrontend[] {
  return IP_FAMILIES.flatMap((family) => {
    const saved = live.rules.saved[family]
    if (saved === undefined) return []
    return savedFrontends(saved, family).flatMap((frontend) => {
      const { service, kind, endpoints } = frontend
      const key = keyOfSaved(frontend)
      const isWanted =
        target.kind === 'service'
          ? isOfService(service, kind === 'node port' ? undefined : parseFrontendKey(key).port, target)
          : isTargeted(target, { key, roles: kind === 'node port' ? ['NodePort'] : ['ClusterIP'] })
      return isWanted ? [{ key, servicePort: service, objects: [], endpoints }] : []
    })
  })
}

/** @param number the port of the Service; undefined where only its name is known */
function isOfService(
  servicePort: string,
  number: number | undefined,
  { service, port }: Extract<Target, { kind: 'service' }>,
): boolean {
  const [name, portName] = servicePort.split(':')
  return name === service && (port === undefined || port === portName || port === String(number))
}
