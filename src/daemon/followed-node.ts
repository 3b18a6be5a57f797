/**
 * This node as the proxy sees it: the Node object, the host's addresses and the configuration, followed as they change.
 * What could break: nobody may hear of a context before the first Node and the first addresses were taken in.
 */
import { gate } from '../config/gates.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { InterfaceAddresses } from '../node/interface-addresses.ts'
import type { NodeView } from '../modes/mode.ts'
import { NodeState } from '../service/node-state.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { VirtualIpGuard } from '../service/virtual-ips.ts'
import { Pacer } from '../sync/pacer.ts'
import type { Log } from '../values/log.ts'
import type { Clock } from '../values/clock.ts'
import type { ProxyEvents } from './proxy-events.ts'

export interface FollowedNodeOptions {
  /** As it is in force now. */
  readonly configuration: () => KubeProxyConfiguration
  readonly nodeName: string
  readonly rtnetlink: RtnetlinkConnection
  readonly log: Log
  /** Absent: Services may have any externalIPs and load-balancer addresses. */
  readonly virtualIps?: VirtualIpGuard
  readonly events: Pick<ProxyEvents, 'nodeChanged'>
  readonly now: Clock
  readonly signal: AbortSignal
}

/** Least time between two reads of the routes, which may be very many. */
const GATEWAYS_PERIOD_MS = 1000

export class FollowedNode {
  readonly #options: FollowedNodeOptions
  readonly #state: NodeState
  readonly #addresses: InterfaceAddresses
  readonly #gateways: Pacer

  constructor(options: FollowedNodeOptions) {
    const { configuration, nodeName, rtnetlink, log, now, signal, virtualIps } = options
    const { bindAddress, kubeIPVS } = configuration()
    this.#options = options
    this.#state = new NodeState({
      nodeName,
      bindAddress,
      nodePortAddresses: () => configuration().nodePortAddresses,
      maxFrontends: kubeIPVS.maxFrontendsPerService,
      usesExternalIps: gate(configuration(), 'AllowServiceExternalIPs'),
    })
    if (virtualIps !== undefined) this.#state.setVirtualIps(virtualIps.rule)
    this.#addresses = new InterfaceAddresses({
      rtnetlink,
      now,
      onChange: () => this.report(),
      onError: (error) => log.warn('Cannot read the addresses of this node', { error }),
      signal,
    })
    this.#gateways = new Pacer({
      minPeriodMs: () => GATEWAYS_PERIOD_MS,
      now,
      run: async (abort) => {
        if (await this.#readGateways(abort)) this.report()
        return undefined
      },
    })
  }

  get view(): NodeView {
    const addresses = this.#addresses.current
    this.#state.setAddresses(addresses)
    return { ...this.#state.context(), addresses, podCidrs: this.#state.node?.podCidrs ?? [] }
  }

  /** Takes the Node object in, if it is among these, and what no Service may take the addresses of. */
  apply(changes: readonly ObjectChange[]): void {
    const { virtualIps } = this.#options
    let seen = false
    for (const change of changes) {
      if (change.kind === 'nodes') {
        this.#state.setNode(change.value)
        seen = true
      } else if (virtualIps?.apply(change) === true) {
        this.#state.setVirtualIps(virtualIps.rule)
        seen = true
      }
    }
    if (seen) this.report()
  }

  /** Reads the host's addresses and gateways. Rejects when the addresses cannot be read. */
  async readAddresses(): Promise<void> {
    await this.#readGateways(this.#options.signal)
    await this.#addresses.read()
  }

  /** The kernel announced a change of addresses or links. A gateway rarely changes without one. */
  addressesChanged(): void {
    this.#addresses.changed()
    this.#gateways.request()
  }

  /** Reports the node as it is now. */
  report(): void {
    this.#options.events.nodeChanged(this.view)
  }

  close(): void {
    this.#addresses.close()
    void this.#gateways.close()
  }

  /** Reads the default gateways where they matter; those that cannot be read stay as they were. Whether they changed. */
  async #readGateways(signal: AbortSignal): Promise<boolean> {
    const { rtnetlink, log, virtualIps } = this.#options
    if (virtualIps?.rule.protected === undefined) return false
    try {
      const gateways = await rtnetlink.listDefaultGateways({ signal })
      if (!virtualIps.protect('the default gateways of this node', gateways)) return false
      this.#state.setVirtualIps(virtualIps.rule)
      return true
    } catch (error) {
      if (!signal.aborted) log.warn('Cannot read the default gateways of this node', { error })
      return false
    }
  }
}
