/** Checks of rules of other programs in the path of Services, of connection tracking, and of timeouts. */
import type { NftChainFact, RulesFact } from '../rule-facts.ts'
import type { NodeFacts } from '../facts.ts'
import { type Check, type CheckResult, FINE, type Finding, found, valueOr, when } from '../finding.ts'
import { quote } from '../../values/quote.ts'
import { firewallOf } from './node-firewall.ts'
import { processesOf } from './proxies.ts'

const TARGET = /(?:^| )-[jg] (\S+)/

const targetOf = (rule: string): string => TARGET.exec(rule)?.[1] ?? ''

/** Whether a rule drops packets that a Service may need: not those that connection tracking cannot place. */
function drops(rule: string): boolean {
  const target = targetOf(rule)
  return (target === 'DROP' || target === 'REJECT') && !/--ctstate INVALID\b/.test(rule)
}

const programOf = ({ family, backEnd }: RulesFact): string =>
  `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backEnd}`

/** Most rules that one finding names. */
const NAMED = 3

function dropsBefore({ rules }: NodeFacts): CheckResult {
  return when(rules, (all) => {
    const findings: Finding[] = []
    for (const one of all)
      for (const { chain, rules: lines } of one.builtIn) {
        const ours = lines.findIndex((line) => targetOf(line).startsWith('KUBE-'))
        const before = (ours < 0 ? [] : lines.slice(0, ours)).filter(drops)
        if (before.length === 0) continue
        findings.push({
          severity: 'warning',
          what: `In ${programOf(one)} ${before.length} rule${before.length === 1 ? '' : 's'} of ${chain} before those of the proxy may drop packets: ${before
            .slice(0, NAMED)
            .map(quote)
            .join(', ')}.`,
          effect: 'A packet of a Service that they match never reaches the rules of the proxy.',
          remedy: [
            `${programOf(one)} -L ${chain} -n -v --line-numbers`,
            '# move the rule behind the jumps to KUBE-*, or except the addresses of Services and pods',
          ],
        })
      }
    return found(...findings)
  })
}

/** Programs that accept the traffic of pods in FORWARD by chains or rules of their own. */
const ACCEPTS_PODS = /^(cali|FLANNEL|KUBE-ROUTER|CILIUM|ANTREA|WEAVE|OVN)/

function forwardPolicy(facts: NodeFacts): CheckResult {
  return when(facts.rules, (all) =>
    found(
      ...all.flatMap((one): Finding[] => {
        const forward = one.builtIn.find(({ chain }) => chain === 'FORWARD')
        // legacy-policies judges those beside the rules of the proxy.
        if (one.backEnd === 'legacy' && !writesLegacy(facts)) return []
        if (forward?.policy !== 'DROP' || acceptsPods(one, forward)) return []
        return [
          {
            severity: 'warning',
            what: `The policy of FORWARD is DROP in ${programOf(one)}, and no rule of a network plug-in accepts the traffic of pods.`,
            effect:
              'Connections between pods of different nodes are dropped unless another rule accepts them. Docker and ufw set this policy.',
            remedy: [
              `${programOf(one)} -P FORWARD ACCEPT`,
              '# or a rule of the network plug-in that accepts the addresses of pods',
            ],
          },
        ]
      }),
    ),
  )
}

function acceptsPods({ otherChains }: RulesFact, { rules }: RulesFact['builtIn'][number]): boolean {
  return (
    otherChains.some((name) => ACCEPTS_PODS.test(name)) ||
    rules.some((rule) => targetOf(rule) === 'ACCEPT' && / -[sd] |^-[sd] /.test(rule))
  )
}

function writesLegacy(facts: NodeFacts): boolean {
  return firewallOf(facts) === 'iptables' && valueOr(facts.iptables, undefined)?.backEnd === 'legacy'
}

/**
 * Policies of iptables-legacy where the rules of the proxy are elsewhere: packets pass both, and what
 * the proxy accepts does not count there. The daemon starts no program to read them.
 */
function legacyPolicies(facts: NodeFacts): CheckResult {
  if (writesLegacy(facts)) return FINE
  return when(facts.rules, (all) => {
    const legacy = all.filter((one) => one.backEnd === 'legacy')
    const unread = (['IPv4', 'IPv6'] as const).filter(
      (family) =>
        facts.legacyTables.includes(family === 'IPv4' ? 'ip filter' : 'ip6 filter') &&
        !legacy.some((one) => one.family === family),
    )
    return found(...legacy.flatMap(closedChains), ...unread.map(unreadTable))
  })
}

