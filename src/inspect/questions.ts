/**
 * What the daemon and its commands agree on at the local socket: the format of answers, their
 * paths, parameters and limits, and what a refusal says. The shapes of the answers are in view.ts,
 * which only commands load.
 */

import { type FrontendKey, frontendKey, nodePortKey } from '../service/frontends.ts'
import { parseAddress } from '../values/address.ts'
import { IP_FAMILIES, type IpFamily, type Protocol } from '../values/protocol.ts'

/** Changes when an older command would misread an answer. A command refuses answers of another format than its own. */
export const VIEW_FORMAT = 3

/** `namespace/name` of a Service or a pod. Kubernetes' names of namespaces, Services and pods are DNS names. */
export const OBJECT_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/

/** Paths of the answers. */
export const VIEW_PATH = {
  /** DaemonView */
  daemon: '/v1/daemon',
  /** NamesPage; parameters `after` (the last key of the page before) and `limit`, at most MAX_PAGE. */
  names: '/v1/names',
  /**
   * ServicesView; parameter `service` (`namespace/name`), or `port`, and with it `address` and
   * `protocol`. A port alone is a node port; without a protocol each is meant.
   */
  services: '/v1/services',
  /** RowsView */
  rows: '/v1/rows',
  /** DrainsView */
  drains: '/v1/drains',
  /** OutliersView */
  outliers: '/v1/outliers',
  /** PodView; parameter `pod` (`namespace/name`). */
  pod: '/v1/pod',
  /**
   * ConnectionsView; parameters `to` (an IP or `IP:port`, up to MAX_TARGETS times) and `udp` (`1`:
   * count its flows too).
   */
  connections: '/v1/connections',
} as const

/** The most frontends in one NamesPage. */
export const MAX_PAGE = 2000
/** The most parameters `to` of one question about connections. */
export const MAX_TARGETS = 64

/**
 * `starting`: there is no proxy yet; `gone`: the key of a page exists no more, begin again;
 * `unreadable`: the source of objects does not answer. The others are mistakes of the client.
 */
export type RefusalCode = 'starting' | 'gone' | 'unreadable' | 'bad-parameter' | 'unknown-path' | 'wrong-method'

/** The body of every answer but 200. */
export interface RefusalView {
  readonly format: number
  readonly error: { readonly code: RefusalCode; readonly message: string }
}

export interface Place {
  /** Absent: a node port. */
  readonly address?: string | undefined
  readonly port: number
  /** undefined: any */
  readonly protocol: Protocol | undefined
}

const PROTOCOLS: readonly Protocol[] = ['tcp', 'udp', 'sctp']
const LAST_PORT = 65_535

/** As parameters of a question. */
export function placeWords({ address, port, protocol }: Place): Readonly<Record<string, string>> {
  return {
    port: String(port),
    ...(address === undefined ? {} : { address }),
    ...(protocol === undefined ? {} : { protocol }),
  }
}

/** Reads such parameters, which are foreign text; undefined: they are wrong. */
export function placeOfWords(words: URLSearchParams): Place | undefined {
  const [port, written, word] = [words.get('port') ?? '', words.get('address'), words.get('protocol')]
  const address = written === null ? undefined : written.length > 45 ? undefined : parseAddress(written)
  const protocol = PROTOCOLS.find((one) => one === word)
  const isWrong =
    !/^[1-9][0-9]{0,4}$/.test(port) ||
    Number(port) > LAST_PORT ||
    (written !== null && address === undefined) ||
    (word !== null && protocol === undefined)
  return isWrong ? undefined : { address, port: Number(port), protocol }
}

/** The keys that a place may mean. @param nodePortAddresses of the node */
export function keysAt(
  { address, port, protocol }: Place,
  nodePortAddresses: Readonly<Record<IpFamily, readonly string[]>>,
): readonly FrontendKey[] {
  return (protocol === undefined ? PROTOCOLS : [protocol]).flatMap((one) =>
    address === undefined
      ? IP_FAMILIES.flatMap((family) => [
          ...nodePortAddresses[family].map((node) => frontendKey(node, port, one)),
          nodePortKey(family, port, one),
        ])
      : frontendKey(address, port, one),
  )
}
