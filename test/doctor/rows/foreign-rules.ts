/** For the checks of rules of other programs: facts that trigger them and facts that do not. */
import { configured, daemon } from '../healthy-node.ts'
import { type Row, UNSEEN } from './row.ts'

const NFT_RULE = {
  family: 'ip',
  table: 'filter',
  chain: 'INPUT',
  handle: 12,
  rule: 'ct state established accept',
} as const
const RIVAL = {
  program: 'iptables-legacy',
  chain: 'PREROUTING',
  priority: -100,
  rule: '-m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
  takes: ['-A CNI-DN-a -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.244.0.5:443'],
  ports: ['443/tcp'],
  isInUse: false,
} as const

const OF_PORTMAP = {
  program: 'nft',
  chain: 'inet cni_hostport prerouting',
  priority: -100,
  rule: '',
  takes: [],
  ports: ['any port'],
  isInUse: false,
} as const
const NFTABLES = daemon({ firewall: { name: 'nftables', reason: 'iptables is missing' } })

export const FOREIGN_RULE_ROWS: readonly Row[] = [
  [
    'hidden-tables',
    { nftRules: { value: { unprinted: ['ip filter'], rules: [NFT_RULE, { ...NFT_RULE, table: 'nat' }] } } },
    'warning',
    /^iptables-save cannot print the table "filter", .*"ct state established accept" in "INPUT"\.\n.*\nnft delete rule ip filter INPUT handle 12\n[^]*made without what it cannot translate/m,
  ],
  [
    'hidden-tables',
    { nftRules: { value: { unprinted: ['ip6 nat'], rules: [] } } },
    'warning',
    /ip6tables-save cannot print the table "nat"[^]*nft -a list table ip6 nat/,
  ],
  [
    'hidden-tables',
    { nftRules: { value: { unprinted: [], rules: [{ ...NFT_RULE, chain: 'a; reboot', rule: '' }] } } },
    'note',
    /handle 12 in "a; reboot"[^]*nft -a list table ip filter$/,
  ],
  ['hidden-tables', { nftRules: UNSEEN }, 'unknown'],
  [
    'host-ports',
    { rivals: { value: [RIVAL] } },
    'warning',
    /iptables-legacy -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT", in the back end.*"443\/tcp" \(by "-A CNI-DN-a [^]*API server[^]*--set iptables \/usr\/sbin\/iptables-nft\n[^]*\niptables-legacy -t nat -L PREROUTING -n --line-numbers$/,
  ],
  [
    'host-ports',
    { rivals: { value: [{ ...RIVAL, program: 'ip6tables-nft' }] } },
    'warning',
    /--set ip6tables \/usr\/sbin\/ip6tables-legacy$/m,
  ],
  ['host-ports', { rivals: { value: [RIVAL] }, ...configured({ mode: 'iptables' }) }, 'note', /node ports/],
  [
    'host-ports',
    { rivals: { value: [{ ...RIVAL, program: 'iptables-nft', chain: 'OUTPUT', isInUse: true }] } },
    'warning',
    /in front of the jump of the proxy[^]*append it/,
  ],
  [
    'host-ports',
    { rivals: { value: [OF_PORTMAP] } },
    'warning',
    /The chain "inet cni_hostport prerouting" of nf_tables takes packets to "any port"[^]*\nnft -a list table inet cni_hostport\n[^]*"backend": "iptables"[^]*\n {2}firewall: nftables$/,
  ],
  // The chains of the nftables firewall come first, and end the turn of those.
  ['host-ports', { rivals: { value: [OF_PORTMAP, RIVAL] }, ...NFTABLES }, 'ok'],
  [
    'host-ports',
    { rivals: { value: [OF_PORTMAP] }, daemon: { value: null }, likelyFirewall: { value: 'nftables' } },
    'ok',
  ],
  ['host-ports', { rivals: { value: [OF_PORTMAP] }, likelyFirewall: { value: 'nftables' } }, 'warning'],
  [
    'host-ports',
    { rivals: { value: [{ ...OF_PORTMAP, priority: -105 }] }, ...NFTABLES },
    'warning',
    /takes packets to "any port"[^]*nft -a list table inet cni_hostport\n# let its program give the chain a priority above -105, behind that of the proxy$/,
  ],
  [
    'host-ports',
    { rivals: { value: [{ ...OF_PORTMAP, priority: -110 }] } },
    'warning',
    /"backend": "iptables", "capabilities": \{"portMappings": true\}\}$/,
  ],
  ['host-ports', { rivals: UNSEEN }, 'unknown'],
]
