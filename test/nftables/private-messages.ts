/** Messages about private tables for tests: items, and messages as the kernel sends them. */
import { type MessageBatch, requestOf } from '../../src/netlink/batch.ts'
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { decodeElements } from '../../src/nftables/element-codec.ts'
import type { NftChain, NftElement, NftSet } from '../../src/nftables/types.ts'
import { onlyMessage } from '../netlink/wire.ts'

export const SERVICE = ['daddr', 'l4proto', 'dport'] as const
export const PORTS: NftSet = { kind: 'set', family: 'IPv6', name: 'ports', fields: SERVICE, isMap: false }
export const RANGES: NftSet = { kind: 'set', family: 'IPv4', name: 'ranges', fields: SERVICE, isMap: true }
export const INPUT: NftChain = {
  kind: 'chain',
  family: 'IPv4',
  name: 'in',
  hook: { type: 'filter', hook: 'input', priority: -5 },
  rules: [],
}
export const JUMP: NftElement = {
  kind: 'element',
  family: 'IPv4',
  set: 'ranges',
  value: '10.96.0.1 . tcp . 80',
  action: { kind: 'goto', chain: 'r1' },
}
export const PORT: NftElement = { kind: 'element', family: 'IPv6', set: 'ports', value: 'fd00::1 . udp . 53' }

/** A message as the kernel sends it: attributes and flags are as in a request. */
export function received(encode: (batch: MessageBatch) => void): ReceivedMessage {
  return onlyMessage(requestOf(encode).bytes.slice())
}

/** What a message has of a set. */
export function elementsOf(given: ReceivedMessage, set: NftSet): NftElement[] {
  const found: NftElement[] = []
  decodeElements(given, set, (element) => void found.push(element))
  return found
}