function closedChains(one: RulesFact): readonly Finding[] {
  return one.builtIn.flatMap((chain): readonly Finding[] => {
    if (chain.policy !== 'DROP') return []
    const what = `The policy of ${chain.chain} is DROP in ${programOf(one)}, where the proxy has no rules.`
    if (chain.chain === 'INPUT' && chain.rules.some(mayAcceptServices))
      return [
        {
          severity: 'note',
          what: `${what} Rules there accept addresses or ranges of ports, and doctor does not judge which.`,
          effect: 'Packets to cluster IPs, load balancers and node ports that none of these rules accepts are dropped.',
          remedy: [`${programOf(one)} -S INPUT`, '# the addresses of Services, and node ports (30000-32767)'],
        },
      ]
    if (chain.chain === 'INPUT')
      return [
        {
          severity: 'warning',
          what,
          effect: 'Packets to cluster IPs, load balancers and node ports are dropped unless a rule there accepts them.',
          remedy: [
            `${programOf(one)} -A INPUT -d SERVICE-ADDRESSES -j ACCEPT`,
            '# and the node ports (30000-32767), with -p tcp and -p udp',
          ],
        },
      ]
    if (chain.chain !== 'FORWARD' || one.acceptsAnswers || acceptsPods(one, chain)) return []
    return [
      {
        severity: 'warning',
        what: `${what} No rule of a network plug-in accepts the traffic of pods, and none accepts by the state of the connection.`,
        effect: 'Answers of endpoints to clients are dropped unless another rule accepts them.',
        remedy: [`${programOf(one)} -A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT`],
      },
    ]
  })
}

/** Whether the rule accepts packets to an address or to a range of ports. */
function mayAcceptServices(rule: string): boolean {
  return targetOf(rule) === 'ACCEPT' && /(?:^| )(?<!! )(?:-d |--dports? \S*\d:\d)/.test(rule)
}

function unreadTable(family: RulesFact['family']): Finding {
  return {
    severity: 'note',
    what: `The kernel has the table filter of iptables-legacy for ${family}, and no program here reads it.`,
    effect: 'What its rules and policies drop is not seen, neither by doctor nor by "kube-ipvs explain".',
    remedy: [
      `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-legacy-save -t filter`,
      '# with the programs of iptables installed',
    ],
  }
}

/** Chains at the hooks of packets whose verdict is final: in nf_tables a drop of any chain ends the packet. */
function nftPolicies(facts: NodeFacts): CheckResult {
  return when(facts.nftChains, (chains) => {
    const closed = chains.filter(({ policy }) => policy !== 'accept')
    const findings: Finding[] = closed.map((chain) => ({
      severity: 'warning',
      what: `The chain ${nameOf(chain)} of nf_tables ${chain.policy}s at ${chain.hook} whatever it does not accept.`,
      effect: 'A drop there is final: rules that accept in other tables, such as those of the proxy, do not count.',
      remedy: [
        'nft list ruleset',
        '# accept the addresses of pods and Services, and node ports (30000-32767), in that chain',
      ],
    }))
    if (processesOf(facts, 'firewalld').length > 0)
      findings.push({
        severity: 'warning',
        what: 'firewalld runs on this node.',
        effect:
          'It rejects forwarded packets and node ports that its zones do not allow; a reload with its iptables back end also removes all rules, which kube-ipvs then repairs.',
        remedy: [
          'systemctl disable --now firewalld',
          '# or: trust the addresses of pods and open the node ports',
          'firewall-cmd --permanent --zone=trusted --add-source=POD_CIDR',
          'firewall-cmd --permanent --add-port=30000-32767/tcp --add-port=30000-32767/udp',
          'firewall-cmd --reload',
        ],
      })
    return found(...findings)
  })
}

const nameOf = ({ family, table, chain }: NftChainFact): string => quote(`${family} ${table} ${chain}`)

/** Shares of the limit of connection tracking, and of the connections of IPVS. */
const NEARLY_FULL = 0.75
const FULL = 0.95

