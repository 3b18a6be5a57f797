/**
 * For the checks of the kernel and its programs: facts that trigger them, with what they find, and
 * facts that do not.
 */
import type { Distribution } from '../../../src/node/module-remedy.ts'
import type { NodeFacts } from '../../../src/doctor/facts.ts'
import { clusterWith, configured, daemon, lack, node } from '../healthy-node.ts'
import { type Changes, type Row, UNSEEN } from './row.ts'

const hostOf = (distribution: Distribution, release: string): NodeFacts['kernel'] => ({
  release,
  distributions: [distribution],
  hasIpv6: true,
})

const iptables = (version: string | null, backEnd: 'nft' | 'legacy' | null = 'nft'): Changes => ({
  iptables: { value: { backEnd, reason: 'because', version } },
})

export const KERNEL_ROWS: readonly Row[] = [
  [
    'kernel-modules',
    lack('IPVS', 'ip_vs', 'fatal'),
    'error',
    /modprobe ip_vs\n.*ip_vs_rr .*modules-load\.d.*\n.*linux-image-6\.12\.3-amd64 \(Debian\)/,
  ],
  [
    'kernel-modules',
    { ...lack('ipset', 'ip_set'), kernel: hostOf('RHEL 10', '6.12.0-211.el10_2.x86_64') },
    'error',
    /modprobe ip_set\n[^]*install kernel-modules-extra-6\.12\.0-211\.el10_2\.x86_64.*\(RHEL 10\)$/,
  ],
  [
    'kernel-modules',
    { ...lack('scheduler wlc', 'ip_vs_wlc', 'fatal'), kernel: hostOf('Talos', '6.18.45-talos') },
    'error',
    /Talos, which has no scheduler but rr, wrr, lc, sh and mh\nmachine:\n  kernel:\n    modules:\n      - name: ip_vs\n      - name: ip_vs_rr\n      - name: ip_vs_wlc$/,
  ],
  ['kernel-modules', lack('match physdev', 'xt_physdev', 'warning'), 'warning', /xt_set xt_physdev >/],
  ['kernel-modules', lack('IPVS', 'ip_vs', 'fatal'), 'error', /starts in iptables mode/],
  [
    'kernel-modules',
    { ...lack('IPVS', 'ip_vs', 'fatal'), ...configured({ fallback: 'none' }) },
    'error',
    /^(?![^]*starts in)/,
  ],
  ['kernel-modules', lack('match set', 'xt_set'), 'error'],
  ['kernel-modules', lack('IPVS of IPv6', ''), 'error', /^Missing: IPVS of IPv6\.\n[^\n]*$/],
  ['kernel-modules', { ...lack('IPVS', 'ip_vs', 'fatal'), ...configured({ mode: 'iptables' }) }, 'note'],
  [
    'kernel-modules',
    { ...lack('nftables: masquerade', 'nft_masq'), daemon: { value: null }, likelyFirewall: { value: 'nftables' } },
    'error',
    /^(?![^]*xt_set)[^]*nf_tables nft_/,
  ],
  ['kernel-modules', lack('x', '$(reboot)'), 'error', /^(?![^]*modprobe)/],
  ['kernel-modules', lack('sysctl net/ipv4/ip_forward', ''), 'ok'],
  ['kernel-modules', { lacks: UNSEEN }, 'unknown'],
  ['kernel-modules', { lacks: UNSEEN, ipvs: { value: null } }, 'error', /modprobe ip_vs/],
  ['kernel-version', { kernel: { ...node().kernel, release: '6.1.0-18-amd64' } }, 'note', /older than 6\.2/],
  [
    'kernel-version',
    {
      kernel: { ...node().kernel, release: '6.1.0' },
      ipvs: { value: { virtualServers: 9000, sctpServers: 0, ipv6Servers: 1, tcpTimeoutSeconds: 900 } },
    },
    'warning',
    /9000 virtual servers/,
  ],
  ['kernel-version', { kernel: { ...node().kernel, release: '5.4.0-100-generic' } }, 'note', /older than 5\.9/],
  ['kernel-version', { kernel: { ...node().kernel, release: '6.2.0' } }, 'ok'],
  ['kernel-version', { kernel: { ...node().kernel, release: '5.4.0' }, ...configured({ mode: 'iptables' }) }, 'ok'],
  ['ipvs-sctp', { ipvsSctp: { value: false } }, 'note', /does not know SCTP \(CONFIG_IP_VS_PROTO_SCTP\)\./],
  [
    'ipvs-sctp',
    {
      ipvsSctp: { value: false },
      ipvs: { value: { virtualServers: 3, sctpServers: 2, ipv6Servers: 1, tcpTimeoutSeconds: 7400 } },
    },
    'error',
    /2 virtual servers are for SCTP\.\n.*forwards no packet/,
  ],
  ['ipvs-sctp', { ipvsSctp: { value: false }, ipvs: { value: null } }, 'ok'],
  ['ipvs-sctp', { ipvsSctp: { value: false }, ...configured({ mode: 'iptables' }) }, 'ok'],
  ['ipvs-sctp', { ipvsSctp: UNSEEN }, 'unknown'],
  ['iptables-programs', iptables(null, null), 'error', /apt-get install iptables/],
  ['iptables-programs', { iptables: UNSEEN }, 'unknown'],
  [
    'iptables-programs',
    { ...iptables(null, null), ...daemon({ firewall: { name: 'nftables', reason: 'iptables is missing' } }) },
    'ok',
  ],
  [
    'iptables-programs',
    { ...iptables(null, null), ...daemon({ firewall: { name: 'iptables', reason: 'the usual one' } }) },
    'error',
  ],
  [
    'iptables-programs',
    { ...iptables(null, null), daemon: { value: null }, likelyFirewall: { value: 'nftables' } },
    'ok',
  ],
  ['iptables-programs', { ...iptables(null, null), daemon: { value: null } }, 'error'],
  ['iptables-programs', { ...iptables(null, null), daemon: { value: null }, likelyFirewall: UNSEEN }, 'error'],
  [
    'iptables-programs',
    {
      ...iptables(null, null),
      ...configured({ mode: 'iptables' }),
      daemon: { value: null },
      likelyFirewall: { value: 'nftables' },
    },
    'error',
  ],
  [
    'iptables-programs',
    { ...iptables(null, null), ...daemon({ mode: 'iptables', firewall: null }), likelyFirewall: { value: 'nftables' } },
    'error',
  ],
  ['iptables-version', iptables('1.4.21', 'legacy'), 'warning', /older than 1\.6\.2/],
  ['iptables-version', iptables('1.8.2'), 'warning', /first releases of the nft back end/],
  ['iptables-version', iptables('1.8.2', 'legacy'), 'ok'],
  ['iptables-version', iptables('1.8.11'), 'ok'],
  ['iptables-version', iptables(null), 'unknown'],
  ['clock', { clock: { value: { isSynchronized: false } } }, 'note'],
  ['clock', clusterWith({ clockAheadSeconds: -42 }), 'warning', /42 s behind/],
  ['clock', clusterWith({ clockAheadSeconds: 3600 }), 'error', /3600 s ahead of/],
  ['clock', clusterWith({ clockAheadSeconds: null }), 'ok'],
  ['clock', { clock: UNSEEN }, 'unknown'],
]
