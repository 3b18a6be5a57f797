/**
 * What can be wrong with a firewall of iptables, one thing at a time: each of its rules is missing,
 * or one of its sets is empty. The judge has to notice it, or its silence about a correct firewall
 * says little.
 */
import type { IpFamily } from '../../src/values/protocol.ts'
import type { World } from './world.ts'

export interface Mutant {
  /** The rule, or the set. */
  readonly name: string
  /** Shell scripts: the first breaks the firewall, the second mends it. */
  readonly damage: string
  readonly repair: string
}

export const isOfFamily =
  (family: IpFamily) =>
  ({ name }: Mutant): boolean =>
    /^ip6tables|KUBE-6-/.test(name) === (family === 'IPv6')

/** Rules and sets that kube-proxy has too, whose absence no packet shows. */
const EQUIVALENT: readonly RegExp[] = [
  // Behind these rules only those for node ports follow, which mark what is marked already, and of
  // the two for policy Local the second alone matches everything, because VIPs are local.
  /-A KUBE-SERVICES .*KUBE-(6-)?EXTERNAL-IP dst,dst .*-j ACCEPT$/,
  /-A KUBE-SERVICES .*KUBE-(6-)?EXTERNAL-IP-LOCAL dst,dst -m physdev .*-j ACCEPT$/,
  // The last rules of their chain.
  /-A KUBE-SERVICES -m set --match-set KUBE-(6-)?(CLUSTER-IP|LOAD-BALANCER) dst,dst -j ACCEPT$/,
  // Nothing that goes to a VIP is forwarded, and what IPVS sends to an endpoint passes OUTPUT.
  /-A FORWARD .*-j KUBE-PROXY-FIREWALL$/,
  /-A KUBE-FORWARD .*-m mark .*-j ACCEPT$/,
  // IPVS takes what the node sends to its own VIP in OUTPUT, so that it never passes INPUT.
  /-A KUBE-SOURCE-RANGES-FIREWALL .*LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN$/,
  /^the entries of KUBE-(6-)?LOAD-BALANCER-SOURCE-IP$/,
]

export const isEquivalent = ({ name }: Mutant): boolean => EQUIVALENT.some((pattern) => pattern.test(name))

const TABLES = ['mangle', 'nat', 'filter'] as const

/** All of a world whose firewall is one of iptables. */
export function mutantsOf(world: World): Mutant[] {
  const { backEnd } = world.firewall
  const rules = ['iptables', 'ip6tables'].flatMap((program) =>
    TABLES.flatMap((table) => ruleMutants(`${program}-${backEnd} -t ${table}`, world)),
  )
  return [...rules, ...setMutants(world)]
}

function ruleMutants(command: string, world: World): Mutant[] {
  const positions = new Map<string, number>()
  return world
    .run(`${command} -S`)
    .split('\n')
    .flatMap((line) => {
      const [, chain, rule = ''] = /^-A (\S+) (.*)$/.exec(line) ?? []
      if (chain === undefined) return []
      const position = (positions.get(chain) ?? 0) + 1
      positions.set(chain, position)
      if (!line.includes('KUBE-') || line.includes('KUBE-IPTABLES-HINT')) return []
      return [
        {
          name: `${command} ${line}`,
          damage: `${command} -D ${chain} ${position}`,
          repair: `${command} -I ${chain} ${position} ${rule}`,
        },
      ]
    })
}

function setMutants(world: World): Mutant[] {
  const entries = world
    .run('ipset save')
    .split('\n')
    .filter((line) => line.startsWith('add KUBE-'))
  const sets = Map.groupBy(entries, (entry) => entry.split(' ')[1] ?? '')
  return [...sets].map(([name, lines]) => ({
    name: `the entries of ${name}`,
    damage: `ipset flush ${name}`,
    repair: `ipset restore <<'END'\n${lines.join('\n')}\nEND`,
  }))
}