function conntrackFull({ conntrack }: NodeFacts): CheckResult {
  return when(conntrack, ({ count, max }) => {
    if (max <= 0 || count / max < NEARLY_FULL) return FINE
    const next = 2 ** Math.ceil(Math.log2(2 * max))
    return found({
      severity: count / max >= FULL ? 'error' : 'warning',
      what: `Connection tracking has ${count} of at most ${max} flows (${Math.floor((100 * count) / max)} %).`,
      effect: 'When it is full the kernel drops packets of new connections ("nf_conntrack: table full" in dmesg).',
      remedy: [
        `sysctl -w net.netfilter.nf_conntrack_max=${next}`,
        '# KubeProxyConfiguration; the daemon writes it at its start',
        'conntrack:',
        `  min: ${next}`,
        '  maxPerCore: 1 # above 1048576 in all, maxPerCore would replace min',
      ],
    })
  })
}

/** Connections in each list of the table from which on their number is felt; the kernel aims at one in 16 lists. */
const LONG_LISTS = 8
/** The kernel's own upper limit of conn_tab_bits. */
const MOST_BITS = 27

function ipvsConnections({ ipvsTable, configuration }: NodeFacts): CheckResult {
  if (configuration.mode !== 'ipvs') return FINE
  return when(ipvsTable, (table) => {
    if (table === null) return FINE
    const { connections, buckets, bits, largestBits, max } = table
    const findings: Finding[] = []
    const share = max === null ? 0 : max > 0 ? connections / max : 1
    if (share >= NEARLY_FULL) {
      const line = `net.ipv4.vs.conn_max=${2 ** Math.min(30, Math.ceil(Math.log2(2 * Math.max(connections, 65_536))))}`
      findings.push({
        severity: share >= FULL ? 'error' : 'warning',
        what: `IPVS has ${connections} of at most ${max} connections (${Math.floor(100 * share)} %).`,
        effect: 'When the limit is reached the kernel drops packets of new connections to Services.',
        remedy: [`sysctl -w ${line}`, '# /etc/sysctl.d/99-kube-ipvs.conf', line.replace('=', ' = ')],
      })
    }
    const inEach = buckets > 0 ? connections / buckets : 0
    if (inEach >= LONG_LISTS) {
      const option = `conn_tab_bits=${Math.min(MOST_BITS, Math.ceil(Math.log2(2 * connections)))}`
      findings.push({
        severity: 'warning',
        what: `IPVS has ${connections} connections in ${buckets} lists, ${Math.round(inEach)} in each.`,
        effect: 'The kernel walks such a list for every packet of a Service.',
        remedy:
          largestBits === null || bits >= largestBits
            ? [
                '# /etc/modprobe.d/kube-ipvs.conf, for the next load of ip_vs',
                `options ip_vs ${option}`,
                `# or, where ip_vs is part of the kernel, at its command line: ip_vs.${option}`,
              ]
            : ['sysctl -w net.ipv4.vs.conn_lfactor=-4'],
      })
    }
    return found(...findings)
  })
}

function idleTimeout({ ipvs, settings, configuration }: NodeFacts): CheckResult {
  if (configuration.mode !== 'ipvs') return FINE
  return when(ipvs, (state) => {
    const keepalive = settings['net/ipv4/tcp_keepalive_time']
    if (state === null || keepalive === undefined || state.tcpTimeoutSeconds >= keepalive) return FINE
    return found({
      severity: 'note',
      what: `IPVS forgets an idle TCP connection after ${state.tcpTimeoutSeconds} s, and keep-alive probes begin after ${keepalive} s.`,
      effect: 'A connection through a Service that is idle for longer is reset at its next packet.',
      remedy: ['# KubeProxyConfiguration', 'ipvs:', `  tcpTimeout: ${keepalive + 120}s`],
    })
  })
}

export const RULE_CHECKS: readonly Check[] = [
  {
    id: 'drops-before',
    group: 'rules',
    good: 'no rule of another program drops before those of the proxy',
    check: dropsBefore,
  },
  { id: 'forward-policy', group: 'rules', good: 'forwarded packets of pods are accepted', check: forwardPolicy },
  {
    id: 'legacy-policies',
    group: 'rules',
    good: 'iptables-legacy drops nothing beside the proxy',
    check: legacyPolicies,
  },
  { id: 'nft-policies', group: 'rules', good: 'no other firewall drops packets', check: nftPolicies },
  { id: 'conntrack-full', group: 'rules', good: 'connection tracking has room', check: conntrackFull },
  {
    id: 'ipvs-connections',
    group: 'rules',
    good: 'the table of connections of IPVS has room',
    check: ipvsConnections,
  },
  {
    id: 'idle-timeout',
    group: 'rules',
    good: 'idle connections outlive the time to keep-alive probes',
    check: idleTimeout,
  },
]
