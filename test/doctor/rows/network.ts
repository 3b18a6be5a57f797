/** For the checks of networks and interfaces: facts that trigger them, with what they find, and facts that do not. */
import type { NodeFacts } from '../../../src/doctor/facts.ts'
import { clusterWith, configured, daemonSet, links, node, ROUTES, running } from '../healthy-node.ts'
import type { Changes, Row } from './row.ts'

const networkd = (changes: Partial<NodeFacts['networkd']>): Changes => ({
  ...running('systemd-networkd'),
  networkd: { ...node().networkd, ...changes },
})

const LOOPBACK_FILE = { file: '/etc/systemd/network/10-lo.network', match: 'Name=lo', isUnmanaged: false }

export const NETWORK_ROWS: readonly Row[] = [
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
    'network-manager',
    { ...running('NetworkManager'), unmanagedDevices: ['interface-name:kube-*', 'except:interface-name:kube-ipvs0'] },
    'warning',
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
  ['service-device', links({ name: 'kube-ipvs0', kind: 'bridge' }), 'warning', /uses it as it is/],
  ['service-device', links(), 'ok'],
]
