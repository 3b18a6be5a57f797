/**
 * What doctor asks the API server: DaemonSets and three objects that say who answers for Services.
 * Of each it keeps only the fields that checks need; what the credentials may not read is left out
 * with the reason.
 * @impure
 */
import { VERSION } from '../values/well-known.ts'
import type { AccessProvider } from '../watch/api/access.ts'
import { ApiClient } from '../watch/api/api-client.ts'
import { ApiError } from '../watch/api/api-error.ts'
import { clockAheadMs } from '../watch/api/server-date.ts'
import { isPlainObject } from '../values/shape.ts'
import type { Seen } from './seen.ts'
import type { ClusterFact } from './cluster-facts.ts'
import { attempt } from './read-kernel.ts'

const MAX_DAEMON_SETS = 500
/** Nodes among which one of another name is looked for: an object may have tens of kilobytes. */
const MAX_NODES = 100
const MAX_SIMILAR = 5

/** This host, which one Node of the cluster should be. */
export interface ThisHost {
  readonly nodeName: string
  readonly addresses: readonly string[]
}

/** Rejects when the API server does not answer at all. */
export async function readCluster(access: AccessProvider, host: ThisHost, signal: AbortSignal): Promise<ClusterFact> {
  const ahead = await clockAheadMs(access, signal)
  const client = new ApiClient({ access, userAgent: `kube-ipvs/${VERSION}`, contentType: 'application/json' })
  const one = async (path: string, name: string): Promise<unknown> =>
    (await client.list(path, { fieldSelector: `metadata.name=${name}`, limit: '1' }, signal)).items[0]
  const own = await attempt(() => one('/api/v1/nodes', host.nodeName))
  const labels = 'value' in own ? memberAt(own.value, 'metadata', 'labels') : undefined
  try {
    return {
      clockAheadSeconds: Math.round(ahead) / 1000,
      daemonSets: await attempt(async () => {
        const { items } = await client.list('/apis/apps/v1/daemonsets', { limit: String(MAX_DAEMON_SETS) }, signal)
        return items.slice(0, MAX_DAEMON_SETS).map((item) => daemonSetOf(item, labels))
      }),
      kubeProxyMode: await attempt(async () => {
        const text = textAt(await one('/api/v1/namespaces/kube-system/configmaps', 'kube-proxy'), 'data', 'config.conf')
        return text === null ? null : (/^mode:\s*["']?(\w*)/m.exec(text)?.[1] ?? '')
      }),
      ciliumReplacement: await attempt(async () => {
        const map = await one('/api/v1/namespaces/kube-system/configmaps', 'cilium-config')
        return textAt(map, 'data', 'kube-proxy-replacement')
      }),
      calicoBpf: await withoutCrd(async () => {
        const felix = await one('/apis/crd.projectcalico.org/v1/felixconfigurations', 'default')
        return felix === undefined ? null : memberAt(felix, 'spec', 'bpfEnabled') === true
      }),
      node: await attempt(async () => {
        if ('unseen' in own) throw new Error(own.unseen)
        if (textAt(own.value, 'metadata', 'name') === host.nodeName) return { isThere: true, similar: [] }
        const { items } = await client.list('/api/v1/nodes', { limit: String(MAX_NODES) }, signal)
        const similar = items.slice(0, MAX_NODES).filter((item) => isSimilar(item, host))
        const names = similar.flatMap((item) => textAt(item, 'metadata', 'name') ?? [])
        return { isThere: false, similar: names.slice(0, MAX_SIMILAR) }
      }),
    }
  } finally {
    await client.close()
  }
}

/** A cluster without the resource has no object of it. */
async function withoutCrd(read: () => Promise<boolean | null>): Promise<Seen<boolean | null>> {
  return attempt(async () => {
    try {
      return await read()
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return null
      throw error
    }
  })
}

function memberAt(object: unknown, ...names: readonly string[]): unknown {
  let at = object
  for (const name of names) at = isPlainObject(at) && Object.hasOwn(at, name) ? at[name] : undefined
  return at
}

function textAt(object: unknown, ...names: readonly string[]): string | null {
  const found = memberAt(object, ...names)
  return typeof found === 'string' ? found : null
}

/** Whether a Node may be this host: it has an address of it, or the same name with another domain. */
function isSimilar(item: unknown, { nodeName, addresses }: ThisHost): boolean {
  const listed = memberAt(item, 'status', 'addresses')
  const own = Array.isArray(listed) ? listed.map((one: unknown) => textAt(one, 'address') ?? '') : []
  const [short] = nodeName.split('.')
  return own.some((address) => addresses.includes(address)) || textAt(item, 'metadata', 'name')?.split('.')[0] === short
}

/** Whether a node selector matches labels; null: there are none to compare. */
function matches(selector: unknown, labels: unknown): boolean | null {
  if (!isPlainObject(labels)) return null
  return !isPlainObject(selector) || Object.entries(selector).every(([name, value]) => memberAt(labels, name) === value)
}

function daemonSetOf(item: unknown, labels: unknown) {
  const containers = memberAt(item, 'spec', 'template', 'spec', 'containers')
  const images = Array.isArray(containers) ? containers.map((one: unknown) => textAt(one, 'image') ?? '') : []
  const desired = memberAt(item, 'status', 'desiredNumberScheduled')
  return {
    namespace: textAt(item, 'metadata', 'namespace') ?? '',
    name: textAt(item, 'metadata', 'name') ?? '',
    images: images.slice(0, 10),
    desired: typeof desired === 'number' ? desired : 0,
    selectsHere: matches(memberAt(item, 'spec', 'template', 'spec', 'nodeSelector'), labels),
  }
}
