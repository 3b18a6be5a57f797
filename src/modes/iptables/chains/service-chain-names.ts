/**
 * The chains of iptables mode that belong to one Service port or one of its endpoints, named as kube-proxy names them.
 * What could break: the hashed text. Other programs and people find a Service's chain by its name.
 */
import { hash } from 'node:crypto'

/** What each is for: cluster and local endpoints, external traffic, source ranges, one endpoint. */
export type ServiceChainKind = 'SVC' | 'SVL' | 'EXT' | 'FW' | 'SEP'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
/** Letters of a name's hash: 80 bits. */
const LETTERS = 16

/** The first 16 letters of base32 (RFC 4648) of the SHA-256 of a text. */
export function chainHash(text: string): string {
  const digest = hash('sha256', text, 'buffer')
  let letters = ''
  let bits = 0
  let left = 0
  for (let at = 0; letters.length < LETTERS; ) {
    if (left < 5) {
      bits = ((bits & 0x1f) << 8) | (digest[at++] ?? 0)
      left += 8
    }
    left -= 5
    letters += ALPHABET[(bits >> left) & 0x1f]
  }
  return letters
}

/** `KUBE-SVC-XPGD46QRK7WJZT7O`. `portHash`: chainHash of `namespace/name:port` and the protocol. */
export function serviceChain(kind: Exclude<ServiceChainKind, 'SEP'>, portHash: string): string {
  return `KUBE-${kind}-${portHash}`
}

/** `KUBE-SEP-SXIVWICOYRO3J4NJ`. @param port `namespace/name:port` and the protocol @param endpoint `10.180.0.1:80` */
export function endpointChain(port: string, endpoint: string): string {
  return `KUBE-SEP-${chainHash(port + endpoint)}`
}
