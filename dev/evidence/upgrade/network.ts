/**
 * Nodes of one cluster as network namespaces of one kernel. Each has a namespace with a client and
 * one with its Pods, where the server of `traffic.c` answers; the API server's address is that of
 * this process's own namespace.
 *
 *     client-0 ── node-0 ── pods-0
 *                   │ 172.18.0.2
 *                 bridge 172.18.0.1
 *                   │ 172.18.0.3
 *     client-1 ── node-1 ── pods-1
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'

export const HUB_ADDRESS = '172.18.0.1'
export const POD_PORT = 8080
export const nodeAddress = (node: number): string => `172.18.0.${2 + node}`
/** Two on each node. */
export const podAddresses = (node: number): readonly string[] => [10, 11].map((last) => `10.244.${node}.${last}`)

const socketFolder = (node: number): string => `/run/kube-ipvs-of-node-${node}`

/**
 * Each node has a mount namespace too, with a folder of its own for the socket of kube-ipvs. The
 * process that is started becomes the program.
 */
export function onNode(node: number, command: readonly string[]): readonly string[] {
  const script = 'mount --bind "$0" /run/kube-ipvs; exec "$@"'
  return ['ip', 'netns', 'exec', `node-${node}`, 'unshare', '-m', 'sh', '-ec', script, socketFolder(node), ...command]
}

export class Network {
  readonly #nodes: number
  readonly #servers: ChildProcess[] = []

  /** Resolves when every server answers. @param program path of the compiled `traffic.c` */
  static async start(nodes: number, program: string): Promise<Network> {
    const network = new Network(nodes)
    execFileSync('sh', ['-ec', scriptFor(nodes)], { stdio: ['ignore', 'ignore', 'inherit'] })
    for (let node = 0; node < nodes; node++) {
      const argv = ['netns', 'exec', `pods-${node}`, program, 'serve', `${POD_PORT}`, '2']
      const server = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
      network.#servers.push(server)
      await once(server.stdout, 'data')
    }
    return network
  }

  private constructor(nodes: number) {
    this.#nodes = nodes
  }

  remove(): void {
    for (const server of this.#servers) server.kill('SIGKILL')
    const all = Array.from({ length: this.#nodes }, (_, node) => [`node-${node}`, `client-${node}`, `pods-${node}`])
    for (const name of all.flat()) execFileSync('ip', ['netns', 'delete', name])
    execFileSync('ip', ['link', 'delete', 'bridge'])
  }
}

function scriptFor(nodes: number): string {
  const all = Array.from({ length: nodes }, (_, node) => node)
  return `
ip link add bridge type bridge
ip address add ${HUB_ADDRESS}/24 dev bridge
ip link set bridge up
ip link set lo up
${all.map((node) => nodeScript(node, nodes)).join('\n')}`
}

function nodeScript(node: number, nodes: number): string {
  const [name, client, pods] = [`node-${node}`, `client-${node}`, `pods-${node}`]
  const leaf = (leafName: string, device: string, near: number): string => `
ip netns add ${leafName}
ip link add ${device} netns ${name} type veth peer name eth0 netns ${leafName}
ip -n ${name} address add 10.244.${node}.${near}/30 dev ${device}
ip -n ${name} link set ${device} up
ip -n ${leafName} link set lo up
ip -n ${leafName} link set eth0 up
ip -n ${leafName} address add 10.244.${node}.${near + 1}/30 dev eth0
ip -n ${leafName} route add default via 10.244.${node}.${near}`
  return `
mkdir -p /run/kube-ipvs ${socketFolder(node)}
ip netns add ${name}
ip link add to-${name} type veth peer name eth0 netns ${name}
ip link set to-${name} master bridge up
ip -n ${name} link set lo up
ip -n ${name} link set eth0 up
ip -n ${name} address add ${nodeAddress(node)}/24 dev eth0
ip -n ${name} route add default via ${HUB_ADDRESS}
ip netns exec ${name} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
${leaf(client, 'v-client', 1)}
${leaf(pods, 'v-pods', 5)}
# Others are those of the clients that are counted.
ip netns exec ${client} sh -c 'echo 65001 65535 >/proc/sys/net/ipv4/ip_local_port_range'
${podAddresses(node)
  .map((pod) => `ip -n ${pods} address add ${pod}/32 dev lo\nip -n ${name} route add ${pod} via 10.244.${node}.6`)
  .join('\n')}
${Array.from({ length: nodes }, (_, other) => other)
  .filter((other) => other !== node)
  .map((other) => `ip -n ${name} route add 10.244.${other}.0/24 via ${nodeAddress(other)}`)
  .join('\n')}`
}
