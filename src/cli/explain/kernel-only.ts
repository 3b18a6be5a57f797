/** What the kernel has for a target: for a comparison with what is wanted, or alone, when nobody tells which Services there are. */
import { savedFrontends } from '../../modes/iptables/saved-frontends.ts'
import { type LiveObjects, modeOfLive, readLiveObjects } from '../../modes/look/live-objects.ts'
import type { Look } from '../../modes/look/look.ts'
import { type FrontendKey, nodePortKey, parseFrontendKey } from '../../service/frontends.ts'
import { CodedError } from '../../values/errors.ts'
import { IP_FAMILIES } from '../../values/protocol.ts'
import type { KernelFrontend } from './explanation.ts'
import { describeVirtualServer, entriesAt } from './objects.ts'
import type { ExplainedObject } from './object-types.ts'
import { isTargeted, type Target } from './target.ts'

/** What is at the addresses and ports of virtual servers that a target names, when nothing tells which Service it is. */
export function explainKernel(target: Target, live: LiveObjects): readonly KernelFrontend[] {
  const found: KernelFrontend[] = []
  for (const [key, virtual] of live.virtualServers ?? []) {
    if (target.kind === 'service' || !isTargeted(target, { key, roles: ['NodePort'] })) continue
    const { address, port, protocol } = parseFrontendKey(key)
    const objects: ExplainedObject[] = [
      {
        ...bare('virtual-server', key, key, ''),
        virtualServer: describeVirtualServer(virtual.server, virtual, undefined),
      },
    ]
    if (live.addresses?.has(address) === true) objects.push(bare('address', key, address, 'kube-ipvs0'))
    if (live.routes.has(address)) objects.push(bare('route', key, address, 'table local'))
    for (const { set, entry } of entriesAt(live, `${address},${protocol}:${port}`))
      objects.push(bare('set-entry', key, entry, set))
    found.push({ key, servicePort: null, objects, endpoints: [] })
  }
  return found
}

function bare(kind: ExplainedObject['kind'], frontend: FrontendKey, name: string, place: string): ExplainedObject {
  return { kind, frontend, name, place, state: 'unknown', means: '', commands: [] }
}

/** What the kernel has for these frontends. */
export function readObjects(
  look: Look,
  keys: ReadonlySet<FrontendKey>,
  readsRules: boolean,
  signal: AbortSignal,
): Promise<LiveObjects> {
  const wanted = new Set([...keys].filter((key) => !key.includes('*')).map((key) => idOf(parseFrontendKey(key))))
  return readLiveObjects(look, { isWanted: (id) => wanted.has(idOf(id)), readsRules, signal })
}

function idOf({ address, port, protocol }: ReturnType<typeof parseFrontendKey>): string {
  return `${address} ${port} ${protocol}`
}

/** What the kernel alone shows. Rejects when only names would help. */
export async function fromKernel(look: Look, target: Target, signal: AbortSignal) {
  const live = await readLiveObjects(look, {
    isWanted: ({ port, address }) =>
      target.kind !== 'service' && port === target.port && (target.kind === 'node-port' || address === target.address),
    readsRules: true,
    signal,
  })
  const mode = modeOfLive(live)
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

/** That rules could not be read, as a sentence. */
export function rulesUnread({ unread }: Pick<LiveObjects, 'unread'>): readonly string[] {
  return unread === undefined ? [] : [`The rules could not be read: ${unread.message}.`]
}

/** What rules of iptables mode serve, by the names in their comments. */
function ruleFrontends(target: Target, live: LiveObjects): readonly KernelFrontend[] {
  return IP_FAMILIES.flatMap((family) => {
    const saved = live.saved[family]
    if (saved === undefined) return []
    return savedFrontends(saved, family).flatMap(({ service, key: written, kind, endpoints }) => {
      const { port, protocol } = parseFrontendKey(written)
      const key = kind === 'node port' ? nodePortKey(family, port, protocol) : written
      const isWanted =
        target.kind === 'service'
          ? isOfService(service, target)
          : isTargeted(target, { key, roles: kind === 'node port' ? ['NodePort'] : ['ClusterIP'] })
      return isWanted ? [{ key, servicePort: service, objects: [], endpoints }] : []
    })
  })
}

function isOfService(servicePort: string, { service, port }: Extract<Target, { kind: 'service' }>): boolean {
  const [name, portName] = servicePort.split(':')
  return name === service && (port === undefined || port === portName)
}
