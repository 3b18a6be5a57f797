/**
 * The lines that tell operators how far a start has come with its lists, as kube-proxy's informers print them.
 * What could break: a start that hangs is understood from the line that is missing; each comes exactly once.
 */
import type { ObjectKind } from '../service/objects.ts'
import type { Log } from '../values/log.ts'

interface Kind {
  readonly type: string
  /** Undefined for the Node, which is waited for before the others. */
  readonly controller?: string
}

const KINDS: Readonly<Record<ObjectKind, Kind>> = {
  nodes: { type: '*v1.Node' },
  services: { type: '*v1.Service', controller: 'service config' },
  endpointslices: { type: '*v1.EndpointSlice', controller: 'endpoint slice config' },
}

/** The lists are on their way. */
export function logWaiting(log: Log): void {
  for (const { controller } of Object.values(KINDS)) {
    if (controller !== undefined) log.info(`Starting ${controller} controller`)
    log.info('Waiting for caches to sync', { controller })
  }
}

/** The first list of this kind is complete. */
export function logListed(kind: ObjectKind, log: Log): void {
  const { type, controller } = KINDS[kind]
  log.verbose(2, 'Caches populated', { type })
  log.info('Caches are synced', { controller })
}
