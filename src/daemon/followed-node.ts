/**
 * This node as the proxy sees it: the Node object, the host's addresses and the configuration, followed as they change. `view` is
 * incomplete until the first list of Nodes and the first `readAddresses`.
 */
import { gate } from '../config/gates.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { InterfaceAddresses } from '../node/interface-addresses.ts'
import { schedulerOf } from '../ipvs/scheduler.ts'
import type { Mode, NodeView } from '../modes/mode.ts'
import { AnnotationReader } from '../service/annotations.ts'
import type { FrontendSettings } from '../service/contribution.ts'
import type { NodeLabels } from '../service/node-context.ts'
import { NodeState } from '../service/node-state.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { VirtualIpGuard } from '../service/virtual-ips.ts'
import { Pacer } from '../sync/pacer.ts'
import type { Log } from '../values/log.ts'
import type { Clock } from '../values/clock.ts'
import type { ProxyListener } from './proxy-listener.ts'

export interface FollowedNodeOptions {
  /** The configuration in force. */
  readonly configuration: () => KubeProxyConfiguration
  readonly nodeName: string
  readonly rtnetlink: RtnetlinkConnection
  readonly log: Log
  /** Absent: Services may have any externalIPs and load-balancer addresses. */
  readonly virtualIps?: VirtualIpGuard
  readonly listener: Pick<ProxyListener, 'nodeChanged'>
  readonly now: Clock
  readonly signal: AbortSignal
}

/** How frontends are made in this mode under this configuration. */
export function frontendSettingsOf(
  configuration: KubeProxyConfiguration,
  { name, nodePorts }: Pick<Mode, 'name' | 'nodePorts'>,
): FrontendSettings {
  const { ipvs, kubeIPVS } = configuration
  const readsAnnotations = name === 'ipvs' && kubeIPVS.serviceAnnotations
  return {
    nodePorts,
    ...(readsAnnotations ? { annotations: new AnnotationReader(schedulerOf(ipvs.scheduler)) } : {}),
    maxFrontends: kubeIPVS.maxFrontendsPerService,
    usesExternalIps: gate(configuration, 'AllowServiceExternalIPs'),
  }
}

/** Minimum time between two reads of the routes, of which a node may have very many. */
const GATEWAYS_PERIOD_MS = 1000

export class FollowedNode {
  readonly #options: FollowedNodeOptions
  readonly #state: NodeState
  readonly #addresses: InterfaceAddresses
  readonly #gateways: Pacer

  constructor(options: FollowedNodeOptions) {
    const { configuration, nodeName, rtnetlink, log, now, signal, virtualIps } = options
    const { bindAddress } = configuration()
    this.#options = options
    this.#state = new NodeState({
      nodeName,
      bindAddress,
      nodePortAddresses: () => configuration().nodePortAddresses,
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

  /** The node as it is now. */
  get view(): NodeView {
    const addresses = this.#addresses.current
    this.#state.setAddresses(addresses)
    return { ...this.#state.context(), addresses, podCidrs: this.#state.node?.podCidrs ?? [] }
  }

  /** Takes in the Node object, if it is among the changes, and objects whose addresses no Service may claim. */
  apply(changes: readonly ObjectChange[]): void {
    const { virtualIps } = this.#options
    let isChanged = false
    for (const change of changes) {
      if (change.kind === 'nodes') {
        this.#state.setNode(change.value)
        isChanged = true
        continue
      }
      if (change.kind === 'services' && this.#state.setService(change.key, change.value)) isChanged = true
      if (virtualIps?.apply(change) === true) {
        this.#state.setVirtualIps(virtualIps.rule)
        isChanged = true
      }
    }
    if (isChanged) this.report()
  }

  /** Reads the host's addresses and gateways. Rejects when the addresses cannot be read. */
  async readAddresses(): Promise<void> {
    await this.#readGateways(this.#options.signal)
    await this.#addresses.read()
  }

  /** The kernel announced a change of addresses or links. The default gateway rarely changes without one, so it is read too. */
  addressesChanged(): void {
    this.#addresses.changed()
    this.#gateways.request()
  }

  /** @param labels of all Nodes; undefined: not known */
  setNodeLabels(labels: NodeLabels | undefined): void {
    this.#state.setNodeLabels(labels)
    this.report()
  }

  /** Reports the node as it is now. */
  report(): void {
    this.#options.listener.nodeChanged(this.view)
  }

  close(): void {
    this.#addresses.close()
    void this.#gateways.close()
  }

  /**
   * Reads the default gateways, if Services may not claim their addresses. Gateways that cannot be read stay as they were. Resolves
   * to whether they changed.
   */
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
