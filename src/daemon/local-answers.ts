/**
 * What the daemon answers at its local socket. This code is loaded at the first question, and reads what the proxy has anyway; long
 * answers are made in portions. A parameter is foreign text until it is checked.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import {
  MAX_PAGE,
  MAX_TARGETS,
  type RefusalCode,
  type RefusalView,
  VIEW_FORMAT,
  VIEW_PATH,
} from '../inspect/questions.ts'
import type {
  ConnectionsView,
  DaemonView,
  DrainsView,
  DrainView,
  FrontendName,
  NamesPage,
  PodView,
} from '../inspect/view.ts'
import { keysAt, placeOfWords } from '../inspect/places.ts'
import { schedulerOf } from '../ipvs/scheduler.ts'
import type { Fallback } from '../modes/fallback.ts'
import type { Mode } from '../modes/mode.ts'
import type { HttpAnswer, HttpRequest } from '../serve/http-answer.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { newBudget } from '../values/event-loop.ts'
import { errorText, type Problem } from '../values/errors.ts'
import type { Clock } from '../values/clock.ts'
import { VERSION } from '../values/well-known.ts'
import type { FollowedNode } from './followed-node.ts'
import type { PassLog } from './pass-log.ts'
import type { ProxyHealth } from './proxy-health.ts'
import type { Readiness } from './readiness.ts'
import { servicesText } from './service-view.ts'
import type { ListPod } from './sources.ts'

/** The parts of a proxy that the answers are about; they are only read. */
export interface Inspected {
  readonly inForce: { readonly configuration: KubeProxyConfiguration }
  readonly mode: Pick<Mode, 'name' | 'families' | 'drains'> & { readonly dataplane: Pick<Mode['dataplane'], 'wanted'> }
  /** Why the mode is not the configured one. */
  readonly fallback: Fallback | undefined
  readonly node: Pick<FollowedNode, 'view'>
  readonly desired: DesiredFrontends
  readonly readiness: Pick<Readiness, 'awaited'>
  readonly health: Pick<ProxyHealth, 'state' | 'troubles' | 'isHealthy'>
  readonly problems: Pick<ProblemLog, 'current' | 'count'>
  readonly passLog: Pick<PassLog, 'last'>
}

export interface LocalAnswersOptions {
  /** The proxy that runs; undefined before the first one has started. */
  readonly inspected: () => Inspected | undefined
  readonly listPod: ListPod
  readonly now: Clock
}

/** Limits of one answer. */
const MAX_PROBLEMS = 100
const MAX_OTHERS = 20
/** The node ports of one number may be of a Service for each protocol, and for each address. */
const MAX_SERVICES = 16
const MAX_DRAINS = 10_000
const MAX_ENTRIES = 50_000
/** A namespace may have many EndpointSlices, and the API server may be slow. */
const POD_MS = 8000

/** Kubernetes' names of namespaces, Services and pods are DNS names. */
const OBJECT = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/
/** `10.96.0.1:443/tcp`, `[fd00::1]:443/tcp`, `*:30080/tcp`, `[*]:30080/tcp` */
const KEY = /^(?:[0-9.]{7,15}|\*|\[(?:[0-9a-f:.]{2,45}|\*)\]):[0-9]{1,5}\/(?:tcp|udp|sctp)$/

class Refusal extends Error {
  readonly status: number
  readonly code: RefusalCode

