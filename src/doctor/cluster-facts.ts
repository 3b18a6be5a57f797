/** What doctor knows of the cluster of a node, from its API server. */
import { flag, list, nullable, number, object, oneOf, type Read, text } from '../values/shape.ts'
import { OLDER_BUNDLE, seen, since } from './seen.ts'

/** A DaemonSet of the cluster. */
const DAEMON_SET = object({
  namespace: text(63),
  name: text(253),
  images: list(text(300), 10),
  /** Pods that run, of all nodes. */
  desired: number,
  /** Whether its node selector matches the Node of this proxy; null: the labels of the Node are not known. */
  selectsHere: since(nullable(flag), null),
})

/** Whether the cluster has a Node of the proxy's name. */
const NODE_OBJECT = object({
  isThere: flag,
  /** Names of Nodes that may be this one, where it is not: they have an address or the name of this host. */
  similar: list(text(253), 5),
})

export const CLUSTER = object({
  /**
   * Seconds by which the clock of this node is ahead of the API server's, from its Date header:
   * precise to about a second.
   */
  clockAheadSeconds: nullable(number),
  daemonSets: seen(list(DAEMON_SET, 500)),
  /** Of the ConfigMap kube-system/kube-proxy; null when there is none. */
  kubeProxyMode: seen(nullable(text(60))),
  /** `kube-proxy-replacement` of the ConfigMap kube-system/cilium-config; null when there is none. */
  ciliumReplacement: seen(nullable(text(60))),
  /** `spec.bpfEnabled` of the FelixConfiguration default; null when there is none. */
  calicoBpf: seen(nullable(flag)),
  node: since(seen(NODE_OBJECT), OLDER_BUNDLE),
})

export type ClusterFact = Read<typeof CLUSTER>
export type DaemonSetFact = Read<typeof DAEMON_SET>

/** An API server that does not answer, or refuses every request. */
export const API_SERVER = object({
  /** `https://192.0.2.1:6443`; '' where no kubeconfig says it. */
  server: text(300),
  /** `ECONNREFUSED`, `api-status`; '' where the error has none. */
  code: text(60),
  reason: text(300),
  /**
   * Where its address leads: to endpoints of a Service, to this node because it is a virtual IP, to
   * this node, to another machine. `name`: it is none.
   */
  place: oneOf('virtual-server', 'virtual-ip', 'here', 'elsewhere', 'name', 'unknown'),
})

export type ApiServerFact = Read<typeof API_SERVER>
