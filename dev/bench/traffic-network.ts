/**
 * The network of the traffic through one ClusterIP:
 *
 *     client (namespace) ── node (this process's namespace) ── pods (namespace)
 *
 * The client is like a pod on the node. Every endpoint of the Service is an address of `pods`,
 * where the server of `traffic.c` answers.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'

/** The port of every endpoint. */
const POD_PORT = 8080
const SERVER_PROCESSES = 8

export class TrafficNetwork {
  /** Names in /run/netns, which other measurements in namespaces of one kernel share. */
  readonly client = `client-${process.pid}`
  readonly #pods = `pods-${process.pid}`
  readonly #server: ChildProcess

  /**
   * Resolves when the server answers. @param endpoints `10.128.0.1:8080`, as in a table @param
   * program path of the compiled `traffic.c`
   */
  static async start(endpoints: Iterable<string>, program: string): Promise<TrafficNetwork> {
    const network = new TrafficNetwork(
      Array.from(endpoints, (endpoint) => endpoint.replace(/:.*/, '')),
      program,
    )
    if (network.#server.stdout !== null) await once(network.#server.stdout, 'data')
    return network
  }

  private constructor(endpoints: readonly string[], program: string) {
    buildNetwork(this.client, this.#pods, endpoints)
    this.#server = spawn('ip', ['netns', 'exec', this.#pods, program, 'serve', `${POD_PORT}`, `${SERVER_PROCESSES}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
  }

  remove(): void {
    this.#server.kill('SIGKILL')
    for (const name of [this.client, this.#pods]) execFileSync('ip', ['netns', 'delete', name])
  }
}

/** Each connection has a port of its own: the kernel keeps it for a minute after the end. */
function buildNetwork(client: string, pods: string, endpoints: readonly string[]): void {
  const link = (name: string, device: string, node: string, address: string): string => `
ip netns add ${name}
ip link add ${device} type veth peer name eth0 netns ${name}
ip address add ${node}/30 dev ${device}
ip link set ${device} up
ip -n ${name} link set lo up
ip -n ${name} link set eth0 up
ip -n ${name} address add ${address}/30 dev eth0
ip -n ${name} route add default via ${node}`
  const script = `echo 1 >/proc/sys/net/ipv4/ip_forward
${link(client, 'v-client', '192.168.100.1', '192.168.100.2')}
${link(pods, 'v-pods', '192.168.101.1', '192.168.101.2')}
ip netns exec ${client} sh -c 'echo 1024 65000 >/proc/sys/net/ipv4/ip_local_port_range'
${endpoints.map((address) => `ip -n ${pods} address add ${address}/32 dev lo\nip route add ${address} via 192.168.101.2`).join('\n')}`
  execFileSync('sh', ['-ec', script])
}
