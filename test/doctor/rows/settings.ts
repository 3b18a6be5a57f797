/** For the checks of settings of the kernel: facts that trigger them, with what they find, and facts that do not. */
import { configured, daemon, lack, links, node, ROUTES, withSettings } from '../healthy-node.ts'
import { type Row, UNSEEN } from './row.ts'

const WITHOUT_IPV6 = daemon({
  problems: [
    {
      code: 'ipv6-off',
      about: 'node',
      subject: 'kube-ipvs0',
      field: null,
      message: 'takes no addresses of IPv6 Services',
    },
  ],
  problemCount: 1,
})

const NO_IPV6_SERVICES = {
  ipvs: { value: { virtualServers: 3, sctpServers: 0, ipv6Servers: 0, tcpTimeoutSeconds: 7400 } },
} as const

export const SETTINGS_ROWS: readonly Row[] = [
  [
    'proxy-sysctls',
    withSettings({ 'net/ipv4/ip_forward': 0 }),
    'error',
    /sysctl -w net\.ipv4\.ip_forward=1\n.*\nnet\.ipv4\.ip_forward = 1/,
  ],
  ['proxy-sysctls', withSettings({ 'net/ipv4/vs/expire_nodest_conn': 0 }), 'warning'],
  [
    'proxy-sysctls',
    { ...withSettings({ 'net/ipv4/ip_forward': 0 }), runningMode: null },
    'warning',
    /a start sets it to 1/,
  ],
  ['proxy-sysctls', { ...withSettings({ 'net/ipv4/vs/conntrack': 0 }), runningMode: null }, 'note'],
  ['proxy-sysctls', configured({ strictArp: true }), 'error', /arp_announce is 0 instead of 2/],
  ['proxy-sysctls', { kernel: { ...node().kernel, release: '5.4.0' } }, 'warning', /conn_reuse_mode is 1 instead of 0/],
  ['proxy-sysctls', { ...withSettings({ 'net/ipv4/ip_forward': 0 }), ...configured({ mode: 'iptables' }) }, 'ok'],
  ['proxy-sysctls', lack('sysctl net/ipv4/ip_forward', ''), 'warning', /cannot write net\.ipv4\.ip_forward/],
  ['proxy-sysctls', { ...lack('sysctl net/ipv4/ip_forward', ''), netAdmin: false }, 'ok'],
  [
    'sysctl-files',
    { sysctlLines: [{ file: '/etc/sysctl.d/10-x.conf', name: 'net/ipv4/ip_forward', value: '0' }] },
    'warning',
    /10-x\.conf/,
  ],
  [
    'sysctl-files',
    {
      sysctlLines: [
        { file: '/etc/sysctl.d/10-x.conf', name: 'net/ipv4/ip_forward', value: '0' },
        { file: '/etc/sysctl.d/99-y.conf', name: 'net/ipv4/ip_forward', value: '1' },
      ],
    },
    'ok',
  ],
  [
    'sysctl-files',
    { sysctlLines: [{ file: '/etc/sysctl.conf', name: 'net/ipv6/conf/all/forwarding', value: '0' }] },
    'warning',
  ],
  [
    'sysctl-files',
    { sysctlLines: [{ file: '/etc/sysctl.conf', name: 'net/ipv4/conf/all/rp_filter', value: '1' }] },
    'ok',
  ],
  ...(['/etc/sysctl.conf', '/etc/sysctl.d/99-sysctl.conf', '/usr/lib/sysctl.d/99-zz.conf'] as const).map(
    (file): Row => [
      'sysctl-files',
      { sysctlLines: [{ file, name: 'net/ipv4/ip_forward', value: '0' }] },
      'warning',
      new RegExp(`^# "${file}", in place of its line: .*\nnet\\.ipv4\\.ip_forward = 1$`, 'm'),
    ],
  ),
  [
    'sysctl-files',
    { sysctlLines: [{ file: '/etc/sysctl.d/10-x.conf', name: 'net/ipv6/conf/all/forwarding', value: '0' }] },
    'warning',
    /^# \/etc\/sysctl\.d\/99-kube-ipvs\.conf\nnet\.ipv6\.conf\.all\.forwarding = 1\n# only if .*\n.*accept_ra = 2$/m,
  ],
  [
    'sysctl-files',
    {
      ...NO_IPV6_SERVICES,
      sysctlLines: [{ file: '/etc/sysctl.conf', name: 'net/ipv6/conf/all/forwarding', value: '0' }],
    },
    'ok',
  ],
  [
    'ipv6-forwarding',
    {
      ...NO_IPV6_SERVICES,
      ...withSettings({ 'net/ipv6/conf/all/forwarding': 0 }),
      ...links({ addresses: ['2001:db8::7/64'] }),
    },
    'ok',
  ],
  [
    'ipv6-forwarding',
    { ...withSettings({ 'net/ipv6/conf/all/forwarding': 0 }), ...links({ addresses: ['2001:db8::7/64'] }) },
    'warning',
    /accept_ra = 2/,
  ],
  ['ipv6-forwarding', withSettings({ 'net/ipv6/conf/all/forwarding': 0 }), 'note'],
  [
    'ipv6-forwarding',
    { ...withSettings({ 'net/ipv6/conf/all/forwarding': 0 }), kernel: { ...node().kernel, hasIpv6: false } },
    'ok',
  ],
  [
    'ipv6-of-devices',
    withSettings({ 'net/ipv6/conf/default/disable_ipv6': 1 }),
    'note',
    /and so has kube-ipvs0[^]*kube-ipvs --init-only/,
  ],
  [
    'ipv6-of-devices',
    withSettings({ 'net/ipv6/conf/default/disable_ipv6': 1, 'net/ipv6/conf/kube-ipvs0/disable_ipv6': 0 }),
    'ok',
  ],
  [
    'ipv6-of-devices',
    { ...withSettings({ 'net/ipv6/conf/kube-ipvs0/disable_ipv6': 1 }), ...WITHOUT_IPV6 },
    'error',
    /kube-ipvs0\.disable_ipv6 is 1, and the proxy[^]*\nsysctl -w net\.ipv6\.conf\.kube-ipvs0\.disable_ipv6=0\n[^]*--init-only/,
  ],
  ['ipv6-of-devices', { ...withSettings({ 'net/ipv6/conf/default/disable_ipv6': 1 }), ...ROUTES }, 'ok'],
  [
    'ipv6-of-devices',
    { ...withSettings({ 'net/ipv6/conf/lo/disable_ipv6': 1 }), ...ROUTES },
    'warning',
    /conf\.lo\.disable_ipv6 is 1\.[^]*\nsysctl -w net\.ipv6\.conf\.lo\.disable_ipv6=0/,
  ],
  [
    'ipv6-of-devices',
    { ...withSettings({ 'net/ipv6/conf/lo/disable_ipv6': 1 }), ...ROUTES, ...WITHOUT_IPV6 },
    'error',
    /conf\.lo\.disable_ipv6/,
  ],
  [
    'ipv6-of-devices',
    {
      ...withSettings({ 'net/ipv6/conf/default/disable_ipv6': 1 }),
      kernel: { ...node().kernel, hasIpv6: false },
    },
    'ok',
  ],
  [
    'ipv6-of-devices',
    { ...withSettings({ 'net/ipv6/conf/default/disable_ipv6': 1 }), ...configured({ mode: 'iptables' }) },
    'ok',
  ],
  ['bridge-netfilter', links({ name: 'cni0', kind: 'bridge' }), 'error', /modprobe br_netfilter/],
  [
    'bridge-netfilter',
    {
      ...links({ name: 'cni0', kind: 'bridge' }),
      ...withSettings({ 'net/bridge/bridge-nf-call-iptables': 0, 'net/bridge/bridge-nf-call-ip6tables': 1 }),
    },
    'error',
    /bridge-nf-call-iptables is 0/,
  ],
  [
    'bridge-netfilter',
    {
      ...links({ name: 'cni0', kind: 'bridge' }),
      ...withSettings({ 'net/bridge/bridge-nf-call-iptables': 1, 'net/bridge/bridge-nf-call-ip6tables': 1 }),
    },
    'ok',
  ],
  ['bridge-netfilter', links({ name: 'br-storage', kind: 'bridge' }), 'ok'],
  ['bridge-netfilter', links({ name: 'docker0', kind: 'bridge', operState: 'down' }), 'ok'],
  ['bridge-netfilter', links({ name: 'docker0', kind: 'bridge' }, { name: 'cali1' }), 'ok'],
  ['bridge-netfilter', links({ name: 'docker0', kind: 'bridge' }), 'error'],
  [
    'bridge-netfilter',
    {
      ...NO_IPV6_SERVICES,
      ...links({ name: 'cni0', kind: 'bridge' }),
      ...withSettings({ 'net/bridge/bridge-nf-call-iptables': 1, 'net/bridge/bridge-nf-call-ip6tables': 0 }),
    },
    'ok',
  ],
  ['bridge-netfilter', { interfaces: UNSEEN }, 'unknown'],
  [
    'reverse-path-filter',
    { ...links({ name: 'eth1' }), ...withSettings({ 'net/ipv4/conf/all/rp_filter': 1 }) },
    'warning',
    /"eth0", "eth1"/,
  ],
  ['reverse-path-filter', links({ name: 'eth1', rpFilter: 1 }), 'warning', /net\.ipv4\.conf\.eth1\.rp_filter=2/],
  [
    'reverse-path-filter',
    links({ name: 'eth1.100', rpFilter: 1, kind: 'vlan' }),
    'warning',
    /net\.ipv4\.conf\.eth1\/100\.rp_filter/,
  ],
  [
    'reverse-path-filter',
    { ...links({ name: 'eth1', rpFilter: 1 }), ...withSettings({ 'net/ipv4/conf/all/rp_filter': 2 }) },
    'ok',
  ],
  ['reverse-path-filter', withSettings({ 'net/ipv4/conf/all/rp_filter': 1 }), 'ok'],
  ['reverse-path-filter', links({ name: 'veth12', kind: 'veth', rpFilter: 1 }), 'ok'],
  ['reverse-path-filter', links({ name: 'lxc1234', kind: 'veth', rpFilter: 1 }), 'warning', /Cilium/],
]
