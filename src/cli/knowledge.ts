/**
 * Where commands know Services from: the running daemon, else the source that the flags name, else
 * nothing but the kernel. What is then not known is said.
 */
import { type Answered, askDaemon, type DaemonClient, isUnknown, type NoAnswer } from '../inspect/daemon-client.ts'
import type { DaemonView, ServiceView } from '../inspect/view.ts'
import { CodedError } from '../values/errors.ts'
import { silentLog } from '../values/log.ts'
import type { FlagValues } from '../start/flags.ts'
import { namedSource, type Settings } from '../start/settings.ts'
import type { KnownFrom } from './explain/explanation.ts'
import { nearestTargets, type Target } from './explain/target.ts'

export interface Knowledge {
  readonly knownFrom: KnownFrom
  /** For people: `the daemon kube-ipvs 0.1.0 (pid 5)`; '' for the kernel. */
  readonly source: string
  /** undefined: nobody knows the Services. */
  readonly client: DaemonClient | undefined
  readonly daemon: DaemonView | undefined
  /** Why less is known than could be: one line each. */
  readonly reasons: readonly string[]
  close(): Promise<void>
}

const nothing = async (): Promise<void> => undefined
/** Longest wait until a source has listed. */
const LIST_MS = 15_000

/** Who knows the Services of this node. */
export type Knows<Opened> =
  | { readonly from: 'daemon'; readonly daemon: DaemonView }
  | { readonly from: 'source'; readonly source: string; readonly opened: Opened; readonly silence: NoAnswer }
  /** `failure`: why the source that was named does not help; undefined: none was named. */
  | { readonly from: 'kernel'; readonly silence: NoAnswer; readonly failure: string | undefined }

/**
 * The running daemon; else the source that the flags name; else nobody, and the kernel has no
 * names. The one order that every command uses.
 * @param source in words; undefined: none is named
 */
export async function whoKnows<Opened>(
  client: Pick<DaemonClient, 'daemon'>,
  source: string | undefined,
  open: () => Promise<Opened>,
): Promise<Knows<Opened>> {
  const daemon = await client.daemon()
  if (!isUnknown(daemon)) return { from: 'daemon', daemon }
  if (source === undefined) return { from: 'kernel', silence: daemon, failure: undefined }
  try {
    return { from: 'source', source, opened: await open(), silence: daemon }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { from: 'kernel', silence: daemon, failure: `${source} cannot be read: ${error.message}` }
  }
}

/** For `explain`. */
export async function openKnowledge(flags: FlagValues, settings: Settings, signal: AbortSignal): Promise<Knowledge> {
  const client = askDaemon(settings.configuration.kubeIPVS.socket, { signal })
  const known = await whoKnows(client, namedSource(flags, settings), () => openSource(settings))
  switch (known.from) {
    case 'daemon': {
      const { daemon } = known
      const source = `the daemon kube-ipvs ${daemon.version} (pid ${daemon.pid})`
      return { knownFrom: 'daemon', source, client, daemon, reasons: waitsOf(daemon), close: nothing }
    }
    case 'source': {
      const { source, silence, opened } = known
      const knownFrom = settings.manifests !== undefined ? 'manifests' : 'api-server'
      return { knownFrom, source, ...opened, reasons: [silence.reason] }
    }
    case 'kernel': {
      const { silence, failure } = known
      const reasons = [silence.reason, ...(failure === undefined ? [] : [failure])]
      return { knownFrom: 'kernel', source: '', client: undefined, daemon: undefined, reasons, close: nothing }
    }
  }
}

/** The same answers as those of a daemon, made in this process. */
async function openSource(settings: Settings): Promise<Pick<Knowledge, 'client' | 'daemon' | 'close'>> {
  const { openViews } = await import('../daemon/commands.ts')
  const views = await openViews(settings, silentLog, LIST_MS)
  const daemon = await views.client.daemon()
  if (!isUnknown(daemon)) return { client: views.client, daemon, close: views.close }
  await views.close()
  throw new CodedError('source-unreadable', daemon.reason)
}

function waitsOf({ awaiting }: DaemonView): readonly string[] {
  return awaiting.length === 0
    ? []
    : [`the daemon has not listed ${awaiting.join(', ')} yet, so that what it says is incomplete`]
}

/** The Services that a target names, those that answer. Empty: none does. */
export async function findServices(client: DaemonClient, target: Target): Promise<readonly ServiceView[]> {
  return answered(await client.services(target.kind === 'service' ? target.service : target)).services
}

/** Names near the target, when it is no frontend. */
export async function nearestTo(client: DaemonClient, target: Target): Promise<readonly string[]> {
  const names = await client.names()
  if (isUnknown(names)) return []
  const frontends = [...names.values()]
  const services = new Set(frontends.map(({ servicePort }) => servicePort.split(':')[0] ?? ''))
  return nearestTargets(target, { services: [...services], frontends })
}

/** The IP of a pod. Rejects when its name is in no EndpointSlice. */
export async function addressOfPod(client: DaemonClient | undefined, pod: string): Promise<readonly string[]> {
  if (client === undefined)
    throw new CodedError('pod-unknown', `--from: the IP of the pod ${pod} is not known without a daemon; give the IP`)
  const { addresses } = answered(await client.pod(pod))
  if (addresses.length === 0)
    throw new CodedError(
      'pod-unknown',
      `--from: no EndpointSlice names the pod ${pod}, so its IP is not known; give the IP`,
    )
  return addresses
}

function answered<View extends object>(answer: Answered<View>): View {
  if (isUnknown(answer)) throw new CodedError('daemon-unreadable', answer.reason)
  return answer
}
