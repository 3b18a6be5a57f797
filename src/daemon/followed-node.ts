/**
 * This node as the proxy sees it: the Node object, the host's addresses and the configuration,
 * followed as they change. `view` is incomplete until the first list of Nodes and the first
 * `readAddresses`.
 */
import { gate } from '../config/gates.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import { InterfaceAddresses } from '../node/interface-addresses.ts'
import { schedulerOf } from '../ipvs/scheduler.ts'
import type { Mode, NodeView } from '../modes/mode.ts'
import { AnnotationReader } from '../service/annotations.ts'
import type { FrontendSettings } from '../service/contribution.ts'
import { CHAIN_COSTS, VIRTUAL_SERVER_COSTS } from '../service/costs.ts'
import type { NodeLabels } from '../service/node-context.ts'
import { NodeState } from '../service/node-state.ts'
import type { ObjectChange, Service } from '../service/objects.ts'
import type { VirtualIpGuard } from '../service/virtual-ip-guard.ts'
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

/** How frontends are made in this mode under this configuration, of which the room of the node may change. */
export function frontendSettingsOf(
  configuration: () => KubeProxyConfiguration,
  { name, nodePorts }: Pick<Mode, 'name' | 'nodePorts'>,
): FrontendSettings {
  const { ipvs, kubeIPVS } = configuration()
  const readsAnnotations = name === 'ipvs' && kubeIPVS.serviceAnnotations
  return {
    nodePorts,
    ...(readsAnnotations ? { annotations: new AnnotationReader(schedulerOf(ipvs.scheduler)) } : {}),
    maxFrontends: kubeIPVS.maxFrontendsPerService,
    costs: name === 'ipvs' ? VIRTUAL_SERVER_COSTS : CHAIN_COSTS,
    maxCost: () => configuration().kubeIPVS.maxRealServers,
    usesExternalIps: gate(configuration(), 'AllowServiceExternalIPs'),
    bindsAddresses: name === 'ipvs',
  }
}

/** Minimum time between two reads of the routes. */
const HOSTS_PERIOD_MS = 1000
/** A pause is at least this many times as long as the read before it: a node may have very many routes. */
const REST_FACTOR = 20

export class FollowedNode {
  readonly #options: FollowedNodeOptions
  readonly #state: NodeState
  readonly #addresses: InterfaceAddresses
  readonly #hosts: Pacer
  #hostsReadMs = 0
  readonly #unfollow: () => void
  /**
   * The rule of virtual IPs is not reported by itself: something else is going to be reported, or
   * nothing is known yet.
   */
  #isGathering = true

  constructor(options: FollowedNodeOptions) {
    const { configuration, nodeName, rtnetlink, log, now, signal } = options
    const { bindAddress } = configuration()
    this.#options = options
    this.#state = new NodeState({
      nodeName,
      bindAddress,
      nodePortAddresses: () => configuration().nodePortAddresses,
    })
    this.#unfollow = this.#followVirtualIps()
    this.#addresses = new InterfaceAddresses({
      rtnetlink,
      now,
      onChange: () => this.report(),
      onError: (error) => log.warn('Cannot read the addresses of this node', { error }),
      signal,
    })
    this.#hosts = new Pacer({
      minPeriodMs: () => Math.max(HOSTS_PERIOD_MS, this.#hostsReadMs * REST_FACTOR),
      now,
      run: async (abort) => {
        await this.#readHosts(abort)
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
    const rule = virtualIps?.rule
    const wasGathering = this.#isGathering
    let isChanged = false
    this.#isGathering = true
    for (const change of changes) {
      if (change.kind === 'nodes') {
        this.#state.setNode(change.value)
        this.#protectPods()
        isChanged = true
        continue
      }
      if (change.kind === 'services' && this.#state.setService(change.key, change.value)) isChanged = true
      virtualIps?.apply(change)
      // A Service may have got the address of a host that has just joined the network.
      if (change.kind === 'services' && hasOtherAddresses(change.value)) this.#hosts.request()
    }
    this.#isGathering = wasGathering
    if (isChanged || virtualIps?.rule !== rule) this.report()
  }

  /** Reads the host's addresses, gateways and peers. Rejects when the addresses cannot be read. */
  async readAddresses(): Promise<void> {
    this.#protectPods()
    await this.#readHosts(this.#options.signal)
    await this.#addresses.read()
    this.#isGathering = false
  }

  /** The same for a proxy that starts, which does without them until they can be read. */
  async tryAddresses(): Promise<void> {
    try {
      await this.readAddresses()
    } catch (error) {
      this.#options.signal.throwIfAborted()
      this.#options.log.warn('Cannot read the addresses of this node; node ports wait', { error })
      this.#isGathering = false
      this.#addresses.changed()
    }
  }

  /** Whether the addresses of the host are known; until then node ports have no frontends. */
  get hasAddresses(): boolean {
    return this.#addresses.isKnown
  }

  /** The kernel announced a change of addresses or links. Gateways rarely change without one, so they are read too. */
  addressesChanged(): void {
    this.#addresses.changed()
    this.#hosts.request()
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
    this.#unfollow()
    this.#addresses.close()
    void this.#hosts.close()
  }

  #followVirtualIps(): () => void {
    const { virtualIps } = this.#options
    if (virtualIps === undefined) return () => undefined
    this.#state.setVirtualIps(virtualIps.rule)
    return virtualIps.follow(() => {
      this.#state.setVirtualIps(virtualIps.rule)
      if (!this.#isGathering) this.report()
    })
  }

  /** No externalIP may be in the ranges of Pods, as far as they are known. */
  #protectPods(): void {
    const { virtualIps, configuration } = this.#options
    virtualIps?.protectRanges('Pods', [
      ...configuration()
        .clusterCIDR.split(',')
        .map((text) => text.trim()),
      ...(this.#state.node?.podCidrs ?? []),
    ])
  }

  /** Reads which other hosts this node sends packets through. What cannot be read stays as it was. */
  async #readHosts(signal: AbortSignal): Promise<void> {
    const { rtnetlink, log, virtualIps, now } = this.#options
    if (virtualIps === undefined) return
    const startedMs = now()
    try {
      const { defaults, all } = await rtnetlink.listGateways({ signal })
      // A proxy that has stopped may have read before the one after it, which shares the rule.
      signal.throwIfAborted()
      virtualIps.protect('the default gateways of this node', Array.from(defaults))
      virtualIps.addHosts(all)
      virtualIps.addHosts(await rtnetlink.listTunnelPeers({ signal }))
    } catch (error) {
      if (!signal.aborted) log.warn('Cannot read the gateways and peers of this node', { error })
    } finally {
      this.#hostsReadMs = now() - startedMs
    }
  }
}

/** Whether a Service has addresses that the cluster does not allot. */
function hasOtherAddresses(service: Service | undefined): boolean {
  return service !== undefined && service.loadBalancerVips.length + service.externalIps.length > 0
}
