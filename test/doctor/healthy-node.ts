/** The facts of a node where every check is content: tests change what they are about. */
import type { RulesFact } from '../../src/doctor/rule-facts.ts'
import type { ClusterFact, DaemonSetFact } from '../../src/doctor/cluster-facts.ts'
import { type DaemonFact, FACTS_FORMAT, type NodeFacts, type Program } from '../../src/doctor/facts.ts'

export const CLEAN_RULES: RulesFact = {
  backEnd: 'nft',
  family: 'IPv4',
  kubeChains: ['nat KUBE-SERVICES', 'filter KUBE-FORWARD', 'mangle KUBE-KUBELET-CANARY'],
  serviceChains: 0,
  otherChains: [],
  acceptsAnswers: false,
  builtIn: [
    { chain: 'INPUT', policy: 'ACCEPT', rules: [] },
    {
      chain: 'FORWARD',
      policy: 'ACCEPT',
      rules: ['-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD'],
    },
    { chain: 'OUTPUT', policy: 'ACCEPT', rules: [] },
  ],
}

export const ETH0 = {
  name: 'eth0',
  kind: '',
  isUp: true,
  operState: 'up',
  addresses: ['192.0.2.7/24', 'fe80::1/64'],
  rpFilter: 0,
}

const HEALTHY: NodeFacts = {
  format: FACTS_FORMAT,
  program: '0.1.0',
  collectedAt: '2026-11-22T12:00:00.000Z',
  nodeName: 'node7',
  netAdmin: true,
  configuration: {
    from: 'config.conf',
    error: null,
    mode: 'ipvs',
    scheduler: 'rr',
    strictArp: false,
    excludeCidrs: [],
    fallback: 'iptables',
    virtualAddresses: 'addresses',
  },
  kernel: { release: '6.12.3-amd64', distributions: ['Debian'], hasIpv6: true },
  daemon: {
    value: {
      nodeName: 'node7',
      knowsNode: true,
      podCidrs: ['10.244.7.0/24'],
      mode: 'ipvs',
      configuredMode: 'ipvs',
      health: { healthy: true, reason: null },
      awaiting: [],
      firewall: { name: 'iptables', reason: 'this node has everything for it' },
      fallback: null,
      passes: [{ what: 'tables', failed: 0, unreadable: 0 }],
      problems: [],
      problemCount: 0,
      room: { limit: 300_000, leftOut: { services: 0, frontends: 0 } },
    },
  },
  daemonSilence: '',
  runningMode: 'ipvs',
  isOursRunning: true,
  processes: [{ program: 'kubelet', pid: 800, switches: [] }],
  hiddenProcesses: null,
  lacks: { value: [] },
  likelyFirewall: { value: 'iptables' },
  settings: {
    'net/ipv4/ip_forward': 1,
    'net/ipv6/conf/all/forwarding': 1,
    'net/ipv4/vs/conntrack': 1,
    'net/ipv4/vs/conn_reuse_mode': 1,
    'net/ipv4/vs/expire_nodest_conn': 1,
    'net/ipv4/vs/expire_quiescent_template': 1,
    'net/ipv4/conf/all/arp_ignore': 0,
    'net/ipv4/conf/all/arp_announce': 0,
    'net/ipv4/conf/all/rp_filter': 0,
    'net/ipv4/tcp_keepalive_time': 7200,
  },
  sysctlLines: [],
  interfaces: {
    value: [ETH0, { name: 'kube-ipvs0', kind: 'dummy', isUp: false, operState: 'down', addresses: [], rpFilter: 0 }],
  },
  ipvs: { value: { virtualServers: 3, sctpServers: 0, ipv6Servers: 1, tcpTimeoutSeconds: 7400 } },
  ipvsSctp: { value: true },
  ipvsTable: { value: { connections: 900, buckets: 4096, bits: 12, largestBits: 12, max: 1_073_741_824 } },
  iptables: { value: { backEnd: 'nft', reason: 'only the programs of nft are installed', version: '1.8.9' } },
  rules: { value: [CLEAN_RULES, { ...CLEAN_RULES, family: 'IPv6' }] },
  legacyTables: [],
  modesInKernel: { value: ['ipvs'] },
  nftRules: { value: { unprinted: [], rules: [] } },
  rivals: { value: [] },
  nftProxyTables: { value: [] },
  nftChains: { value: [] },
  paths: { value: [] },
  conntrack: { value: { count: 1000, max: 262_144 } },
  unmanagedDevices: [],
  networkd: { files: [], loopbackFiles: [], managesForeignRules: true, managesForeignRoutes: true, deviceState: '' },
  kubeProxyOrigins: { staticPods: [], hasPodVolume: false, isKubeadm: false, isDisabledInK3s: false },
  keepalivedServers: null,
  ciliumReplacement: '',
  clock: { value: { isSynchronized: true } },
  cluster: {
    value: {
      clockAheadSeconds: 0.2,
      daemonSets: { value: [] },
      kubeProxyMode: { value: null },
      ciliumReplacement: { value: null },
      calicoBpf: { value: null },
      node: { value: { isThere: true, similar: [] } },
    },
  },
  apiServer: null,
  changes: { value: { count: 0, commands: [] } },
}

export function node(changes: Partial<NodeFacts> = {}): NodeFacts {
  return { ...HEALTHY, ...changes }
}

/** The configuration with some other values. */
export function configured(changes: Partial<NodeFacts['configuration']>): Pick<NodeFacts, 'configuration'> {
  return { configuration: { ...HEALTHY.configuration, ...changes } }
}

/** The settings with some other values. */
export function withSettings(changes: Readonly<Record<string, number>>): Pick<NodeFacts, 'settings'> {
  return { settings: { ...HEALTHY.settings, ...changes } }
}

/** Processes of these programs. */
export function running(...programs: readonly Program[]): Pick<NodeFacts, 'processes'> {
  return { processes: programs.map((program, index) => ({ program, pid: 1000 + index, switches: [] })) }
}

/** The cluster with some other facts. */
export function clusterWith(changes: Partial<ClusterFact>): Pick<NodeFacts, 'cluster'> {
  if ('unseen' in HEALTHY.cluster) throw new Error('a healthy node sees its cluster')
  return { cluster: { value: { ...HEALTHY.cluster.value, ...changes } } }
}

export function daemonSet(name: string, image: string, desired = 3, selectsHere: boolean | null = null): DaemonSetFact {
  return { namespace: 'kube-system', name, images: [image], desired, selectsHere }
}

/** The daemon with some other facts. */
export function daemon(changes: Partial<DaemonFact>): Pick<NodeFacts, 'daemon'> {
  if ('unseen' in HEALTHY.daemon || HEALTHY.daemon.value === null) throw new Error('a healthy node has a daemon')
  return { daemon: { value: { ...HEALTHY.daemon.value, ...changes } } }
}

/** Something that the kernel or the node lacks. */
export function lack(
  what: string,
  module: string,
  severity: 'fatal' | 'error' | 'warning' = 'error',
): Pick<NodeFacts, 'lacks'> {
  return { lacks: { value: [{ what, module, effect: 'something does not work', severity }] } }
}

/** eth0, and interfaces that differ from it. */
export function links(...more: Partial<typeof ETH0>[]): Pick<NodeFacts, 'interfaces'> {
  return { interfaces: { value: [ETH0, ...more.map((one) => ({ ...ETH0, ...one }))] } }
}

export const ROUTES = configured({ virtualAddresses: 'routes' })
