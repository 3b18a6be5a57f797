/** Private tables with every kind of set, chain, hook and statement, for tests on a kernel. */
import { sameItem } from '../../src/nftables/same-item.ts'
import {
  type NftChain,
  type NftElement,
  type NftItem,
  nftKey,
  type NftOperation,
  type NftRule,
  type NftStatement,
} from '../../src/nftables/types.ts'
import { CodedError } from '../../src/values/errors.ts'
import type { IpFamily } from '../../src/values/protocol.ts'

const SERVICE = ['daddr', 'l4proto', 'dport'] as const
const RETURN: NftStatement = { kind: 'verdict', action: { kind: 'return' } }
const NEW: NftStatement = { kind: 'new-connection' }

/** Texts of each family. */
const TEXTS = {
  IPv4: { vip: '10.96.0.1', pod: '10.2.0.2', network: '10.0.0.0/8', odd: '172.16.0.0/12', host: '192.0.2.7' },
  IPv6: { vip: 'fd00::1', pod: 'fd01::2', network: 'fd00::/8', odd: 'fd12::/17', host: '2001:db8::7' },
} as const

/** Everything in the private table of a family. */
export function privateTables(family: IpFamily, isOwned = false): readonly NftItem[] {
  const { vip, pod, network, odd, host } = TEXTS[family]
  const chain = (name: string, rules: readonly NftRule[], hook?: NftChain['hook']): NftChain => ({
    kind: 'chain',
    family,
    name,
    rules,
    ...(hook === undefined ? {} : { hook }),
  })
  const element = (set: string, value: string, action?: NftElement['action']): NftElement => {
    return { kind: 'element', family, set, value, ...(action === undefined ? {} : { action }) }
  }
  const rule = (...statements: readonly NftStatement[]): NftRule => ({ statements })
  return [
    { kind: 'table', family, isOwned },
    { kind: 'set', family, name: 'vips', fields: ['daddr'], isMap: false },
    { kind: 'set', family, name: 'ports', fields: SERVICE, isMap: false },
    { kind: 'set', family, name: 'hairpins', fields: [...SERVICE, 'saddr'], isMap: false },
    { kind: 'set', family, name: 'health-check-ports', fields: ['l4proto', 'dport'], isMap: false },
    { kind: 'set', family, name: 'marks', fields: SERVICE, isMap: true },
    chain('services', [
      { statements: [{ kind: 'set-mark', mask: 0x4000, to: 'set' }], comment: 'to be masqueraded' },
      rule({ kind: 'set-mark', mask: 0x4000, to: 'clear' }),
    ]),
    chain('ranges-default/web', [
      rule({ kind: 'networks', field: 'saddr', cidrs: [network, host] }, RETURN),
      rule({ kind: 'network', field: 'saddr', cidr: odd }, RETURN),
      rule({ kind: 'network', field: 'daddr', cidr: host, isNot: true }, RETURN),
      rule({ kind: 'verdict', action: { kind: 'drop' } }),
    ]),
    chain(
      'filter-input',
      [
        rule({ kind: 'protocol', protocol: 'sctp' }, RETURN),
        rule({ kind: 'interface', name: 'lo' }, RETURN),
        rule({ kind: 'interface', name: 'veth*', isNot: true }, RETURN),
        rule({ kind: 'lookup', fields: ['l4proto', 'dport'], set: 'health-check-ports' }, RETURN),
        rule(
          NEW,
          { kind: 'lookup', fields: ['daddr'], set: 'vips' },
          { kind: 'lookup', fields: SERVICE, set: 'ports', isNot: true },
          { kind: 'reject' },
        ),
      ],
      { type: 'filter', hook: 'input', priority: -5 },
    ),
    chain('filter-output', [rule(NEW, { kind: 'verdict-map', fields: SERVICE, map: 'marks' })], {
      type: 'filter',
      hook: 'output',
      priority: -110,
    }),
    chain(
      'nat-prerouting',
      [rule(NEW, { kind: 'lookup', fields: SERVICE, set: 'ports' }, { kind: 'keep-destination' })],
      {
        type: 'nat',
        hook: 'prerouting',
        priority: -105,
      },
    ),
    chain(
      'nat-postrouting',
      [
        rule(
          { kind: 'lookup', fields: [...SERVICE, 'saddr'], set: 'hairpins' },
          { kind: 'masquerade', isFullyRandom: false },
        ),
        rule({ kind: 'mark', mask: 0x4000, isNot: true }, RETURN),
        rule({ kind: 'mark', mask: 0x4000 }, { kind: 'masquerade', isFullyRandom: true }),
      ],
      { type: 'nat', hook: 'postrouting', priority: 95 },
    ),
    element('vips', vip),
    element('vips', host),
    element('ports', `${vip} . tcp . 443`),
    element('ports', `${vip} . sctp . 65535`),
    element('hairpins', `${pod} . udp . 53 . ${pod}`),
    element('health-check-ports', 'tcp . 10256'),
    element('marks', `${vip} . tcp . 443`, { kind: 'goto', chain: 'services' }),
    element('marks', `${vip} . udp . 53`, { kind: 'jump', chain: 'ranges-default/web' }),
    element('marks', `${host} . tcp . 80`, { kind: 'drop' }),
  ]
}

/** The same operation on all items. */
export const all = (kind: NftOperation['kind'], items: Iterable<NftItem>): NftOperation[] =>
  [...items].map((item) => ({ kind, item }))

/** The items that differ from the wanted ones, by key. */
export function differences(wanted: Iterable<NftItem>, live: ReadonlyMap<string, NftItem>): string[] {
  const items = new Map([...wanted].map((item) => [nftKey(item), item]))
  const changed = [...items].filter(([key, item]) => {
    const there = live.get(key)
    return there === undefined || !sameItem(item, there)
  })
  return [...changed.map(([key]) => key), ...[...live.keys()].filter((key) => !items.has(key))]
}

/** An element of the family IPv4. @param chain where its verdict goes */
export function element(set: string, value: string, chain?: string): NftElement {
  const item = { kind: 'element', family: 'IPv4', set, value } as const
  return chain === undefined ? item : { ...item, action: { kind: 'goto', chain } }
}

/** The code of an outcome. */
export function codeOf(error: unknown): string {
  return error instanceof CodedError ? error.code : String(error)
}
