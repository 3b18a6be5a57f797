/**
 * What the manifests promise, read without kube-ipvs: each address that must answer, its kind, and
 * the ready endpoints behind it. The demo uses it to decide when the table is complete and where to
 * send requests. It knows only as much of Kubernetes as the examples use.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'

export type AddressKind = 'ClusterIP' | 'NodePort' | 'external IP' | 'load balancer'

export interface Expected {
  readonly service: string
  readonly kind: AddressKind
  /** `10.96.0.10:80/tcp` */
  readonly key: string
  /** `http://10.96.0.10:80/` */
  readonly url: string
  /** `10.244.0.11:8080`, sorted */
  readonly realServers: readonly string[]
}

interface Port {
  name?: string
  port: number
  nodePort?: number
}
interface ServiceManifest {
  kind: 'Service'
  metadata: { name: string }
  spec: { clusterIPs?: string[]; clusterIP?: string; externalIPs?: string[]; ports?: Port[] }
  status?: { loadBalancer?: { ingress?: { ip?: string; ipMode?: string }[] } }
}
interface SliceManifest {
  kind: 'EndpointSlice'
  metadata: { labels?: Record<string, string> }
  addressType: 'IPv4' | 'IPv6'
  ports?: Port[]
  endpoints?: { addresses: string[]; conditions?: { ready?: boolean } }[]
}
type Manifest = ServiceManifest | SliceManifest

/** `address:port` with IPv6 in brackets. */
const endpoint = (address: string, port: number): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`

/** Undefined while a file is not valid YAML because it is being edited. */
export function expectedOf(folder: string, nodeAddresses: readonly string[]): Expected[] | undefined {
  try {
    const files = readdirSync(folder).filter((name) => /\.ya?ml$/.test(name))
    const texts = files.map((name) => readFileSync(join(folder, name), 'utf8'))
    return expectedOfManifests(texts, nodeAddresses)
  } catch {
    return undefined
  }
}

/** Throws when a text is not YAML, or does not have the form of the objects that it names. */
export function expectedOfManifests(texts: readonly string[], nodeAddresses: readonly string[]): Expected[] {
  const documents = texts.flatMap((text) => parseAllDocuments(text))
  for (const { errors } of documents) if (errors[0] !== undefined) throw errors[0]
  const objects = documents.map((document) => document.toJS() as Manifest | null) // shaped as the examples are
  const slices = objects.filter((object): object is SliceManifest => object?.kind === 'EndpointSlice')
  return objects.flatMap((object) =>
    object?.kind === 'Service' ? expectedOfService(object, slices, nodeAddresses) : [],
  )
}

function expectedOfService(
  { metadata, spec, status }: ServiceManifest,
  slices: readonly SliceManifest[],
  nodeAddresses: readonly string[],
): Expected[] {
  const own = slices.filter((slice) => slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name)
  const clusterIps = spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP])
  const vips = (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, ipMode }) =>
    ip === undefined || ipMode === 'Proxy' ? [] : [ip],
  )
  const isIpv6 = (address: string): boolean => address.includes(':')
  const families = new Set(clusterIps.map(isIpv6))
  return (spec.ports ?? []).flatMap((port) => {
    const nodePort = port.nodePort ?? 0
    const at = (kind: AddressKind, addresses: readonly string[], number: number): Expected[] =>
      addresses
        .filter((address) => families.has(isIpv6(address)))
        .map((address) => ({
          service: metadata.name,
          kind,
          key: `${endpoint(address, number)}/tcp`,
          url: `http://${endpoint(address, number)}/`,
          realServers: realServers(own, port.name ?? '', isIpv6(address) ? 'IPv6' : 'IPv4'),
        }))
    return [
      ...at('ClusterIP', clusterIps, port.port),
      ...at('NodePort', nodePort === 0 ? [] : nodeAddresses, nodePort),
      ...at('external IP', spec.externalIPs ?? [], port.port),
      ...at('load balancer', vips, port.port),
    ]
  })
}

function realServers(slices: readonly SliceManifest[], portName: string, family: 'IPv4' | 'IPv6'): string[] {
  return slices
    .filter((slice) => slice.addressType === family)
    .flatMap((slice) => {
      const port = (slice.ports ?? []).find(({ name }) => (name ?? '') === portName)
      const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false)
      return port === undefined ? [] : ready.flatMap(({ addresses }) => addresses.map((ip) => endpoint(ip, port.port)))
    })
    .sort()
}