  constructor(status: number, code: RefusalCode, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** Answers one request. Never rejects for what a client can send. */
export async function answerLocally(options: LocalAnswersOptions, request: HttpRequest): Promise<HttpAnswer> {
  try {
    return jsonOf(200, await viewOf(options, request))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { code, message } = error
    return jsonOf(error.status, { format: VIEW_FORMAT, error: { code, message } } satisfies RefusalView)
  }
}

function jsonOf(status: number, value: object | string): HttpAnswer {
  return {
    status,
    headers: [
      ['Content-Type', 'application/json'],
      ['Server', `kube-ipvs/${VERSION}`],
    ],
    body: `${typeof value === 'string' ? value : JSON.stringify(value)}\n`,
  }
}

/** The view that the path names, or its JSON. */
async function viewOf(options: LocalAnswersOptions, request: HttpRequest): Promise<object | string> {
  const { method, path, query } = request
  if (method !== 'GET') throw new Refusal(405, 'wrong-method', 'only GET is answered')
  const parameters = new URLSearchParams(query)
  const proxy = options.inspected()
  if (proxy === undefined) throw new Refusal(503, 'starting', 'the daemon has not started its proxy yet')
  switch (path) {
    case VIEW_PATH.daemon:
      return daemonView(proxy, options.now())
    case VIEW_PATH.names:
      return namesPage(proxy, parameters)
    case VIEW_PATH.services:
      return servicesView(proxy, parameters)
    case VIEW_PATH.drains:
      return drainsView(proxy, options.now())
    case VIEW_PATH.pod:
      return podView(options, checked(parameters, 'pod', OBJECT), request.signal)
    case VIEW_PATH.connections:
      return connectionsView(proxy, parameters, request.signal)
    default:
      throw new Refusal(404, 'unknown-path', 'there is no such path')
  }
}

function checked(parameters: URLSearchParams, name: string, form: RegExp): string {
  const value = parameters.get(name)
  if (value === null || !form.test(value))
    throw new Refusal(400, 'bad-parameter', `the parameter ${name} is missing or wrong`)
  return value
}

function daemonView(proxy: Inspected, nowMs: number): DaemonView {
  const { mode, fallback, node, desired, readiness, problems, passLog } = proxy
  const { configuration } = proxy.inForce
  const { context, podCidrs } = node.view
  const drains = Array.from(mode.drains(nowMs))
  return {
    format: VIEW_FORMAT,
    version: VERSION,
    pid: process.pid,
    uptimeSeconds: seconds(process.uptime() * 1000),
    mode: mode.name,
    configuredMode: configuration.mode,
    fallback: fallback === undefined ? null : { ...fallback },
    virtualAddresses: configuration.kubeIPVS.virtualAddresses === 'routes' ? 'routes' : 'addresses',
    families: mode.families,
    node: {
      name: context.nodeName,
      zone: context.zone ?? null,
      ips: context.nodeIps,
      nodePortAddresses: context.nodePortAddresses,
      podCidrs,
    },
    settings: settingsOf(configuration),
    health: healthOf(proxy),
    awaiting: [...readiness.awaited],
    counts: {
      services: desired.serviceCount,
      frontends: desired.frontendCount,
      conflicts: desired.lossCount,
      draining: drains.length,
      problems: problems.count,
    },
    room: { used: desired.room.total, limit: desired.room.limit, leftOut: desired.room.leftOut },
    passes: Array.from(passLog.last, ([what, { endedMs, durationMs, applied, failed, unreadable }]) => ({
      what,
      endedSecondsAgo: seconds(nowMs - endedMs),
      durationMs: Math.round(durationMs),
      applied,
      failed,
      unreadable,
    })),
    problems: problemsOf(proxy),
    conflicts: first(desired.contested(), MAX_PROBLEMS).map((key) => {
      const [owner = '', ...others] = desired
        .claims(key)
        .slice(0, 1 + MAX_OTHERS)
        .map((claim) => claim.owner)
      return { key, owner, others }
    }),
  }
}

function settingsOf({ iptables, conntrack, ipvs, kubeIPVS, ...all }: KubeProxyConfiguration): DaemonView['settings'] {
  return {
    masqueradeAll: iptables.masqueradeAll,
    masqueradeBit: iptables.masqueradeBit,
    localhostNodePorts: iptables.localhostNodePorts,
    tcpBeLiberal: conntrack.tcpBeLiberal,
    clusterCIDR: all.clusterCIDR,
    detectLocalMode: all.detectLocalMode,
    bridgeInterface: all.detectLocal.bridgeInterface,
    interfaceNamePrefix: all.detectLocal.interfaceNamePrefix,
    scheduler: schedulerOf(ipvs.scheduler),
    serviceAnnotations: kubeIPVS.serviceAnnotations,
    drainDeadlineSeconds: kubeIPVS.drainDeadlineMs === 0 ? null : seconds(kubeIPVS.drainDeadlineMs),
  }
}

/** Those of the node first: there are few of them, and they matter to everybody. */
function problemsOf({ problems }: Inspected): readonly Problem[] {
  const ofNode: Problem[] = []
  const ofObjects: Problem[] = []
  for (const problem of problems.current()) {
    const list = problem.about === 'object' ? ofObjects : ofNode
    if (list.length < MAX_PROBLEMS) list.push(problem)
  }
  return [...ofNode, ...ofObjects].slice(0, MAX_PROBLEMS)
}

/** Names of SyncHealth's troubles, for people. */
const TROUBLE: Readonly<Record<string, string>> = {
  start: 'the first pass has not ended',
  pass: 'a pass has not ended',
  'reading tables': 'tables of the kernel cannot be read',
}

function healthOf({ health }: Inspected): DaemonView['health'] {
  const { nodeEligible } = health.state
  const texts = health.troubles.map(({ what, ageMs, isLate }) => {
    const text =
      TROUBLE[what] ?? (/^(rules|reading rules) /.test(what) ? `${what} have not ended` : `${what} is faulty`)
    return { what: text, seconds: seconds(ageMs), isLate }
  })
  const reasons = [
    ...(nodeEligible ? [] : ['the Node is unknown or is being removed']),
    ...texts.flatMap(({ what, seconds: age, isLate }) => (isLate ? [`${what} for ${Math.round(age)} s`] : [])),
  ]
  const healthy = nodeEligible && health.isHealthy
  return {
    healthy,
    reason: healthy ? null : reasons.join('; ') || 'unknown',
    pending: texts.map(({ what, seconds: age }) => ({ what, seconds: age })),
  }
}

const LIMIT = /^[1-9][0-9]{0,5}$/

async function namesPage({ desired }: Inspected, parameters: URLSearchParams): Promise<NamesPage> {
  const limit = Math.min(MAX_PAGE, Number(parameters.has('limit') ? checked(parameters, 'limit', LIMIT) : MAX_PAGE))
  const after = parameters.has('after') ? checked(parameters, 'after', KEY) : undefined
  const budget = newBudget()
  const frontends: FrontendName[] = []
  let isReached = after === undefined
  let more = false
  for (const [key, { value }] of desired.frontends()) {
    if (budget.spentBySteps()) await budget.turn()
    if (!isReached) {
      isReached = key === after
      continue
    }
    if (frontends.length === limit) {
      more = true
      break
    }
    frontends.push({ key, servicePort: value.servicePort.name, roles: value.roles })
  }
  if (!isReached) throw new Refusal(410, 'gone', 'the key of the page before has gone, begin again')
  return { format: VIEW_FORMAT, frontends, more }
}

async function servicesView(proxy: Inspected, parameters: URLSearchParams): Promise<string> {
  const owners = ownersOf(proxy, parameters).slice(0, MAX_SERVICES)
  const limit = MAX_ENTRIES / owners.length
  return servicesText(owners, { ...proxy, nodeName: proxy.node.view.context.nodeName, budget: newBudget(), limit })
}

/** The Services that a question names by their name, or by an address and port that they have won. */
function ownersOf({ desired, node }: Inspected, parameters: URLSearchParams): readonly string[] {
  if (parameters.has('service')) {
    const name = checked(parameters, 'service', OBJECT)
    return desired.service(name) === undefined ? [] : [name]
  }
  const place = placeOfWords(parameters)
  if (place === undefined)
    throw new Refusal(
      400,
      'bad-parameter',
      'the parameters service, or port, address and protocol are missing or wrong',
    )
  const keys = keysAt(place, node.view.context.nodePortAddresses)
  const owners = new Set(keys.flatMap((key) => desired.claims(key)[0]?.owner ?? []))
  return Array.from(owners).filter((owner) => desired.service(owner) !== undefined)
}

async function drainsView({ mode, desired }: Inspected, nowMs: number): Promise<DrainsView> {
  const budget = newBudget()
  const drains: DrainView[] = []
  let omitted = 0
  for (const { virtualServer, realServer, ageMs, deadlineMs } of mode.drains(nowMs)) {
    if (budget.spentBySteps()) await budget.turn()
    if (drains.length === MAX_DRAINS) omitted++
    else
      drains.push({
        virtualServer,
        realServer,
        servicePort: desired.get(virtualServer)?.servicePort.name ?? null,
        seconds: seconds(ageMs),
        deadlineSeconds: deadlineMs === undefined || !Number.isFinite(deadlineMs) ? null : seconds(deadlineMs),
      })
  }
  return { format: VIEW_FORMAT, drains, omitted }
}

async function podView({ listPod }: LocalAnswersOptions, pod: string, signal: AbortSignal): Promise<PodView> {
  const [namespace = '', name = ''] = pod.split('/')
  try {
    const found = await listPod({ namespace, name }, AbortSignal.any([signal, AbortSignal.timeout(POD_MS)]))
    return { format: VIEW_FORMAT, ...found }
  } catch (error) {
    throw new Refusal(503, 'unreadable', `the EndpointSlices of ${namespace} cannot be read: ${errorText(error)}`)
  }
}

/** `10.244.0.1`, `fd00::1`, `10.244.0.1:8080`, `[fd00::1]:8080` */
const TARGET = /^(?:[0-9.]{7,15}(?::[0-9]{1,5})?|[0-9a-f:.]{2,45}|\[[0-9a-f:.]{2,45}\]:[0-9]{1,5})$/

async function connectionsView(
  proxy: Inspected,
  parameters: URLSearchParams,
  signal: AbortSignal,
): Promise<ConnectionsView> {
  const targets = parameters.getAll('to')
  if (targets.length === 0 || targets.length > MAX_TARGETS || !targets.every((target) => TARGET.test(target)))
    throw new Refusal(400, 'bad-parameter', 'the parameter to is missing or wrong, or is there too often')
  const { connectionsTo } = await import('./connections-view.ts')
  try {
    const counts = await connectionsTo(proxy, targets, parameters.get('udp') === '1', signal)
    return { format: VIEW_FORMAT, ...counts }
  } catch (error) {
    throw new Refusal(503, 'unreadable', `the kernel cannot be read: ${errorText(error)}`)
  }
}

function first<T>(items: Iterable<T>, limit: number): readonly T[] {
  const found: T[] = []
  for (const item of items) {
    if (found.length === limit) break
    found.push(item)
  }
  return found
}

/** With milliseconds as decimals. */
function seconds(milliseconds: number): number {
  return Math.round(milliseconds) / 1000
}
