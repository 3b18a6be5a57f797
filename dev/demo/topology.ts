/**
 * The demo's network: this namespace is the node; others are its pods and a client outside the
 * cluster. Nothing masquerades, so the way back must lead over the node, which is the default
 * gateway of all of them.
 */
import { spawnSync } from 'node:child_process'
import { patience } from './patience.ts'

export interface Pod {
  readonly name: string
  readonly ipv4: string
  readonly ipv6: string
}

/** The port of all pods, as in the manifests in examples/. */
export const POD_PORT = 8080
export const PODS: readonly Pod[] = ['a', 'b', 'c', 'd'].map((letter, index) => ({
  name: `pod-${letter}`,
  ipv4: `10.244.0.${11 + index}`,
  ipv6: `fd00:10:244::${11 + index}`,
}))
export const NODE = { name: 'demo-node', ipv4: '172.18.0.2', ipv6: 'fd00:18::2' }
export const CLIENT = { name: 'client', ipv4: '172.18.0.3', ipv6: 'fd00:18::3' }

/** The gateway that a pod sees; each veth's end on the node has it. */
const GATEWAY = { ipv4: '169.254.1.1', ipv6: 'fe80::1' }

const podScript = ({ name, ipv4, ipv6 }: Pod): string => `
ip netns add ${name}
ip link add v-${name} type veth peer name eth0 netns ${name}
ip address add ${GATEWAY.ipv4}/32 dev v-${name}
ip link set v-${name} up
ip address add ${GATEWAY.ipv6}/64 dev v-${name} nodad
ip -n ${name} link set lo up
ip -n ${name} link set eth0 up
ip -n ${name} address add ${ipv4}/32 dev eth0
ip -n ${name} address add ${ipv6}/128 dev eth0 nodad
ip -n ${name} route add ${GATEWAY.ipv4} dev eth0
ip -n ${name} route add default via ${GATEWAY.ipv4} dev eth0
ip -n ${name} -6 route add default via ${GATEWAY.ipv6} dev eth0
ip route add ${ipv4} dev v-${name}
ip -6 route add ${ipv6} dev v-${name}`

const clientScript = `
ip netns add ${CLIENT.name}
ip link add eth0 type veth peer name eth0 netns ${CLIENT.name}
ip address add ${NODE.ipv4}/24 dev eth0
ip link set eth0 up
ip address add ${NODE.ipv6}/64 dev eth0 nodad
ip -n ${CLIENT.name} link set lo up
ip -n ${CLIENT.name} link set eth0 up
ip -n ${CLIENT.name} address add ${CLIENT.ipv4}/24 dev eth0
ip -n ${CLIENT.name} address add ${CLIENT.ipv6}/64 dev eth0 nodad
ip -n ${CLIENT.name} route add default via ${NODE.ipv4}
ip -n ${CLIENT.name} -6 route add default via ${NODE.ipv6}`

const forwardingScript = `
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding`

/**
 * Builds the network in the demo's own namespace; throws with the output of a program that failed.
 * @param backEnd of iptables, `legacy`, in which kubelet has left its chain; undefined: in none
 */
export function buildTopology(backEnd: string | undefined): void {
  const hint = backEnd === undefined ? '' : `\niptables-${backEnd} -t mangle -N KUBE-IPTABLES-HINT`
  const script = `set -e${forwardingScript}${clientScript}${PODS.map(podScript).join('')}${hint}`
  const { status, stderr } = spawnSync('sh', ['-c', script], { encoding: 'utf8', timeout: patience(60_000) })
  if (status !== 0) throw new Error(`cannot build the demo's network: ${stderr}`)
}
