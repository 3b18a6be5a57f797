/**
 * Check of the way of packets to Services through the rules of every program, as predicted from
 * what the kernel has.
 */
import type { PathFact } from '../rule-facts.ts'
import type { NodeFacts } from '../facts.ts'
import { type Check, type CheckResult, type Finding, found, valueOr, when } from '../finding.ts'
import { parseAddress } from '../../values/address.ts'
import { parseCidr } from '../../values/cidr.ts'
import { quote } from '../../values/quote.ts'

const FROM: Readonly<Record<PathFact['from'], string>> = {
  pod: 'pods of this node',
  outside: 'clients outside',
  node: 'processes of this node',
}

/** Chains of the proxy: they drop what a Service does not want, such as a source outside loadBalancerSourceRanges. */
const isOurs = ({ chain, table }: PathFact): boolean => chain.startsWith('KUBE-') || PRIVATE_TABLES.has(table)

/** Of the nftables firewall. */
const PRIVATE_TABLES: ReadonlySet<string> = new Set(['ip kube-ipvs', 'ip6 kube-ipvs'])

function servicePaths({ paths, daemon }: NodeFacts): CheckResult {
  return when(paths, (all) => {
    const wrong = all.filter((path) => path.result !== 'passes' && path.result !== 'unsure' && !isOurs(path))
    const byCause = Map.groupBy(wrong, ({ hook, table, chain, rule, destination }) =>
      [hook, table, chain, rule, destination.startsWith('[')].join(' '),
    )
    return found(...Array.from(byCause.values(), (paths) => finding(paths, podCidrs(valueOr(daemon, null)?.podCidrs))))
  })
}

function finding(paths: readonly PathFact[], cidrs: readonly string[]): Finding {
  const [{ hook, table, chain, rule, destination, result } = NOWHERE] = paths
  const isIpv6 = destination.startsWith('[')
  const clients = [...new Set(paths.map(({ from }) => FROM[from]))].join(' and ')
  const by = rule === '' ? `the policy of ${chain}` : `${quote(`-A ${chain} ${rule}`)}`
  const what = result === 'no-answer' ? 'The answers of Services to' : 'Packets to Services of'
  const program = isIpv6 ? 'ip6tables' : 'iptables'
  const own = cidrs.filter((cidr) => cidr.includes(':') === isIpv6)
  const pods = own[0] ?? 'POD_CIDR'
  // A firewall may keep strangers from node ports on purpose, and the packet is that of a stranger.
  const isOutside = paths.every(({ from }) => from === 'outside')
  return {
    severity: isOutside ? 'warning' : 'error',
    what: `${what} ${clients} are ${result === 'refused' ? 'rejected' : 'dropped'} in ${hook} (${table}) by ${by}: ${paths
      .slice(0, NAMED)
      .map((path) => `${path.source} to ${path.destination}`)
      .join(', ')}.`,
    effect: isOutside
      ? 'Clients whose address no rule accepts do not reach node ports: right where only known clients may, wrong where a load balancer or anybody is to reach them.'
      : hook === 'INPUT'
        ? 'In ipvs mode every packet to a Service passes INPUT, where in iptables mode it passes FORWARD: connections time out or are refused.'
        : 'Connections to Services time out or are refused.',
    remedy: [
      ...paths.slice(0, 1).flatMap(explainCommand),
      ...(hook === 'INPUT'
        ? [
            '# before the rule that drops; for good in the files of the firewall',
            ...(isOutside ? [] : [`${program} -I INPUT -s ${pods} -j ACCEPT`, `# ufw: ufw allow from ${pods}`]),
            '# node ports, for the clients that are to reach them',
            `# ${program} -I INPUT -s CLIENTS -p tcp --dport 30000:32767 -j ACCEPT`,
            '# ufw: ufw allow proto tcp from CLIENTS to any port 30000:32767',
          ]
        : ['# accept the addresses of pods and Services before the rule that drops']),
    ],
  }
}

/** Packets that one finding names. */
const NAMED = 2
const NOWHERE: PathFact = {
  from: 'node',
  source: '',
  destination: '',
  result: 'passes',
  hook: '',
  table: '',
  chain: '',
  rule: '',
}

/** Shows every step of the path. Nothing where a bundle does not name addresses. */
function explainCommand({ from, source, destination }: PathFact): readonly string[] {
  const [, target] = /^([\d.]+:\d{1,5}|\[[\da-f:.]+\]:\d{1,5})\/(?:tcp|udp|sctp)$/i.exec(destination) ?? []
  const client = from === 'node' ? 'node' : parseAddress(source)
  return target === undefined || client === undefined ? [] : [`kube-ipvs explain ${target} --from ${client}`]
}

/** A bundle could name anything. */
function podCidrs(cidrs: readonly string[] | undefined): readonly string[] {
  return (cidrs ?? []).filter((cidr) => parseCidr(cidr) !== undefined)
}

export const PATH_CHECKS: readonly Check[] = [
  { id: 'service-paths', group: 'rules', good: 'no rule drops packets to Services', check: servicePaths },
]
