/** For each check: facts that trigger it, with what it finds, and facts that do not. */
import type { Distribution } from '../../src/node/module-remedy.ts'
import type { PathFact } from '../../src/doctor/rule-facts.ts'
import type { DaemonFact, IpvsTableFact, NodeFacts } from '../../src/doctor/facts.ts'
import { type Changes, FOREIGN_RULE_ROWS, type Row, UNSEEN } from './foreign-rule-rows.ts'
import { CLEAN_RULES, clusterWith, configured, daemonSet, ETH0, node, running, withSettings } from './healthy-node.ts'

const LEGACY = { ...CLEAN_RULES, backEnd: 'legacy' } as const
const filter = (chain: 'INPUT' | 'FORWARD', policy: string, ...rules: string[]) => ({
  ...CLEAN_RULES,
  builtIn: [{ chain, policy, rules }],
})
const origins = (changes: Partial<NodeFacts['kubeProxyOrigins']>): Changes => ({
  kubeProxyOrigins: { ...node().kubeProxyOrigins, ...changes },
})
const lack = (what: string, module: string, severity: 'fatal' | 'error' | 'warning' = 'error'): Changes => ({
  lacks: { value: [{ what, module, effect: 'something does not work', severity }] },
})
const links = (...more: Partial<typeof ETH0>[]): Changes => ({
  interfaces: { value: [ETH0, ...more.map((one) => ({ ...ETH0, ...one }))] },
})
const hostOf = (distribution: Distribution, release: string): NodeFacts['kernel'] => ({
  release,
  distributions: [distribution],
  hasIpv6: true,
})
const iptables = (version: string | null, backEnd: 'nft' | 'legacy' | null = 'nft'): Changes => ({
  iptables: { value: { backEnd, reason: 'because', version } },
})
const table = (changes: Partial<IpvsTableFact>): Changes => ({
  ipvsTable: {
    value: { connections: 900, buckets: 4096, bits: 12, largestBits: 12, max: 1_073_741_824, ...changes },
  },
})
const networkd = (changes: Partial<NodeFacts['networkd']>): Changes => ({
  ...running('systemd-networkd'),
  networkd: { ...node().networkd, ...changes },
})

const daemon = (changes: Partial<DaemonFact>): Changes => {
  const { daemon: healthy } = node()
  if ('unseen' in healthy || healthy.value === null) throw new Error('a healthy node has a daemon')
  return { daemon: { value: { ...healthy.value, ...changes } } }
}
const path = (changes: Partial<PathFact>): PathFact => ({
  from: 'pod',
  source: '10.244.7.2',
  destination: '10.96.0.1:80/tcp',
  result: 'dropped',
  hook: 'INPUT',
  table: 'filter',
  chain: 'INPUT',
  rule: '',
  ...changes,
})
const paths = (...all: readonly Partial<PathFact>[]): Changes => ({ paths: { value: all.map(path) } })

const ROUTES = configured({ virtualAddresses: 'routes' })
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
const LOOPBACK_FILE = { file: '/etc/systemd/network/10-lo.network', match: 'Name=lo', isUnmanaged: false }

