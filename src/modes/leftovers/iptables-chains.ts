/**
 * What iptables mode of kube-proxy leaves behind, and how it is taken away: for cleanup, which does not know which mode
 * ran before. Pure.
 * What could break: only chains and jumps that kube-proxy makes go. Kubelet's stay, with KUBE-FIREWALL, which it shares
 * with kube-proxy, wherever kubelet shows itself; and so does a chain that somebody else's rule leads to, but emptied.
 */
import type { IpFamily } from '../../values/protocol.ts'
import { jumpRule } from '../../iptables/layout.ts'
import { CHAINS, JUMPS } from '../ipvs/rules/chain-names.ts'
import { canonicalRule, targetOf } from '../../iptables/rule-text.ts'
import type { SavedTable, SavedTables } from '../../iptables/save-text.ts'

/** What goes from one table. */
export interface TableLeftovers {
  readonly table: string
  /** Input of `iptables-restore --noflush`. */
  readonly restore: string
  /** The same as an operator would type it. */
  readonly commands: readonly string[]
}

/** Chains that only iptables mode has, by table. KUBE-FIREWALL in nat is of ipvs mode before 1.12. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  nat: ['KUBE-NODEPORTS', 'KUBE-PROXY-CANARY', 'KUBE-FIREWALL'],
  filter: ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-CANARY', 'KUBE-FIREWALL'],
  mangle: ['KUBE-PROXY-CANARY'],
}
/** Chains of one Service port or endpoint. */
const OF_SERVICE = /^KUBE-(SVC|SVL|SEP|FW|EXT|XLB)-[A-Z2-7]{16}$/
const KUBELET = ['KUBE-KUBELET-CANARY', 'KUBE-IPTABLES-HINT']

/** Jumps of iptables mode: `table from to`. Their texts differ from release to release. */
const OWN_JUMPS: ReadonlySet<string> = new Set([
  ...JUMPS.map(({ table, from, to }) => `${table} ${from} ${to}`),
  ...['INPUT', 'FORWARD'].map((from) => `filter ${from} KUBE-EXTERNAL-SERVICES`),
  ...['INPUT', 'FORWARD', 'OUTPUT'].flatMap((from) => [
    `filter ${from} KUBE-SERVICES`,
    `filter ${from} KUBE-NODEPORTS`,
  ]),
  ...['INPUT', 'FORWARD', 'OUTPUT'].map((from) => `filter ${from} KUBE-PROXY-FIREWALL`),
  ...['INPUT', 'OUTPUT'].map((from) => `filter ${from} KUBE-FIREWALL`),
])

/** What to take away of a family; empty when iptables mode left nothing. @param suffix of the programs, `-legacy` */
export function leftoversOf(saved: SavedTables, family: IpFamily, suffix: string): readonly TableLeftovers[] {
  const hasKubelet = [...saved.values()].some((table) => KUBELET.some((chain) => table.has(chain)))
  const program = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}${suffix}`
  return [...saved].flatMap(([name, table]) => {
    const isLeftover = (chain: string): boolean =>
      NAMES[name]?.includes(chain) === true
        ? !(hasKubelet && name === 'filter' && chain === 'KUBE-FIREWALL')
        : name === 'nat' && OF_SERVICE.test(chain)
    return removalFrom(name, table, isLeftover, `${program} -t ${name}`)
  })
}

function removalFrom(
  name: string,
  table: SavedTable,
  isLeftover: (chain: string) => boolean,
  program: string,
): TableLeftovers[] {
  const leftovers = [...table.keys()].filter(isLeftover)
  const isShared = (chain: string): boolean => (name === 'nat' || name === 'filter') && isOfIpvsMode(name, chain)
  const emptied = new Set(leftovers)
  const jumps: string[] = []
  const inUse = new Set<string>()
  for (const [chain, rules] of table) {
    if (isLeftover(chain)) continue
    for (const rule of rules) {
      const target = targetOf(rule) ?? ''
      if (isShared(chain) && isLeftover(target)) emptied.add(chain)
      else if (
        OWN_JUMPS.has(`${name} ${chain} ${target}`) &&
        (isLeftover(target) || (isShared(target) && isOfIptablesMode(name, chain, rule)))
      )
        jumps.push(`${chain} ${rule}`)
      else if (isLeftover(target)) inUse.add(target)
    }
  }
  const deleted = leftovers.filter((chain) => !inUse.has(chain))
  if (emptied.size + jumps.length === 0) return []
  const flushes = [...emptied]
  const lines = [
    `*${name}`,
    ...flushes.map((chain) => `:${chain} - [0:0]`),
    ...jumps.map((jump) => `-D ${jump}`),
    ...deleted.map((chain) => `-X ${chain}`),
    'COMMIT',
  ]
  const commands = [
    ...jumps.map((jump) => `-D ${jump}`),
    ...flushes.map((chain) => `-F ${chain}`),
    ...deleted.map((chain) => `-X ${chain}`),
  ]
  return [{ table: name, restore: `${lines.join('\n')}\n`, commands: commands.map((text) => `${program} ${text}`) }]
}

function isOfIpvsMode(table: keyof typeof CHAINS, chain: string): boolean {
  const names: readonly string[] = CHAINS[table]
  return names.includes(chain)
}

/** Jumps of ipvs mode, which it removes itself: `table from rule`. */
const IPVS_JUMPS: ReadonlySet<string> = new Set(
  JUMPS.map((place) => `${place.table} ${place.from} ${canonicalRule(jumpRule(place))}`),
)

/** A jump into a chain that both modes have, in words that only iptables mode uses. */
function isOfIptablesMode(table: string, from: string, rule: string): boolean {
  return !IPVS_JUMPS.has(`${table} ${from} ${canonicalRule(rule)}`)
}
