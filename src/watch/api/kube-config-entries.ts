/**
 * The entries of a kubeconfig as they stand in the file, for what client-node does not know of them.
 * Only those of the current context have to be complete, as for client-go.
 */
import type { Cluster, KubeConfig } from '@kubernetes/client-node'
import type { CodedError } from '../../values/errors.ts'
import { isObject, type JsonObject } from '../objects/findings.ts'

/** Makes the error for a wrong configuration. */
export type Wrong = (message: string, cause?: unknown) => CodedError

/** Gives the URL of `--master` to clusters that have no server of their own. */
export function withMaster(json: JsonObject, master: string): JsonObject {
  const clusters = Array.isArray(json['clusters']) ? json['clusters'] : []
  const given = clusters.map((entry: unknown) =>
    isObject(entry) && isObject(entry['cluster']) && !entry['cluster']['server']
      ? { ...entry, cluster: { ...entry['cluster'], server: master } }
      : entry,
  )
  return { ...json, clusters: given }
}

/** Why the current context is not among those that are complete. */
export function withoutContext(json: JsonObject, context: string | undefined): string {
  const entry = entryIn(json, 'contexts', context ?? '')
  if (entry === undefined) return `current-context: there is no context "${context ?? ''}"`
  return `contexts["${context}"].context${isObject(entry['context']) ? '.cluster' : ''} is missing`
}

export function withoutCluster(json: JsonObject, context: string, name: string): string {
  const entry = entryIn(json, 'clusters', name)
  if (entry === undefined) return `contexts["${context}"].context.cluster: there is no such cluster`
  return `clusters["${name}"].cluster${isObject(entry['cluster']) ? '.server' : ''} is missing`
}

/** An empty proxy-url is none, as for client-go, which also takes socks5. It may hold a password. */
export function checkProxy(config: KubeConfig, { name, proxyUrl }: Cluster, wrong: Wrong): void {
  const url: unknown = proxyUrl
  if (url === undefined || url === null || url === '') {
    config.clusters = config.clusters.map((cluster) => {
      const { proxyUrl: _, ...others } = cluster
      return cluster.name === name ? others : cluster
    })
    return
  }
  const parsed = typeof url === 'string' ? URL.parse(url) : null
  if (parsed === null) throw wrong(`clusters["${name}"].cluster.proxy-url: is not a URL`)
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')
    throw wrong(
      `clusters["${name}"].cluster.proxy-url: only http and https proxies are supported, not "${parsed.protocol.slice(0, -1)}"`,
    )
}

/** client-node sends none of these, and so would act as somebody else. */
export function checkImpersonation(json: JsonObject, name: string | undefined, wrong: Wrong): void {
  const entry = entryIn(json, 'users', name ?? '')
  const user = isObject(entry?.['user']) ? entry['user'] : {}
  for (const field of ['as-groups', 'as-uid', 'as-user-extra'] as const) {
    const value = user[field]
    const isEmpty =
      value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)
    if (!isEmpty) throw wrong(`users["${name}"].user.${field}: is not supported; only "as" is`)
  }
}

/** The `cluster` of that name as it stands in the kubeconfig. */
export function clusterIn(json: JsonObject, name: string): JsonObject {
  const entry = entryIn(json, 'clusters', name)
  return isObject(entry?.['cluster']) ? entry['cluster'] : {}
}

/** The entry of that name in one of the lists. */
function entryIn(json: JsonObject, list: 'clusters' | 'contexts' | 'users', name: string): JsonObject | undefined {
  const all = Array.isArray(json[list]) ? json[list] : []
  return all.find((candidate): candidate is JsonObject => isObject(candidate) && candidate['name'] === name)
}
