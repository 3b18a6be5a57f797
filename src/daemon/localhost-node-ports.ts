/**
 * Node ports at 127.0.0.1 and ::1, which IPVS cannot have: relays joined to frontends, passes, the
 * configuration and the node's addresses. While they are switched off nothing is kept for them.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { localhostNodePortFailed } from '../events/event-objects.ts'
import type { Events } from '../events/event-recorder.ts'
import { openFilesLimit } from '../node/host.ts'
import type { RelayCounts } from '../relay/relay-counts.ts'
import { Relays, type RelaysListener, type RelayState } from '../relay/relays.ts'
import { WantedRelays } from '../relay/wanted-relays.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { InterfaceAddress } from '../service/node-addresses.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { type Part, TABLES } from '../sync/part.ts'
import { parseEndpoint } from '../values/address.ts'
import type { Clock } from '../values/clock.ts'
import type { Problem } from '../values/errors.ts'
import { newBudget } from '../values/event-loop.ts'
import type { Log } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'
import { LOOPBACK_ADDRESS } from '../values/well-known.ts'

export interface LocalhostNodePortsOptions {
  readonly families: readonly IpFamily[]
  readonly nodeName: string
  /** Whether the configuration in force switches them on. */
  readonly isOn: () => boolean
  /** Files that the process may have open. */
  readonly openFiles: number
  /** Ports at which the daemon itself listens. */
  readonly ownPorts: readonly number[]
  /** Every frontend there is; it follows changes while it is read. */
  readonly frontends: () => Iterable<readonly [FrontendKey, { readonly value: Frontend }]>
  readonly problems: ProblemLog
  /** Receives an Event when a port cannot be opened; absent: only the log has it. */
  readonly events?: Events | undefined
  readonly log: Log
  readonly now: Clock
}

/**
 * Those of a proxy with this configuration. They belong to ipvs mode, also while that has fallen
 * back: the rules of iptables mode leave loopback addresses alone then.
 */
export function openLocalhostNodePorts({
  configuration,
  desired,
  ...options
}: Omit<LocalhostNodePortsOptions, 'isOn' | 'ownPorts' | 'openFiles' | 'frontends'> & {
  /** The configuration in force. */
  readonly configuration: () => KubeProxyConfiguration
  readonly desired: Pick<DesiredFrontends, 'frontends'>
}): LocalhostNodePorts {
  const { healthzBindAddress, metricsBindAddress } = configuration()
  const addresses = [healthzBindAddress, metricsBindAddress].filter((address) => address !== '')
  return new LocalhostNodePorts({
    ...options,
    isOn: () => configuration().mode === 'ipvs' && configuration().kubeIPVS.localhostNodePorts,
    ownPorts: addresses.map((address) => parseEndpoint(address).port),
    openFiles: openFilesLimit(),
    frontends: () => desired.frontends(),
  })
}

/** Subject of the problem that some ports are left out. */
const LEFT_OUT = 'limit'

export class LocalhostNodePorts {
  readonly #options: LocalhostNodePortsOptions
  readonly #listener: RelaysListener
  #relays: Relays
  /** Absent while they are switched off. */
  #wanted: WantedRelays | undefined
  /** Absent while no address is known. */
  #families: readonly IpFamily[] | undefined
  /** The first pass over everything has ended, so this proxy knows which ports it wants. */
  #isReady = false

  constructor(options: LocalhostNodePortsOptions) {
    const { families, isOn, problems, events } = options
    this.#options = options
    this.#wanted = isOn() ? new WantedRelays(families) : undefined
    const report = (subject: string, problem: Problem | undefined): void =>
      problems.report('localhost node port', subject, problem === undefined ? [] : [problem])
    this.#listener = {
      onProblem: (socket, problem) => {
        report(socket, problem)
        const [, namespace, name] = /^service ([^/]+)\/(.+)$/.exec(problem?.subject ?? '') ?? []
        if (problem === undefined || namespace === undefined || name === undefined) return
        events?.record(localhostNodePortFailed({ namespace, name }, problem.message))
      },
      onLeftOut: (areLeftOut, limit) => report(LEFT_OUT, areLeftOut ? tooMany(limit) : undefined),
    }
    this.#relays = this.#newRelays()
  }

  /** Numbers for metrics; undefined while they are switched off. */
  get counts(): RelayCounts | undefined {
    return this.#wanted && this.#relays.counts
  }

  /** The ports of a Service, or those with this number; undefined while they are switched off. */
  states(of: Parameters<Relays['states']>[0]): Iterable<RelayState> | undefined {
    return this.#wanted && this.#relays.states(of)
  }

  /**
   * Gives the open ports and their connections to the proxy that takes the place of this one. They
   * stay as they are until its first pass has ended.
   */
  release(): Relays {
    const relays = this.#relays
    this.#relays = this.#newRelays()
    return relays
  }

  /** Takes those of the proxy before. */
  adopt(relays: Relays): void {
    this.#relays = relays
  }

  /** The frontend that owns `key` has changed; undefined when no Service claims it any more. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    this.#wanted?.frontend(key, frontend)
  }

  /** A pass has ended. The first one over the tables was over everything. */
  passed({ name }: Part): void {
    if (!this.#isReady && name !== TABLES.name) return
    const changes = this.#wanted?.changes() ?? []
    if (this.#isReady) this.#relays.update(changes)
    else {
      this.#isReady = true
      if (this.#families !== undefined) this.#relays.useFamilies(this.#families)
      this.#relays.takeOver(this.#listener, changes)
    }
  }

  /** @param addresses of all interfaces but kube-ipvs0; none: they could not be read yet */
  nodeChanged(addresses: readonly InterfaceAddress[]): void {
    if (addresses.length === 0) return
    this.#families = this.#options.families.filter((family) =>
      addresses.some(({ address }) => address === LOOPBACK_ADDRESS[family]),
    )
    if (this.#isReady) this.#relays.useFamilies(this.#families)
  }

  /** The configuration may have switched them on or off. */
  reconfigured(): void {
    const { isOn, families } = this.#options
    if (isOn() === (this.#wanted !== undefined)) return
    if (isOn()) {
      const wanted = new WantedRelays(families)
      this.#wanted = wanted
      void this.#read(wanted)
    } else {
      this.#wanted = undefined
      this.#relays.close()
    }
  }

  close(): void {
    this.#wanted = undefined
    this.#relays.close()
  }

  #newRelays(): Relays {
    const { nodeName, openFiles, ownPorts, log, now } = this.#options
    const isReserved = (port: number): boolean => ownPorts.includes(port)
    return new Relays({ nodeName, openFiles, isReserved, log, now, ...this.#listener })
  }

  /** Reads the frontends that were made before it was switched on; their number may be large. */
  async #read(wanted: WantedRelays): Promise<void> {
    const budget = newBudget()
    for (const [key, { value }] of this.#options.frontends()) {
      wanted.frontend(key, value)
      if (budget.spentBySteps()) await budget.turn()
      if (this.#wanted !== wanted) return
    }
    if (this.#isReady) this.#relays.update(wanted.changes())
  }
}

function tooMany(limit: number): Problem {
  return {
    code: 'localhost-node-ports',
    about: 'configuration',
    subject: 'configuration',
    field: 'kubeIPVS.localhostNodePorts',
    message: `some node ports do not answer at 127.0.0.1 and ::1, because the daemon opens ${limit} sockets for them at most`,
  }
}
