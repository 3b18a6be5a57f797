/**
 * What `kube-ipvs doctor` knows of a node: one value, collected once, with bounds for every text
 * and list. It has addresses of the node, but no credentials, no environment and no command lines.
 * A fact that could not be read says why.
 */
import { DISTRIBUTIONS } from '../node/module-remedy.ts'
import { API_SERVER, CLUSTER } from './cluster-facts.ts'
import {
  flag,
  list,
  nullable,
  number,
  object,
  oneOf,
  type Read,
  record,
  type Shape,
  ShapeError,
  text,
} from '../values/shape.ts'
import { OLDER_BUNDLE, seen, since } from './seen.ts'
import { NFT_CHAIN, NFT_RULE, PATH, RIVAL, RULES } from './rule-facts.ts'

/** The format of bundles; a change that older programs would misread gets the next number. */
export const FACTS_FORMAT = 1

/** Programs that matter to a service proxy, by the name of their executable or process. */
const PROGRAMS = [
  'kube-proxy',
  'kubelet',
  'k3s',
  'rke2',
  'kubelite',
  'kube-router',
  'keepalived',
  'loxilb',
  'speaker',
  'kube-vip',
  'calico-node',
  'cilium-agent',
  'bird',
  'zebra',
  'gobgpd',
  'NetworkManager',
  'systemd-networkd',
  'firewalld',
] as const
export type Program = (typeof PROGRAMS)[number]

/** A switch that stands for the command of k3s and RKE2 that joins a node to servers. */
export const AGENT = 'agent'

/** A process of the network namespace that doctor looks at. */
const PROCESS = object({
  program: oneOf(...PROGRAMS),
  pid: number,
  /** Of its command line only the few switches that a check needs, such as `--run-service-proxy=false`. */
  switches: list(text(60), 5),
})

const INTERFACE = object({
  name: text(40),
  kind: text(40),
  isUp: flag,
  /** IF_OPER_* of linux/if.h: `up`, `down`, `unknown` … */
  operState: since(text(20), 'unknown'),
  /** With prefix lengths. Those of kube-ipvs0, which may be thousands, are left out. */
  addresses: list(text(60), 64),
  /** net.ipv4.conf.IF.rp_filter; null when it cannot be read. */
  rpFilter: nullable(number),
})

/** Something that ipvs mode needs and that the kernel or the node lacks (src/node/start-check.ts). */
const LACK = object({
  what: text(200),
  /** '' when no module would help. */
  module: text(100),
  effect: text(300),
  severity: oneOf('fatal', 'error', 'warning'),
})

/** One `.network` file of systemd-networkd whose [Match] can match the device in question. */
const NETWORK_FILE = object({ file: text(300), match: text(300), isUnmanaged: flag })

/** A line that sets a setting at boot and with `sysctl --system`. */
const SYSCTL_LINE = object({ file: text(300), name: text(100), value: text(60) })

/** The connections of IPVS, of kernels that show them without a list. */
const IPVS_TABLE = object({
  connections: number,
  /** Lists of the hash table; 0 while there is no virtual server. */
  buckets: number,
  /** Their binary logarithm, and the largest that the table grows to. */
  bits: number,
  largestBits: nullable(number),
  /** net.ipv4.vs.conn_max; null where the kernel has no limit. */
  max: nullable(number),
})

/** What the running daemon says about itself. */
const DAEMON = object({
  nodeName: text(253),
  /** It has seen the Node object. */
  knowsNode: flag,
  /** Of all pods where the configuration says it, else of those of this node. */
  podCidrs: list(text(60), 10),
  mode: text(20),
  configuredMode: text(20),
  /** The firewall of ipvs mode, and why; null: iptables mode, or the daemon is older. */
  firewall: since(nullable(object({ name: text(20), reason: text(500) })), null),
  health: object({ healthy: flag, reason: nullable(text(500)) }),
  awaiting: list(text(60), 10),
  fallback: nullable(object({ message: text(500), remedy: text(500) })),
  passes: list(object({ what: text(60), failed: number, unreadable: number }), 3),
  /** The first of them; `problemCount` is the number of all. */
  problems: list(
    object({
      code: text(60),
      /** What older programs say nothing about is taken for a problem of the node, so that it is not overlooked. */
      about: since(oneOf('object', 'setting', 'node', 'configuration'), 'node'),
      subject: text(300),
      field: nullable(text(200)),
      message: text(500),
    }),
    50,
  ),
  problemCount: number,
  /**
   * What the Services may have in real servers, and what is left out because that does not suffice;
   * null: the daemon is older.
   */
  room: since(nullable(object({ limit: number, leftOut: object({ services: number, frontends: number }) })), null),
})

