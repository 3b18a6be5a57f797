/** An address and port as people name them, and the frontends that it may mean on a node. */
import { type FrontendKey, frontendKey, nodePortKey } from '../service/frontends.ts'
import { parseAddress } from '../values/address.ts'
import { IP_FAMILIES, type IpFamily, type Protocol } from '../values/protocol.ts'

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
