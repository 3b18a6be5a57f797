/**
 * The half of the modes that looks: what the kernel has of either mode, for whoever asks, a command
 * or the daemon. A look opens each connection and chooses the back end of iptables once, when it
 * first needs them. It changes nothing, and needs neither a running daemon nor the API server.
 */
import { openNetfilter, openRtnetlink } from '../../../native/open.ts'
import { ConntrackConnection } from '../../conntrack/connection.ts'
import type { IpsetConnection } from '../../ipset/connection.ts'
import type { SavedTables } from '../../iptables/save-text.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { type LocalRoute, liveRoutes } from '../../ipvs/route-diff.ts'
import { listOwnRoutes } from '../../ipvs/routes.ts'
import type { Link } from '../../netlink/link-codec.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { ipFamilies } from '../../node/host.ts'
import type { IptablesChoice } from '../../node/iptables-choice.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import { CodedError, unlessMissing } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { chooseBackEnd, findOtherBackEnd } from '../iptables-back-end.ts'
import type { FirewallRemains } from '../ipvs/firewall.ts'
import { openIpset } from '../open-ipset.ts'
import { allRemains } from '../ipvs/firewalls.ts'
import { openIpvs } from '../ipvs/kernel.ts'
import { CLEANUP_LAYOUT } from '../leftovers/layouts.ts'
import { listPrivateTables } from '../leftovers/nft-leftovers.ts'
import type { NftTable } from '../../nftables/tables.ts'
import { modesIn, type ProxyMode } from '../modes-in-kernel.ts'
import { readRulesOf } from '../nft-access.ts'

/** The rules of the back end that the node uses. */
export interface RulesSeen {
  /** undefined: there is none that can be used. */
  readonly choice: IptablesChoice | undefined
  /** A family is absent when its rules cannot be read. */
  readonly saved: { readonly [family in IpFamily]?: SavedTables }
  /** Why rules are absent; undefined when they were read. */
  readonly unread: CodedError | undefined
}

/** What makes the node answer for virtual IPs, as far as no program is needed to see it. */
export interface VirtualIpsSeen {
  /** kube-ipvs0 */
  readonly device: Link | undefined
  /** Our local routes, by address. */
  readonly routes: ReadonlyMap<string, LocalRoute>
  /** Of the nftables firewall. */
  readonly privateTables: readonly NftTable[]
}

interface Closeable {
  close(): void
}

/** Nothing is opened yet. `mayLoadModules`: as `chooseBackEnd` has it; default false. Close the result. */
export function openLook(options: { readonly mayLoadModules?: boolean } = {}): Look {
  return new Look(options.mayLoadModules ?? false)
}

export class Look {
  /** Families of the kernel, those too that are not served. */
  readonly families = ipFamilies()
  readonly #mayLoadModules: boolean
  readonly #opened: Closeable[] = []
  #isClosed = false
  #rtnetlink: RtnetlinkConnection | undefined
  #ipvs: Promise<IpvsConnection> | undefined
  #ipset: Promise<IpsetConnection | undefined> | undefined
  #firewall: Promise<FirewallRemains | undefined> | undefined
  #conntrack: Promise<ConntrackConnection | undefined> | undefined
  #iptables: Promise<HostIptables> | undefined

  constructor(mayLoadModules: boolean) {
    this.#mayLoadModules = mayLoadModules
  }

  get rtnetlink(): RtnetlinkConnection {
    this.#rtnetlink ??= this.#keep(openRtnetlink())
    return this.#rtnetlink
  }

  /** undefined: the kernel has no IPVS. */
  ipvs(signal: AbortSignal): Promise<IpvsConnection | undefined> {
    return unlessMissing('ipvs-missing', () => this.needIpvs(signal))
  }

  /** Rejects with `ipvs-missing`, which says what to load. */
  needIpvs(signal: AbortSignal): Promise<IpvsConnection> {
    this.#ipvs ??= openIpvs(signal).then((ipvs) => this.#keep(ipvs))
    return this.#ipvs
  }

