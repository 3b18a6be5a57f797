/**
 * What doctor knows of the rules of a node, of either back end of iptables and of nft, and of the
 * paths of packets through them.
 */
import { USUAL_NAT_PRIORITY } from '../nftables/nat-order.ts'
import { flag, list, number, object, oneOf, type Read, text } from '../values/shape.ts'
import { since } from './seen.ts'

/** A built-in chain of the filter table. */
const BUILT_IN_CHAIN = object({
  chain: oneOf('INPUT', 'FORWARD', 'OUTPUT'),
  /** `ACCEPT` or `DROP`. */
  policy: text(20),
  /** The first rules in order, without `-A CHAIN `, each cut to 300 characters. */
  rules: list(text(300), 100),
})

/** What one back end of iptables holds for one IP family, without the rules of Services. */
export const RULES = object({
  backEnd: oneOf('nft', 'legacy'),
  family: oneOf('IPv4', 'IPv6'),
  /** Names of chains that begin with KUBE- and have no hash, as `nat KUBE-SERVICES`. */
  kubeChains: list(text(60), 200),
  /** Number of chains of single Services and endpoints, which iptables mode makes. */
  serviceChains: number,
  /** Prefixes of chains of other programs in the table filter: `cali`, `FLANNEL`, `DOCKER`, `ufw`. */
  otherChains: list(text(60), 50),
  builtIn: list(BUILT_IN_CHAIN, 3),
  /** A rule that forwarded packets may reach accepts them by the state of their connection alone. */
  acceptsAnswers: since(flag, true),
})

/** A base chain of nf_tables on the path of packets that is not of iptables. */
export const NFT_CHAIN = object({
  family: text(10),
  table: text(100),
  chain: text(100),
  hook: oneOf('input', 'forward', 'output'),
  /** What it does with a packet about which none of its conditions decides. */
  policy: oneOf('accept', 'drop', 'reject'),
})

/** A rule that nft made in a table of iptables. */
export const NFT_RULE = object({
  family: oneOf('ip', 'ip6'),
  table: oneOf('raw', 'mangle', 'nat', 'filter', 'security'),
  chain: text(100),
  handle: number,
  /** In the words of nft; '' when that program is not installed. */
  rule: text(300),
})

/** A rule that may take packets of Services before ours do: a hostPort, or a translation of another program. */
export const RIVAL = object({
  /** The program that shows it. */
  program: oneOf('iptables-nft', 'iptables-legacy', 'ip6tables-nft', 'ip6tables-legacy', 'nft'),
  /** `PREROUTING` of nat; for nft `inet cni_hostport prerouting`. */
  chain: text(200),
  /** When the kernel calls that chain. */
  priority: since(number, USUAL_NAT_PRIORITY),
  /** '' for a chain of nft. */
  rule: text(300),
  /** The rules that take packets, the first ones. */
  takes: list(text(300), 5),
  /** `443/tcp`, `any port` */
  ports: list(text(60), 20),
  /** It is in the back end of the node, where a proxy that runs moves its jump in front of it. */
  isInUse: flag,
})

/** The predicted path of the first packet of a connection to a Service of this node. */
export const PATH = object({
  from: oneOf('pod', 'outside', 'node'),
  source: text(60),
  /** `10.96.0.1:80/tcp` */
  destination: text(100),
  /** `unsure`: it depends on a rule that cannot be judged. `no-answer`: the answer of the endpoint is dropped. */
  result: oneOf('passes', 'dropped', 'refused', 'no-answer', 'unsure'),
  /**
   * What decided where it does not pass: a hook and a chain of a table, and the rule, '' for the
   * policy of the chain.
   */
  hook: text(20),
  table: text(60),
  chain: text(60),
  rule: text(300),
})

export type RulesFact = Read<typeof RULES>
export type NftChainFact = Read<typeof NFT_CHAIN>
export type NftRuleFact = Read<typeof NFT_RULE>
export type RivalFact = Read<typeof RIVAL>
export type PathFact = Read<typeof PATH>