const NODE_FACTS = object({
  format: number,
  /** Version of kube-ipvs that collected them. */
  program: text(60),
  /** ISO 8601. */
  collectedAt: text(40),
  nodeName: text(253),
  /** Whether the capability NET_ADMIN was there; without it much cannot be read. */
  netAdmin: flag,
  configuration: object({
    /** `--config FILE`, or where it was taken from. */
    from: text(500),
    /** Why the file was refused; null: it was not. The values below are then the defaults. */
    error: nullable(text(2000)),
    mode: text(20),
    scheduler: text(60),
    strictArp: flag,
    excludeCidrs: list(text(60), 200),
    fallback: text(20),
    virtualAddresses: oneOf('addresses', 'routes'),
  }),
  kernel: object({
    /** As uname -r prints it. */
    release: text(200),
    /** Of the host, for names of packages; all families when unknown. */
    distributions: list(oneOf(...DISTRIBUTIONS), DISTRIBUTIONS.length),
    /** IPv6 is there and not disabled. */
    hasIpv6: flag,
  }),
  /** null: no daemon of kube-ipvs listens, or it has no socket. */
  daemon: since(seen(nullable(DAEMON)), OLDER_BUNDLE),
  /** Why a daemon that listens gives no answer, although it should; '' when it does, or when none listens. */
  daemonSilence: since(text(500), ''),
  /** The mode that a running proxy answers at its metrics address; null: none answers. */
  runningMode: nullable(text(20)),
  /** The proxy that answers has the metrics of kube-ipvs. */
  isOursRunning: flag,
  processes: list(PROCESS, 200),
  /** Why other processes of the node may not be visible; null: all are. */
  hiddenProcesses: nullable(text(300)),
  lacks: seen(list(LACK, 100)),
  /** The firewall of ipvs mode that a start would choose here. */
  likelyFirewall: since(seen(oneOf('iptables', 'nftables')), OLDER_BUNDLE),
  /**
   * Values of the settings in WATCHED_SETTINGS, by the name below /proc/sys; those the kernel does
   * not have are left out.
   */
  settings: record(number, 100),
  sysctlLines: list(SYSCTL_LINE, 200),
  interfaces: seen(list(INTERFACE, 1000)),
  ipvs: seen(
    nullable(
      object({
        virtualServers: number,
        sctpServers: since(number, 0),
        /** Of those with an address. An older program did not count: there may be some. */
        ipv6Servers: since(number, 1),
        tcpTimeoutSeconds: number,
      }),
    ),
  ),
  /** Whether IPVS forwards SCTP. */
  ipvsSctp: since(seen(flag), OLDER_BUNDLE),
  /** null before Linux 7.1. */
  ipvsTable: since(seen(nullable(IPVS_TABLE)), OLDER_BUNDLE),
  /** `backEnd` null: no program is installed. */
  iptables: seen(object({ backEnd: nullable(oneOf('nft', 'legacy')), reason: text(500), version: nullable(text(30)) })),
  rules: seen(list(RULES, 4)),
  /** Tables of iptables-legacy in the kernel, as `ip filter`, whether or not a program here reads them. */
  legacyTables: since(list(text(60), 20), []),
  nftRules: since(
    seen(
      object({
        /** Tables that iptables-save cannot print, as `ip filter`. */
        unprinted: list(text(30), 10),
        rules: list(NFT_RULE, 100),
      }),
    ),
    OLDER_BUNDLE,
  ),
  rivals: since(seen(list(RIVAL, 40)), OLDER_BUNDLE),
  /** The modes that the kernel has something of, in either back end of iptables. */
  modesInKernel: since(seen(list(oneOf('ipvs', 'iptables'), 2)), OLDER_BUNDLE),
  /** The tables of kube-proxy's nftables mode, as `ip kube-proxy`. */
  nftProxyTables: seen(list(text(60), 4)),
  nftChains: seen(list(NFT_CHAIN, 100)),
  /** In ipvs mode; none in iptables mode and where there are no Services. */
  paths: since(seen(list(PATH, 16)), OLDER_BUNDLE),
  conntrack: seen(object({ count: number, max: number })),
  /** The values of `unmanaged-devices` of NetworkManager. */
  unmanagedDevices: list(text(1000), 50),
  networkd: object({
    /** Those that match kube-ipvs0, and those that match lo, where local routes are; the first one by name decides. */
    files: list(NETWORK_FILE, 50),
    loopbackFiles: list(NETWORK_FILE, 50),
    /** ManageForeignRoutingPolicyRules of networkd.conf; networkd's default is true. */
    managesForeignRules: flag,
    /** ManageForeignRoutes of networkd.conf; networkd's default is true. */
    managesForeignRoutes: flag,
    /** What networkd says of kube-ipvs0, `unmanaged`; '' when it says nothing. */
    deviceState: text(60),
  }),
  /** What on this node starts kube-proxy again. */
  kubeProxyOrigins: object({
    /** Files of static pods that name kube-proxy. */
    staticPods: list(text(300), 20),
    /** kubelet has a volume with the ConfigMap kube-proxy of a pod on this node. */
    hasPodVolume: flag,
    /** kubeadm made this node. */
    isKubeadm: flag,
    /** The configuration of k3s or RKE2 says disable-kube-proxy. */
    isDisabledInK3s: flag,
  }),
  /** Whether the configuration of keepalived has virtual servers; null: it could not be read. */
  keepalivedServers: since(nullable(flag), null),
  /**
   * What the agent of Cilium on this node says about replacing kube-proxy: `true`, `false`,
   * `strict`; '' when it says nothing.
   */
  ciliumReplacement: text(20),
  clock: seen(object({ isSynchronized: flag })),
  cluster: seen(CLUSTER),
  /** An API server that is named and does not answer; null: it answers, or none is named. */
  apiServer: since(nullable(API_SERVER), null),
  /** The commands of a first pass, in order; the rest of a long list is only counted. */
  changes: seen(object({ count: number, commands: list(text(500), 200) })),
})

