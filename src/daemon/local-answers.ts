/**
 * What the daemon answers at its local socket. This code is loaded at the first question, and reads
 * what the proxy has anyway; long answers are made in portions. A parameter is foreign text until
 * it is checked.
 */
import {
  keysAt,
  MAX_PAGE,
  MAX_TARGETS,
  OBJECT_NAME,
  placeOfWords,
  type RefusalCode,
  type RefusalView,
  VIEW_FORMAT,
  VIEW_PATH,
} from '../inspect/questions.ts'
import type {
  ConnectionsView,
  DrainsView,
  DrainView,
  FrontendName,
  NamesPage,
  OutliersView,
  OutlierView,
  PodView,
  RowsView,
  WrongRow,
} from '../inspect/view.ts'
import { noRows } from '../sync/plan.ts'
import type { HttpAnswer, HttpRequest } from '../serve/http-answer.ts'
import { newBudget } from '../values/event-loop.ts'
import { errorText } from '../values/errors.ts'
import { isLoopback } from '../values/address.ts'
import type { Clock } from '../values/clock.ts'
import { VERSION } from '../values/well-known.ts'
import { daemonView, type Inspected, seconds } from './daemon-view.ts'
import { servicesText } from './service-view.ts'
import type { ListPod } from './sources.ts'

export interface LocalAnswersOptions {
  /** The proxy that runs; undefined before the first one has started. */
  readonly inspected: () => Inspected | undefined
  readonly listPod: ListPod
  readonly now: Clock
}

/** The node ports of one number may be of a Service for each protocol, and for each address. */
const MAX_SERVICES = 16
/** Limits of one answer. */
const MAX_DRAINS = 10_000
const MAX_ENTRIES = 50_000
const MAX_WRONG = 100
/** A namespace may have many EndpointSlices, and the API server may be slow. */
const POD_MS = 8000

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
    case VIEW_PATH.rows:
      return rowsView(proxy)
    case VIEW_PATH.drains:
      return drainsView(proxy, options.now())
    case VIEW_PATH.outliers:
      return outliersView(proxy, options.now())
    case VIEW_PATH.pod:
      return podView(options, checked(parameters, 'pod', OBJECT_NAME), request.signal)
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
function ownersOf({ desired, node, localhostNodePorts }: Inspected, parameters: URLSearchParams): readonly string[] {
  if (parameters.has('service')) {
    const name = checked(parameters, 'service', OBJECT_NAME)
    return desired.objects.service(name) === undefined ? [] : [name]
  }
  const place = placeOfWords(parameters)
  if (place === undefined)
    throw new Refusal(
      400,
      'bad-parameter',
      'the parameters service, or port, address and protocol are missing or wrong',
    )
  const atLoopback = place.address !== undefined && isLoopback(place.address)
  const { port, protocol } = place
  const keys = keysAt(atLoopback ? { port, protocol } : place, node.view.context.nodePortAddresses)
  const owners = new Set(keys.flatMap((key) => desired.claims(key)[0]?.owner ?? []))
  if (atLoopback) for (const { owner } of localhostNodePorts.states(place) ?? []) owners.add(owner)
  return Array.from(owners).filter((owner) => desired.objects.service(owner) !== undefined)
}

/** What the mirrors of the tables say: a question does not read the kernel. */
async function rowsView({ mode }: Inspected): Promise<RowsView> {
  const budget = newBudget()
  const tables: RowsView['tables'][number][] = []
  const wrong: WrongRow[] = []
  const unread: string[] = []
  for (const one of mode.sources.tables) {
    if (!one.isKnown) {
      unread.push(one.kind.name)
      continue
    }
    const counts = noRows()
    for (const { table, key, state } of one.states()) {
      counts[state]++
      if (state !== 'present' && state !== 'draining' && wrong.length < MAX_WRONG) wrong.push({ table, key, state })
      // A virtual server may have thousands of real servers.
      if (budget.spent()) await budget.turn()
    }
    tables.push({ table: one.kind.name, ...counts })
  }
  return { format: VIEW_FORMAT, tables, unread, wrong }
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

async function outliersView({ mode, desired }: Inspected, nowMs: number): Promise<OutliersView> {
  const budget = newBudget()
  const outliers: OutlierView[] = []
  let omitted = 0
  for (const { virtualServer, realServer, state, ageMs, nextTrialMs } of mode.outliers(nowMs)) {
    if (budget.spentBySteps()) await budget.turn()
    if (outliers.length === MAX_DRAINS) omitted++
    else
      outliers.push({
        virtualServer,
        realServer,
        servicePort: desired.get(virtualServer)?.servicePort.name ?? null,
        state,
        seconds: seconds(ageMs),
        nextTrialSeconds: nextTrialMs === undefined ? null : seconds(nextTrialMs),
      })
  }
  return { format: VIEW_FORMAT, outliers, omitted }
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
