/** A node with a host behind it that has the endpoints of several Services, and one daemon. */
import assert from 'node:assert/strict'
import { openNetlinkConnection } from '../../native/open.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import { Workbench } from './daemon.ts'
import { eventually } from './deadline.ts'
import { boundAddresses, freshNode } from './kernel-state.ts'
import { inside, leave } from './net-namespace.ts'
import { OutlierService, type OutlierServiceOptions } from './outlier-service.ts'
import { parseMetrics, valueOf } from './metrics-text.ts'
import { run, sh } from './programs.ts'

const CLIENTS = Array.from({ length: 48 }, (_, index) => `10.2.0.${100 + index}`)

export class OutlierNode {
  readonly bench: Workbench
  readonly host = `ep-${process.pid}`
  readonly #ipvs: IpvsConnection
  readonly #services: OutlierService[] = []

  static async start(more: Readonly<Record<string, unknown>> = {}): Promise<OutlierNode> {
    freshNode()
    return new OutlierNode(await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC)), more)
  }

  private constructor(ipvs: IpvsConnection, more: Readonly<Record<string, unknown>>) {
    this.#ipvs = ipvs
    sh(`ip netns add ${this.host}`)
    sh(`ip link add vep type veth peer name eth0 netns ${this.host}`)
    run(
      ['ip', '-batch', '-'],
      ['link set vep up', 'address add 10.2.0.1/24 dev vep', 'route add 10.2.0.0/16 via 10.2.0.2']
        .concat(CLIENTS.map((address) => `address add ${address}/32 dev vep`))
        .join('\n'),
    )
    this.inHost('ip link set lo up', 'ip link set eth0 up', 'ip address add 10.2.0.2/24 dev eth0')
    this.bench = new Workbench({}, more)
  }

  /** A further Service, which the daemon finds in its manifests. */
  add(name: string, more: Partial<Pick<OutlierServiceOptions, 'annotations' | 'protocol'>> = {}): OutlierService {
    const index = this.#services.length
    const added = new OutlierService({ ...more, name, index, host: this.host, clients: CLIENTS, ipvs: this.#ipvs })
    this.#services.push(added)
    this.bench.write(`${name}.yaml`, ...added.manifests)
    return added
  }

  /** Runs commands on the host of the endpoints. */
  inHost(...commands: readonly string[]): void {
    inside(this.host, () => sh(commands.join(' && ')))
  }

  /** Packets between the node and the host are late, and some are lost, in each direction. */
  impair(delayMs: number, lossPercent: number): void {
    const netem = `netem delay ${delayMs}ms loss ${lossPercent}% limit 20000`
    sh(`tc qdisc replace dev vep root ${netem}`)
    this.inHost(`tc qdisc replace dev eth0 root ${netem}`)
  }

  /**
   * Waits until clients can connect to all Services: the address of a virtual server is bound after it.
   * @param others Services of `bench` beside those of `add`
   */
  async isServed(others = 0): Promise<void> {
    await eventually(() => assert.equal(boundAddresses().length, this.#services.length + others), 120_000)
    for (const one of this.#services) await one.haveWeights([1, 1, 1, 1])
    const bound = boundAddresses()
    for (const { address } of this.#services) assert.ok(bound.includes(`${address}/32`), address)
  }

  /** How often the daemon has taken an endpoint for dead; its log leaves out lines that repeat often. */
  async suspicions(): Promise<number> {
    const page = await (await fetch('http://127.0.0.1:10249/metrics')).text()
    const count = valueOf(parseMetrics(page), 'kubeipvs_outlier_decisions_total', { decision: 'suspected' })
    assert.ok(count !== undefined, page)
    return count
  }

  async stop(): Promise<void> {
    for (const one of this.#services) await one.stop()
    await this.bench.close()
    this.#ipvs.close()
    leave(this.host)
    sh(`ip netns delete ${this.host}`)
  }
}