export type NodeFacts = Read<typeof NODE_FACTS>

/** The facts of a node. Throws a ShapeError with the code `bundle-invalid`. */
export const FACTS: Shape<NodeFacts> = (value, path) => {
  try {
    return NODE_FACTS(value, path)
  } catch (cause) {
    if (!(cause instanceof ShapeError)) throw cause
    throw new ShapeError(cause.path === '' ? '' : `.${cause.path}`, cause.reason, 'bundle-invalid')
  }
}

export type InterfaceFact = Read<typeof INTERFACE>
export type DaemonFact = Read<typeof DAEMON>
export type IpvsTableFact = Read<typeof IPVS_TABLE>
export type ProcessFact = Read<typeof PROCESS>
export type SysctlLine = Read<typeof SYSCTL_LINE>
export type NetworkFile = Read<typeof NETWORK_FILE>

/** The settings that checks look at, by the name below /proc/sys. */
export const WATCHED_SETTINGS = [
  'net/ipv4/ip_forward',
  'net/ipv6/conf/all/forwarding',
  'net/ipv6/conf/all/disable_ipv6',
  'net/ipv6/conf/default/disable_ipv6',
  'net/ipv6/conf/kube-ipvs0/disable_ipv6',
  'net/ipv6/conf/lo/disable_ipv6',
  'net/ipv4/vs/conntrack',
  'net/ipv4/vs/conn_reuse_mode',
  'net/ipv4/vs/expire_nodest_conn',
  'net/ipv4/vs/expire_quiescent_template',
  'net/ipv4/conf/all/arp_ignore',
  'net/ipv4/conf/all/arp_announce',
  'net/ipv4/conf/all/rp_filter',
  'net/ipv4/tcp_keepalive_time',
  'net/bridge/bridge-nf-call-iptables',
  'net/bridge/bridge-nf-call-ip6tables',
] as const
