/**
 * Checks of rules of other programs that hide rules from iptables, or take packets of Services
 * before the rules of the proxy do.
 */
import type { NftRuleFact, RivalFact } from '../rule-facts.ts'
import type { NodeFacts } from '../facts.ts'
import { type Check, type CheckResult, type Finding, found, when } from '../finding.ts'
import { mayTranslate, NAT_PRIORITY } from '../../nftables/nat-order.ts'
import { quote } from '../../values/quote.ts'
import { firewallOf } from './node-firewall.ts'

/** Rules that one finding names. */
const NAMED = 5

/** What a command of a remedy may name: a bundle could name any table and any chain. */
const BUILT_IN = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'])
const PRINTED_TABLE = /^ip6? (?:raw|mangle|nat|filter|security)$/
const NFT_TABLE = /^(?:ip|ip6|inet) \w{1,60}(?= )/

/** The command that lists the rules of a chain with their handles. */
function listed({ family, table, chain }: NftRuleFact): string {
  return BUILT_IN.has(chain) ? `nft -a list chain ${family} ${table} ${chain}` : `nft -a list table ${family} ${table}`
}

/** The command that deletes a rule, or that lists where it is. */
function deletion(rule: NftRuleFact): string {
  const { family, table, chain, handle } = rule
  const isPlain = BUILT_IN.has(chain) && Number.isSafeInteger(handle) && handle > 0
  return isPlain ? `nft delete rule ${family} ${table} ${chain} handle ${handle}` : listed(rule)
}

function hiddenTables({ nftRules }: NodeFacts): CheckResult {
  return when(nftRules, ({ unprinted, rules }) => {
    const findings = unprinted.map((table): Finding => {
      const own = rules.filter((one) => `${one.family} ${one.table}` === table).slice(0, NAMED)
      const [family = '', name = ''] = table.split(' ')
      const save = family === 'ip' ? 'iptables-save' : 'ip6tables-save'
      const named = own.map(
        ({ chain, rule, handle }) => `${rule === '' ? `handle ${handle}` : quote(rule)} in ${quote(chain)}`,
      )
      return {
        severity: 'warning',
        what: `${save} cannot print the table ${quote(name)}, because nft made rules in it${named.length === 0 ? '' : `: ${named.join(', ')}`}.`,
        effect:
          'Services are served all the same. Other programs that read this table (kubelet, network plug-ins, kube-proxy) fail or miss their own rules, and kube-ipvs needs more processes to read it.',
        remedy: [
          ...(own.length === 0 && PRINTED_TABLE.test(table) ? [`nft -a list table ${table}`] : []),
          ...new Set(own.map(deletion)),
          '# and make the same rule in a table of its own, for example',
          "nft 'add table inet local; add chain inet local input { type filter hook input priority -1; }'",
        ],
      }
    })
    const shown = rules.filter(({ family, table }) => !unprinted.includes(`${family} ${table}`)).slice(0, NAMED)
    if (shown.length > 0)
      findings.push({
        severity: 'note',
        what: `iptables shows rules that nft made without what it cannot translate: ${shown
          .map(({ chain, rule, handle }) => `${rule === '' ? `handle ${handle}` : quote(rule)} in ${quote(chain)}`)
          .join(', ')}.`,
        effect: 'What iptables-save prints of them matches more packets than they do.',
        remedy: [...new Set(shown.map(listed))],
      })
    return found(...findings)
  })
}

function hostPorts(facts: NodeFacts): CheckResult {
  const { rivals, configuration } = facts
  const firewall = firewallOf(facts)
  return when(rivals, (all) =>
    found(
      ...all.flatMap((rival): Finding | readonly [] => {
        if (!mayTranslate(rival.priority, firewall)) return []
        // In iptables mode a cluster IP is no address of the node, which rules of hostPorts look for.
        const isLocal = configuration.mode === 'ipvs'
        return {
          severity: isLocal || rival.isInUse ? 'warning' : 'note',
          what: `${whatOf(rival)} takes packets to ${rival.ports.map(quote).join(', ')}${takesOf(rival)}.`,
          effect: isLocal
            ? 'Connections to such a port of any Service, that of the API server included, go to a pod with this hostPort instead.'
            : 'Connections to such a port of an address of this node go there, also those to node ports and load balancers.',
          remedy: remedyOf(rival, firewall),
        }
      }),
    ),
  )
}

function whatOf({ program, chain, rule, isInUse }: RivalFact): string {
  if (program === 'nft') return `The chain ${quote(chain)} of nf_tables`
  return `The rule ${quote(`${program} -t nat -A ${chain} ${rule}`)}, ${isInUse ? 'in front of the jump of the proxy' : 'in the back end of iptables that the proxy does not use'},`
}

function takesOf({ takes, rule }: RivalFact): string {
  const others = takes.filter((one) => rule === '' || !one.endsWith(rule))
  return others.length === 0 ? '' : ` (by ${others.map(quote).join(', ')})`
}

const OTHER_FIREWALL: readonly string[] = [
  '# or, in the KubeProxyConfiguration, the firewall of ipvs mode whose chains come before this one',
  'kubeIPVS:',
  '  firewall: nftables',
]

/** No text of the node is part of a command. */
function remedyOf(
  { program, chain, priority, isInUse }: RivalFact,
  firewall: ReturnType<typeof firewallOf>,
): readonly string[] {
  if (program === 'nft') {
    const table = NFT_TABLE.exec(chain)?.[0]
    const list = `nft -a list ${table === undefined ? 'ruleset' : `table ${table}`}`
    if (firewall === 'nftables')
      return [list, `# let its program give the chain a priority above ${NAT_PRIORITY}, behind that of the proxy`]
    return [
      list,
      '# the CNI plugin portmap, in /etc/cni/net.d: so that its rules are where the proxy can stand in front of them',
      '{"type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true}}',
      ...(mayTranslate(priority, 'nftables') ? [] : OTHER_FIREWALL),
    ]
  }
  const list = `${program} -t nat -L ${BUILT_IN.has(chain) ? `${chain} ` : ''}-n --line-numbers`
  if (isInUse)
    return [
      list,
      '# a proxy that runs moves its jump to the top, but not for ever: the program that inserts this rule again and again has to append it (-A)',
    ]
  const plain = program.startsWith('ip6') ? 'ip6tables' : 'iptables'
  return [
    '# let the container runtime and its CNI plugins use the same iptables as the proxy, for example',
    `update-alternatives --set ${plain} /usr/sbin/${plain}-${program.endsWith('-legacy') ? 'nft' : 'legacy'}`,
    '# then restart the pods with hostPorts, and delete by its number what is left:',
    list,
  ]
}

export const FOREIGN_RULE_CHECKS: readonly Check[] = [
  {
    id: 'hidden-tables',
    group: 'rules',
    good: 'iptables can print its tables',
    check: hiddenTables,
  },
  {
    id: 'host-ports',
    group: 'rules',
    good: 'no rule takes packets of Services before those of the proxy',
    check: hostPorts,
  },
]
