/**
 * The chains of iptables mode that do not depend on Services, and the last rules of KUBE-SERVICES,
 * which jump to KUBE-NODEPORTS. They must be the last ones, or they would match traffic to
 * addresses of Services.
 */
import { familyOf, isLoopback } from '../../../values/address.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { quoteWord } from '../../../iptables/rule-text.ts'

/** Where node ports answer: at every address of the node, or only at these. */
export type NodePortPlaces = 'all' | readonly string[]

export interface FixedInput {
  readonly family: IpFamily
  /** Bit of the packet mark that requests masquerading, 0-31. */
  readonly masqueradeBit: number
  /** Whether iptables supports MASQUERADE --random-fully. */
  readonly randomFully: boolean
  /** Whether node ports answer at 127.0.0.0/8 too. IPv6 has no such option. */
  readonly localhostNodePorts: boolean
  /** Whether packets in conntrack state INVALID are dropped; false when connection tracking is liberal. */
  readonly dropsInvalid: boolean
  /** Whether these dropped packets are counted (nfacct). */
  readonly countsInvalid: boolean
}

/** Counter of packets dropped as INVALID. */
export const INVALID_COUNTER = 'ct_state_invalid_dropped_pkts'

/** Rules of the fixed chains by the key of their item, without chains that are empty or that Services share. */
export function renderFixedChains(input: FixedInput): ReadonlyMap<string, readonly string[]> {
  const mark = `0x${((1 << input.masqueradeBit) >>> 0).toString(16)}`
  const counter = input.countsInvalid ? ` -m nfacct --nfacct-name  ${INVALID_COUNTER}` : ''
  const localhost = input.family === 'IPv4' && input.localhostNodePorts
  return new Map([
    ['nat KUBE-MARK-MASQ', [`-j MARK --set-xmark ${mark}/${mark}`]],
    [
      'nat KUBE-POSTROUTING',
      [
        `-m mark ! --mark ${mark}/${mark} -j RETURN`,
        // Removes the mark, so that a packet that passes twice is not masqueraded twice.
        `-j MARK --set-xmark ${mark}/0x0`,
        `-m comment --comment ${quoteWord('kubernetes service traffic requiring SNAT')} -j MASQUERADE${input.randomFully ? ' --random-fully' : ''}`,
      ],
    ],
    [
      'filter KUBE-FIREWALL',
      localhost
        ? [
            `! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment ${quoteWord('block incoming localnet connections')} -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP`,
          ]
        : [],
    ],
    [
      'filter KUBE-FORWARD',
      [
        // A late answer would reach the client with the endpoint's address as its source (kubernetes PR 74840).
        ...(input.dropsInvalid ? [`-m conntrack --ctstate INVALID${counter} -j DROP`] : []),
        `-m comment --comment ${quoteWord('kubernetes forwarding rules')} -m mark --mark ${mark}/${mark} -j ACCEPT`,
        `-m comment --comment ${quoteWord('kubernetes forwarding conntrack rule')} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
      ],
    ],
  ])
}

/** The last rules of nat KUBE-SERVICES: they send all other traffic to KUBE-NODEPORTS. */
export function nodePortJumps(
  places: NodePortPlaces,
  { family, localhostNodePorts }: Pick<FixedInput, 'family' | 'localhostNodePorts'>,
): readonly string[] {
  const comment = `-m comment --comment ${quoteWord('kubernetes service nodeports; NOTE: this must be the last rule in this chain')}`
  const loopback = family === 'IPv6' ? '::1/128' : '127.0.0.0/8'
  const excludesLoopback = family === 'IPv6' || !localhostNodePorts
  if (places === 'all')
    return [`${excludesLoopback ? `! -d ${loopback} ` : ''}${comment} -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`]
  return places
    .filter((address) => loopbackRefusal(address, localhostNodePorts) === undefined)
    .map((address) => `-d ${address}/${family === 'IPv4' ? 32 : 128} ${comment} -j KUBE-NODEPORTS`)
}

/**
 * Why node ports do not answer at an address inside nodePortAddresses, in kube-proxy's words;
 * undefined when they do.
 */
export function loopbackRefusal(address: string, localhostNodePorts: boolean): string | undefined {
  if (!isLoopback(address)) return undefined
  if (familyOf(address) === 'IPv6')
    return '--nodeport-addresses includes localhost but localhost NodePorts are not supported on IPv6'
  if (localhostNodePorts) return undefined
  return '--nodeport-addresses includes localhost but --iptables-localhost-nodeports=false was passed'
}
