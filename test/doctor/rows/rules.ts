/** For the checks of rules, and of full tables: facts that trigger them, with what they find, and facts that do not. */
import type { IpvsTableFact } from '../../../src/doctor/facts.ts'
import { CLEAN_RULES, configured, daemon, running } from '../healthy-node.ts'
import { type Changes, type Row, UNSEEN } from './row.ts'

const filter = (chain: 'INPUT' | 'FORWARD', policy: string, ...rules: string[]) => ({
  ...CLEAN_RULES,
  builtIn: [{ chain, policy, rules }],
})

const legacy = (chain: 'INPUT' | 'FORWARD', policy: string, ...rules: string[]): Changes => ({
  rules: { value: [CLEAN_RULES, { ...filter(chain, policy, ...rules), backEnd: 'legacy' }] },
})
const BACK_END_LEGACY: Changes = { iptables: { value: { backEnd: 'legacy', reason: 'because', version: '1.8.9' } } }

const table = (changes: Partial<IpvsTableFact>): Changes => ({
  ipvsTable: {
    value: { connections: 900, buckets: 4096, bits: 12, largestBits: 12, max: 1_073_741_824, ...changes },
  },
})

export const RULES_ROWS: readonly Row[] = [
  [
    'drops-before',
    { rules: { value: [filter('FORWARD', 'ACCEPT', '-s 10.0.0.0/8 -j DROP', '-j KUBE-FORWARD')] } },
    'warning',
    /"-s 10\.0\.0\.0\/8 -j DROP"/,
  ],
  [
    'drops-before',
    {
      rules: {
        value: [filter('INPUT', 'ACCEPT', '-j REJECT --reject-with icmp-host-prohibited', '-j KUBE-IPVS-FILTER')],
      },
    },
    'warning',
  ],
  ['drops-before', { rules: { value: [filter('FORWARD', 'ACCEPT', '-j KUBE-FORWARD', '-j DROP')] } }, 'ok'],
  [
    'drops-before',
    { rules: { value: [filter('FORWARD', 'ACCEPT', '-m conntrack --ctstate INVALID -j DROP', '-j KUBE-FORWARD')] } },
    'ok',
  ],
  ['drops-before', { rules: { value: [filter('FORWARD', 'ACCEPT', '-j DROP')] } }, 'ok'],
  [
    'forward-policy',
    { rules: { value: [filter('FORWARD', 'DROP', '-j DOCKER-USER')] } },
    'warning',
    /iptables-nft -P FORWARD ACCEPT/,
  ],
  ['forward-policy', { rules: { value: [filter('FORWARD', 'DROP', '-s 10.244.0.0/16 -j ACCEPT')] } }, 'ok'],
  ['forward-policy', { rules: { value: [{ ...filter('FORWARD', 'DROP'), otherChains: ['cali'] }] } }, 'ok'],
  // It is for legacy-policies where the proxy writes elsewhere.
  ['forward-policy', legacy('FORWARD', 'DROP'), 'ok'],
  ['forward-policy', { ...legacy('FORWARD', 'DROP'), ...BACK_END_LEGACY }, 'warning', /iptables-legacy -P FORWARD/],
  [
    'legacy-policies',
    legacy('INPUT', 'DROP', '-p tcp -m tcp --dport 22 -j ACCEPT'),
    'warning',
    /^The policy of INPUT is DROP in iptables-legacy, where[^]*\niptables-legacy -A INPUT -d SERVICE-ADDRESSES -j ACCEPT\n/,
  ],
  [
    'legacy-policies',
    legacy(
      'INPUT',
      'DROP',
      '-d 10.96.0.0/12 -j ACCEPT',
      '-p tcp -m tcp --dport 30000:32767 -j ACCEPT',
      '-p udp -m udp --dport 30000:32767 -j ACCEPT',
    ),
    'note',
    /^The policy of INPUT is DROP in iptables-legacy[^]*\niptables-legacy -S INPUT\n/,
  ],
  ['legacy-policies', legacy('INPUT', 'DROP', '-p tcp -m multiport --dports 22,30000:32767 -j ACCEPT'), 'note'],
  ['legacy-policies', legacy('INPUT', 'DROP', '! -d 10.96.0.0/12 -j ACCEPT'), 'warning'],
  ['legacy-policies', legacy('INPUT', 'DROP', '-d 10.96.0.0/12 -j DROP'), 'warning'],
  [
    'legacy-policies',
    legacy('FORWARD', 'DROP'),
    'warning',
    /^The policy of FORWARD is DROP in iptables-legacy, where[^]*\niptables-legacy -A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT$/,
  ],
  ['legacy-policies', legacy('FORWARD', 'ACCEPT'), 'ok'],
  ['legacy-policies', legacy('FORWARD', 'DROP', '-s 10.244.0.0/16 -j ACCEPT'), 'ok'],
  [
    'legacy-policies',
    { rules: { value: [{ ...filter('FORWARD', 'DROP'), backEnd: 'legacy', acceptsAnswers: true }] } },
    'ok',
  ],
  ['legacy-policies', { ...legacy('INPUT', 'DROP'), ...BACK_END_LEGACY }, 'ok'],
  [
    'legacy-policies',
    {
      ...legacy('INPUT', 'DROP'),
      ...BACK_END_LEGACY,
      ...daemon({ firewall: { name: 'nftables', reason: 'iptables is missing' } }),
    },
    'warning',
  ],
  ['legacy-policies', { rules: { value: [filter('INPUT', 'DROP')] } }, 'ok'],
  [
    'legacy-policies',
    { legacyTables: ['ip nat', 'ip6 filter'] },
    'note',
    /the table filter of iptables-legacy for IPv6, and no program[^]*\nip6tables-legacy-save -t filter\n/,
  ],
  ['legacy-policies', { ...legacy('INPUT', 'ACCEPT'), legacyTables: ['ip filter'] }, 'ok'],
  ['legacy-policies', { rules: UNSEEN }, 'unknown'],
  [
    'nft-policies',
    { nftChains: { value: [{ family: 'inet', table: 'filter', chain: 'input', hook: 'input', policy: 'drop' }] } },
    'warning',
    /"inet filter input"/,
  ],
  [
    'nft-policies',
    { nftChains: { value: [{ family: 'inet', table: 'wall', chain: 'in', hook: 'input', policy: 'reject' }] } },
    'warning',
    /The chain "inet wall in" of nf_tables rejects at input/,
  ],
  [
    'nft-policies',
    { nftChains: { value: [{ family: 'inet', table: 'filter', chain: 'input', hook: 'input', policy: 'accept' }] } },
    'ok',
  ],
  ['nft-policies', running('firewalld'), 'warning', /firewall-cmd --reload/],
  ['conntrack-full', { conntrack: { value: { count: 200_000, max: 262_144 } } }, 'warning', /nf_conntrack_max=524288/],
  ['conntrack-full', { conntrack: { value: { count: 262_144, max: 262_144 } } }, 'error', /100 %/],
  ['conntrack-full', { conntrack: { value: { count: 5, max: 0 } } }, 'ok'],
  ['conntrack-full', { conntrack: UNSEEN }, 'unknown'],
  [
    'ipvs-connections',
    table({ connections: 8000, max: 10_000 }),
    'warning',
    /8000 of at most 10000 connections \(80 %\)\.\n.*drops.*\nsysctl -w net\.ipv4\.vs\.conn_max=131072\n.*sysctl\.d.*\nnet\.ipv4\.vs\.conn_max = 131072$/,
  ],
  ['ipvs-connections', table({ connections: 10_000, max: 10_000 }), 'error', /100 %/],
  ['ipvs-connections', table({ connections: 0, max: 0 }), 'error', /0 of at most 0/],
  ['ipvs-connections', table({ connections: 10_000, max: null }), 'ok'],
  [
    'ipvs-connections',
    table({ connections: 60_000 }),
    'warning',
    /60000 connections in 4096 lists, 15 in each\.\n[^]*modprobe\.d[^]*options ip_vs conn_tab_bits=17\n.*ip_vs\.conn_tab_bits=17$/,
  ],
  ['ipvs-connections', table({ connections: 60_000, largestBits: 20 }), 'warning', /sysctl -w .*conn_lfactor=-4$/],
  ['ipvs-connections', table({ connections: 0, buckets: 0, bits: 0 }), 'ok'],
  ['ipvs-connections', { ipvsTable: { value: null } }, 'ok'],
  ['ipvs-connections', { ipvsTable: UNSEEN }, 'unknown'],
  ['ipvs-connections', { ...configured({ mode: 'iptables' }), ipvsTable: UNSEEN }, 'ok'],
  [
    'idle-timeout',
    { ipvs: { value: { virtualServers: 0, sctpServers: 0, ipv6Servers: 1, tcpTimeoutSeconds: 900 } } },
    'note',
    /tcpTimeout: 7320s/,
  ],
  ['idle-timeout', { ipvs: { value: null } }, 'ok'],
  ['idle-timeout', { ipvs: UNSEEN }, 'unknown'],
]