export const ROWS: readonly Row[] = [
  ...FOREIGN_RULE_ROWS,
  ['daemon-health', {}, 'ok'],
  [
    'daemon-health',
    daemon({ health: { healthy: false, reason: 'the Node is unknown' } }),
    'error',
    /says: the Node is unknown\.\n.*503/,
  ],
  ['daemon-health', daemon({ awaiting: ['services'] }), 'warning', /waits for the list of services/],
  ['daemon-health', daemon({ mode: 'iptables' }), 'warning', /still runs in iptables mode instead of ipvs mode/],
  [
    'daemon-health',
    daemon({ mode: 'iptables', fallback: { message: 'no IPVS', remedy: 'modprobe ip_vs' } }),
    'warning',
    /runs in iptables mode: no IPVS\.[^]*# modprobe ip_vs/,
  ],
  [
    'daemon-health',
    daemon({ passes: [{ what: 'IPv6', failed: 1, unreadable: 0 }] }),
    'error',
    /1 operation .*rules of IPv6/,
  ],
  [
    'daemon-health',
    daemon({ passes: [{ what: 'tables', failed: 0, unreadable: 2 }] }),
    'error',
    /2 tables of the kernel/,
  ],
  [
    'daemon-health',
    daemon({
      problems: [{ code: 'a', about: 'node', subject: 'kube-ipvs0', field: null, message: 'is no dummy' }],
      problemCount: 1,
    }),
    'error',
    /kube-ipvs0: is no dummy/,
  ],
  [
    'daemon-health',
    daemon({
      problems: [
        { code: 'a', about: 'object', subject: 'service demo/web', field: 'spec', message: 'is wrong' },
        { code: 'a', about: 'setting', subject: 'sysctl net.x', field: null, message: 'is read-only' },
      ],
      problemCount: 9,
    }),
    'note',
    /8 problems with objects[^]*could not write 1 setting/,
  ],
  [
    'daemon-health',
    { daemon: { unseen: 'no' }, daemonSilence: 'it does not answer within 10 s' },
    'warning',
    /does not answer within 10 s/,
  ],
  [
    'daemon-health',
    daemon({ room: { limit: 5000, leftOut: { services: 2, frontends: 1 } } }),
    'warning',
    /room for 5000 real servers \(kubeIPVS\.maxRealServers\) does not suffice: 1 frontend of 2 Services left out/,
  ],
  ['daemon-health', daemon({ room: null }), 'ok'],
  ['daemon-health', { daemon: { unseen: 'Permission denied' } }, 'unknown'],
  ['daemon-health', { daemon: { value: null }, runningMode: null }, 'warning', /no proxy answers/],
  ['daemon-health', { daemon: { value: null }, runningMode: null, ipvs: { value: null } }, 'ok'],
  ['daemon-health', { daemon: { value: null }, runningMode: null, hiddenProcesses: 'hidepid' }, 'ok'],
  ['daemon-health', { daemon: { value: null }, runningMode: null, ...running('kube-proxy') }, 'ok'],
  ['daemon-health', { daemon: { value: null } }, 'ok'],
  ['node-name', {}, 'ok'],
  [
    'node-name',
    clusterWith({ node: { value: { isThere: false, similar: ['node7.example.internal', '$(reboot)'] } } }),
    'error',
    /no Node "node7"; this host may be "node7\.example\.internal"\.[^]*\n--hostname-override=node7\.example\.internal\n/,
  ],
  ['node-name', clusterWith({ node: { value: { isThere: false, similar: [] } } }), 'error', /no Node "node7"\.\n/],
  ['node-name', clusterWith({ node: UNSEEN }), 'unknown'],
  ['node-name', { cluster: UNSEEN }, 'unknown'],
  [
    'node-name',
    { cluster: UNSEEN, ...daemon({ knowsNode: false, health: { healthy: false, reason: 'the Node is unknown' } }) },
    'error',
    /does not know its Node "node7"/,
  ],
  // Manifests need no Node.
  ['node-name', { cluster: UNSEEN, ...daemon({ knowsNode: false }) }, 'unknown'],
  ['kube-proxy-running', running('kube-proxy'), 'error', /process 1000\b.*\n.*undo/],
  [
    'kube-proxy-running',
    { runningMode: 'iptables', isOursRunning: false },
    'error',
    /"iptables" mode that is not kube-ipvs/,
  ],
  ['kube-proxy-running', { runningMode: null, isOursRunning: false }, 'ok'],
  ['kube-proxy-running', { hiddenProcesses: 'hidepid' }, 'unknown'],
  ['kube-proxy-running', { ...running('kube-proxy'), hiddenProcesses: 'hidepid' }, 'error'],
  ['embedded-proxy', running('k3s'), 'warning', /disable-kube-proxy: true/],
  ['embedded-proxy', { ...running('k3s'), ...origins({ isDisabledInK3s: true }) }, 'ok'],
  ['embedded-proxy', { processes: [{ program: 'rke2', pid: 1, switches: ['--disable-kube-proxy'] }] }, 'ok'],
  ['embedded-proxy', running('kube-router'), 'error', /--run-service-proxy=false/],
  [
    'embedded-proxy',
    { processes: [{ program: 'kube-router', pid: 1, switches: ['--run-service-proxy=false'] }] },
    'ok',
  ],
  [
    'kube-proxy-restored',
    origins({ staticPods: ['/etc/kubernetes/manifests/kube-proxy.yaml'] }),
    'error',
    /^mv -- \/etc\/kubernetes\/manifests\/kube-proxy\.yaml \/root\/$/m,
  ],
  [
    'kube-proxy-restored',
    origins({ staticPods: ["/etc/kubernetes/manifests/a 'b'.yaml"] }),
    'error',
    /^# move that file out of \/etc\/kubernetes\/manifests$/m,
  ],
  [
    'kube-proxy-restored',
    { ...origins({ hasPodVolume: true }), isOursRunning: false, runningMode: null },
    'error',
    /volume/,
  ],
  ['kube-proxy-restored', origins({ hasPodVolume: true }), 'ok'],
  ['kube-proxy-restored', origins({ isKubeadm: true }), 'note', /--skip-phases=addon\/kube-proxy/],
  [
    'kube-proxy-restored',
    clusterWith({
      daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3')] },
      kubeProxyMode: { value: 'nftables' },
    }),
    'error',
    /"kube-system\/kube-proxy" of kube-proxy runs on nodes, in "nftables" mode\./,
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3', 0)] } }),
    'note',
    /"kube-system\/kube-proxy" of kube-proxy is there and runs on no node\./,
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3', 2, false)] } }),
    'note',
    /runs on other nodes, not on this one/,
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3', 2, true)] } }),
    'error',
    /"kube-ipvs\/proxy":"kube-proxy"/,
  ],
  ['kube-proxy-restored', clusterWith({ daemonSets: UNSEEN }), 'unknown'],
  ['kube-proxy-restored', { cluster: UNSEEN }, 'unknown'],
  [
    'kube-proxy-restored',
    { cluster: UNSEEN, ...origins({ staticPods: ['/etc/kubernetes/manifests/a.yaml'] }) },
    'error',
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'example/kube-ipvs:1')] } }),
    'ok',
  ],
  ['both-back-ends', { rules: { value: [CLEAN_RULES, LEGACY] } }, 'error', /iptables-legacy-save \| grep -v KUBE-/],
  [
    'both-back-ends',
    { rules: { value: [CLEAN_RULES, LEGACY] }, ...iptables('1.8.9', 'legacy') },
    'error',
    /iptables-nft-save/,
  ],
  [
    'both-back-ends',
    {
      rules: {
        value: [{ ...CLEAN_RULES, kubeChains: ['mangle KUBE-KUBELET-CANARY', 'filter KUBE-FIREWALL'] }, LEGACY],
      },
    },
    'ok',
  ],
  ['both-back-ends', { rules: UNSEEN }, 'unknown'],
  ['other-mode', { rules: { value: [{ ...CLEAN_RULES, serviceChains: 12 }] } }, 'note', /12 chains of iptables mode/],
  ['other-mode', { ...configured({ mode: 'iptables' }), runningMode: null }, 'note', /3 virtual servers/],
  ['other-mode', configured({ mode: 'iptables' }), 'ok'],
  ['nftables-proxy', { nftProxyTables: { value: ['ip kube-proxy'] } }, 'warning', /nft delete table ip kube-proxy/],
  ['nftables-proxy', { nftProxyTables: { value: ['ip6 kube-proxy'] }, runningMode: 'nftables' }, 'error'],
  ['ipvs-writers', running('keepalived'), 'warning', /excludeCIDRs/],
  ['ipvs-writers', { ...running('keepalived'), ...configured({ excludeCidrs: ['192.0.2.0/24'] }) }, 'ok'],
  ['ipvs-writers', { ...running('loxilb'), ...configured({ mode: 'iptables' }) }, 'ok'],

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
  ['kernel-modules', lack('x', '$(reboot)'), 'error', /^(?![^]*modprobe)/],
  ['kernel-modules', lack('sysctl net/ipv4/ip_forward', ''), 'ok'],
  ['kernel-modules', { lacks: UNSEEN }, 'unknown'],
  ['kernel-modules', { lacks: UNSEEN, ipvs: { value: null } }, 'error', /modprobe ip_vs/],
  ['kernel-version', { kernel: { ...node().kernel, release: '6.1.0-18-amd64' } }, 'note', /older than 6\.2/],
  [
    'kernel-version',
    {
      kernel: { ...node().kernel, release: '6.1.0' },
      ipvs: { value: { virtualServers: 9000, sctpServers: 0, tcpTimeoutSeconds: 900 } },
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
    { ipvsSctp: { value: false }, ipvs: { value: { virtualServers: 3, sctpServers: 2, tcpTimeoutSeconds: 7400 } } },
    'error',
    /2 virtual servers are for SCTP\.\n.*forwards no packet/,
  ],
  ['ipvs-sctp', { ipvsSctp: { value: false }, ipvs: { value: null } }, 'ok'],
  ['ipvs-sctp', { ipvsSctp: { value: false }, ...configured({ mode: 'iptables' }) }, 'ok'],
  ['ipvs-sctp', { ipvsSctp: UNSEEN }, 'unknown'],
  ['iptables-programs', iptables(null, null), 'error', /apt-get install iptables/],
  ['iptables-programs', { iptables: UNSEEN }, 'unknown'],
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

  ['strict-arp', running('speaker'), 'error', /MetalLB is here.*\n[^]*strictARP: true/],
  ['strict-arp', running('kube-vip'), 'error', /kube-vip/],
  ['strict-arp', clusterWith({ daemonSets: { value: [daemonSet('s', 'quay.io/metallb/speaker:v0.15.2')] } }), 'error'],
  ['strict-arp', { ...running('speaker'), ...configured({ strictArp: true }) }, 'ok'],
  ['strict-arp', { ...running('speaker'), ...configured({ mode: 'iptables' }) }, 'ok'],
  ['strict-arp', { hiddenProcesses: 'hidepid' }, 'unknown'],
  ['calico', { ...running('calico-node'), ...clusterWith({ calicoBpf: { value: true } }) }, 'error', /bpfEnabled/],
  ['calico', links({ name: 'cali123', kind: 'veth' }, { name: 'bpfin.cali', kind: 'veth' }), 'error'],
  ['calico', { ...running('calico-node'), ...links() }, 'note', /restarts once/],
  ['calico', running('calico-node'), 'ok'],
  ['cilium', running('cilium-agent'), 'warning', /not known/],
  ['cilium', { ...running('cilium-agent'), ciliumReplacement: 'true' }, 'error', /kubeProxyReplacement=false/],
  ['cilium', { ...running('cilium-agent'), ...clusterWith({ ciliumReplacement: { value: 'strict' } }) }, 'error'],
  ['cilium', { ...running('cilium-agent'), ciliumReplacement: 'false' }, 'ok'],
  ['cilium', { ...links({ name: 'cilium_host', kind: 'veth' }), ciliumReplacement: 'disabled' }, 'ok'],
  ['virtual-addresses', running('bird', 'calico-node', 'speaker'), 'ok'],
  ['virtual-addresses', ROUTES, 'ok'],
  ['virtual-addresses', { ...ROUTES, hiddenProcesses: 'hidepid' }, 'unknown'],
  [
    'virtual-addresses',
    { ...ROUTES, ...running('bird', 'zebra') },
    'warning',
    /BIRD and FRR run here.*\n.*announces no Service.*\n[^]*virtualAddresses: addresses/,
  ],
  [
    'virtual-addresses',
    { ...ROUTES, ...running('bird', 'calico-node') },
    'note',
    /^Calico runs here.*\n.*Felix finds ipvs mode as before.*policies see the node/,
  ],
  ['virtual-addresses', { ...ROUTES, ...running('speaker') }, 'note', /metallb-excludel2.*strictARP is needed/],
  ['virtual-addresses', { ...running('bird'), ...configured({ virtualAddresses: 'routes', mode: 'iptables' }) }, 'ok'],
  ['network-manager', { ...ROUTES, ...running('NetworkManager') }, 'ok'],
  ['network-manager', running('NetworkManager'), 'warning', /unmanaged-devices\+=interface-name:kube-ipvs0/],
  [
    'network-manager',
    { ...running('NetworkManager'), unmanagedDevices: ['interface-name:cali*', 'interface-name:kube-ipvs0'] },
    'ok',
  ],
  [
    'systemd-networkd',
    networkd({ files: [{ file: '/etc/systemd/network/20-all.network', match: 'Name=*', isUnmanaged: false }] }),
    'error',
    /Unmanaged=yes/,
  ],
  ['systemd-networkd', networkd({ deviceState: 'configured' }), 'error', /"configured"/],
  ['systemd-networkd', { ...ROUTES, ...networkd({ deviceState: 'configured' }) }, 'ok'],
  ['systemd-networkd', networkd({ loopbackFiles: [LOOPBACK_FILE] }), 'ok'],
  [
    'systemd-networkd',
    { ...ROUTES, ...networkd({ loopbackFiles: [LOOPBACK_FILE] }) },
    'warning',
    /10-lo\.network.*matches lo.*\n[^]*ManageForeignRoutes=no/,
  ],
  [
    'systemd-networkd',
    { ...ROUTES, ...networkd({ loopbackFiles: [LOOPBACK_FILE], managesForeignRoutes: false }) },
    'ok',
  ],
  ['systemd-networkd', { ...ROUTES, ...networkd({ loopbackFiles: [{ ...LOOPBACK_FILE, isUnmanaged: true }] }) }, 'ok'],
  ['systemd-networkd', networkd({ deviceState: 'unmanaged' }), 'ok'],
  ['systemd-networkd', networkd({ files: [{ file: '/a', match: '', isUnmanaged: true }] }), 'ok'],
  ['systemd-networkd', { ...networkd({}), ...links({ name: 'cali1' }) }, 'note', /ManageForeignRoutingPolicyRules=no/],
  ['systemd-networkd', { ...networkd({ managesForeignRules: false }), ...links({ name: 'cali1' }) }, 'ok'],
  ['service-device', links({ name: 'kube-ipvs0', kind: 'bridge' }), 'error', /ip link delete kube-ipvs0/],
  ['service-device', links(), 'ok'],

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
  [
    'nft-policies',
    { nftChains: { value: [{ family: 'inet', table: 'filter', chain: 'input', hook: 'input', policy: 'drop' }] } },
    'warning',
    /"inet filter input"/,
  ],
  [
    'nft-policies',
    { nftChains: { value: [{ family: 'inet', table: 'filter', chain: 'input', hook: 'input', policy: 'accept' }] } },
    'ok',
  ],
  ['nft-policies', running('firewalld'), 'warning', /firewall-cmd --reload/],
  ['service-paths', {}, 'ok'],
  [
    'service-paths',
    paths({}, { from: 'outside', source: '198.51.100.77', destination: '192.0.2.7:30080/tcp' }),
    'error',
    /of pods of this node and clients outside are dropped in INPUT \(filter\) by the policy of INPUT: 10\.244\.7\.2 to 10\.96\.0\.1:80\/tcp, .*\n.*passes INPUT.*\nkube-ipvs explain 10\.96\.0\.1:80 --from 10\.244\.7\.2\n[^]*iptables -I INPUT -s 10\.244\.7\.0\/24 -j ACCEPT/,
  ],
  [
    'service-paths',
    paths({ result: 'refused', rule: '-j REJECT --reject-with icmp-host-prohibited' }),
    'error',
    /rejected in INPUT \(filter\) by "-A INPUT -j REJECT --reject-with icmp-host-prohibited"/,
  ],
  [
    'service-paths',
    paths({ destination: '[fd00::1]:80/tcp', source: 'fd00:244::2' }),
    'error',
    /explain \[fd00::1\]:80 --from fd00:244::2\n[^]*\nip6tables -I INPUT -s POD_CIDR/,
  ],
  [
    'service-paths',
    paths({ result: 'no-answer', hook: 'FORWARD', chain: 'FORWARD' }),
    'error',
    /The answers of Services to/,
  ],
  // A bundle could name anything.
  ['service-paths', paths({ destination: '$(reboot):80/tcp' }), 'error', /time out or are refused\.\n# accept/],
  // What the proxy itself drops, and what depends on rules that cannot be judged.
  [
    'service-paths',
    paths({ chain: 'KUBE-PROXY-FIREWALL', rule: '-j DROP' }, { result: 'unsure' }, { result: 'passes' }),
    'ok',
  ],
  ['service-paths', { paths: UNSEEN }, 'unknown'],
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
    { ipvs: { value: { virtualServers: 0, sctpServers: 0, tcpTimeoutSeconds: 900 } } },
    'note',
    /tcpTimeout: 7320s/,
  ],
  ['idle-timeout', { ipvs: { value: null } }, 'ok'],
  ['idle-timeout', { ipvs: UNSEEN }, 'unknown'],

  ['configuration', configured({ error: 'ipvs.scheduler: unknown' }), 'error', /refused: ipvs\.scheduler/],
  ['rights', { netAdmin: false }, 'note', /sudo kube-ipvs doctor/],
  ['running-mode', { runningMode: 'iptables' }, 'warning', /"iptables" mode runs here, and ipvs mode is configured/],
  ['running-mode', { runningMode: null }, 'ok'],
  [
    'start-changes',
    { changes: { value: { count: 2, commands: ['ipvsadm -A -t 10.96.0.1:80 -s rr', 'ip x'] } }, runningMode: null },
    'note',
    /2 changes/,
  ],
  [
    'start-changes',
    { changes: { value: { count: 40, commands: Array.from({ length: 20 }, () => 'ip x') } } },
    'warning',
    /although a proxy runs[^]*and 30 more/,
  ],
  ['start-changes', { changes: UNSEEN }, 'unknown'],
]
