/** What the kernel alone shows of a target, when no Service is known that wants it. */
import { keyOfSaved, savedFrontends } from '../../modes/iptables/saved-frontends.ts'
import { type Live, readLive } from '../../modes/look/live-tables.ts'
import type { Look } from '../../modes/look/look.ts'
import { modesIn, onlyMode } from '../../modes/modes-in-kernel.ts'
import { CodedError } from '../../values/errors.ts'
import { IP_FAMILIES } from '../../values/protocol.ts'
import { type KernelFrontend, rulesUnread } from './explanation.ts'
import { objectsAt } from './objects.ts'
import { isTargeted, type Target } from './target.ts'

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