  /** undefined: the kernel has no ipset. */
  ipset(signal: AbortSignal): Promise<IpsetConnection | undefined> {
    this.#ipset ??= unlessMissing('ipset-missing', async () => this.#keep(await openIpset(signal)))
    return this.#ipset
  }

  /** What firewalls of ipvs mode left; undefined: the kernel can have none. */
  firewall(signal: AbortSignal): Promise<FirewallRemains | undefined> {
    this.#firewall ??= allRemains(this.families, signal).then((remains) => remains && this.#keep(remains))
    return this.#firewall
  }

  /** undefined: the kernel does not list its flows. */
  conntrack(signal: AbortSignal): Promise<ConntrackConnection | undefined> {
    this.#conntrack ??= unlessMissing('conntrack-missing', async () =>
      this.#keep(await ConntrackConnection.open(openNetfilter(), { signal })),
    )
    return this.#conntrack
  }

  /** The programs of the back end that the node uses. Rejects as `chooseBackEnd` does. */
  iptables(signal: AbortSignal): Promise<HostIptables> {
    const mayLoadModules = this.#mayLoadModules
    this.#iptables ??= chooseBackEnd(this.families, signal, { mayLoadModules }).then(
      (choice) => new HostIptables(choice),
    )
    return this.#iptables
  }

  /**
   * The programs of the back end that the node does not use; undefined: it has no rules, or cannot
   * be reached. Rejects as `iptables` does.
   */
  async otherIptables(signal: AbortSignal): Promise<HostIptables | undefined> {
    const other = await findOtherBackEnd(this.families, (await this.iptables(signal)).choice, signal)
    return other && new HostIptables(other)
  }

  /** The rules of both families. Rejects only for what nobody foresees. */
  async rules(signal: AbortSignal): Promise<RulesSeen> {
    const saved: { [family in IpFamily]?: SavedTables } = {}
    try {
      const iptables = await this.iptables(signal)
      const { choice } = iptables
      for (const family of this.families)
        if (choice.unusable[family] === undefined)
          saved[family] = (await readRulesOf(iptables, family, CLEANUP_LAYOUT, signal)).saved
      return { choice, saved, unread: undefined }
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      return { choice: undefined, saved, unread: error }
    }
  }

  /** Starts no program; the kernel may load nf_tables. */
  async virtualIps(signal: AbortSignal): Promise<VirtualIpsSeen> {
    const { rtnetlink, families } = this
    const device = await rtnetlink.getLink(SERVICE_DEVICE, { signal })
    const routes = liveRoutes(await listOwnRoutes(rtnetlink, families, { signal }))
    return { device, routes, privateTables: await listPrivateTables(signal) }
  }

  /** Whether ipvs mode has kube-ipvs0, local routes or private tables. Starts no program; the kernel may load nf_tables. */
  async hasVirtualIps(signal: AbortSignal): Promise<boolean> {
    const { device, routes, privateTables } = await this.virtualIps(signal)
    return device !== undefined || routes.size > 0 || privateTables.length > 0
  }

  /**
   * The modes that the kernel has something of. Rejects when the rules cannot be read and nothing
   * else shows a mode.
   */
  async modes(signal: AbortSignal): Promise<readonly ProxyMode[]> {
    const virtualIps = await this.virtualIps(signal)
    const rules = await this.rules(signal)
    const modes = modesIn({ ...virtualIps, ...rules })
    if (rules.unread !== undefined && !modes.includes('ipvs')) throw rules.unread
    return modes
  }

  close(): void {
    this.#isClosed = true
    for (const connection of this.#opened) connection.close()
  }

  #keep<T extends Closeable>(connection: T): T {
    if (this.#isClosed) connection.close()
    else this.#opened.push(connection)
    return connection
  }
}

/** Looks once. */
export async function withLook<T>(work: (look: Look) => Promise<T>): Promise<T> {
  const look = openLook()
  try {
    return await work(look)
  } finally {
    look.close()
  }
}
