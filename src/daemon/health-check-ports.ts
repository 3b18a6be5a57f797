/**
 * Health check ports of Services, joined to frontends, passes and node addresses. The answer of a
 * port follows the kernel, so it changes after the pass that applied the change; more endpoints than
 * before also wait for the rules that lead to them.
 */
import { type Part, TABLES } from '../sync/part.ts'
import { HealthChecks, type HealthChecksListener, type ListenAddresses } from '../serve/health-checks.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import {
  type HealthCheckChange,
  type HealthCheckClaims,
  type HealthCheckKey,
  WantedHealthChecks,
} from '../serve/wanted-health-checks.ts'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import { healthCheckAddressesOf, type InterfaceAddress } from '../service/node-addresses.ts'
import type { NodeIps } from '../service/node-context.ts'
import type { Clock } from '../values/clock.ts'
import type { Problem } from '../values/errors.ts'
import { type Log, ObjectName } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'
import { healthCheckFailed } from '../events/event-objects.ts'
import type { Events } from '../events/event-recorder.ts'

export interface HealthCheckPortsOptions {
  readonly families: readonly IpFamily[]
  readonly nodeName: string
  /** The field of the configuration in force. */
  readonly nodePortAddresses: () => readonly string[]
  readonly isProxyHealthy: () => boolean
  /** Whether rules of a family are still to be written. */
  readonly isPending: (family: IpFamily) => boolean
  readonly problems: ProblemLog
  readonly now?: Clock
  /** Receives an Event for each failed attempt to open a port; absent: only the log has it. */
  readonly events?: Events
  readonly log: Log
}

const monotonic = (): number => performance.now()

/**
 * A change waits for rules at most this long, in milliseconds, and the next pass after that applies
 * it: the kernel may refuse the rules of one Service for good.
 */
const LONGEST_HOLD_MS = 15_000
const LOST = { code: 'health-check-port', about: 'object', field: 'spec.healthCheckNodePort' } as const
/** Services that are reported for one port that they do not get. */
const MAX_LOSERS = 20

export class HealthCheckPorts {
  readonly #options: HealthCheckPortsOptions
  readonly #wanted: WantedHealthChecks
  readonly #listener: HealthChecksListener
  #checks: HealthChecks
  #addresses: ListenAddresses | undefined
  /** Changes that wait for rules, and since when their keys wait. */
  readonly #held = new Map<HealthCheckKey, { readonly change: HealthCheckChange; readonly sinceMs: number }>()
  /** The first pass over everything has ended, so this proxy knows which ports it wants. */
  #isReady = false

  constructor(options: HealthCheckPortsOptions) {
    const { families, nodeName, isProxyHealthy, problems, events, log } = options
    this.#options = options
    this.#wanted = new WantedHealthChecks(families)
    this.#listener = {
      isProxyHealthy,
      onProblem: (socket, problem) => problems.report('health check', socket, problem === undefined ? [] : [problem]),
      onFailedAttempt: (check, message) => {
        const service = new ObjectName(check.namespace, check.name)
        log.error('Failed to start healthcheck', { error: message, node: nodeName, service, port: check.port })
        events?.record(healthCheckFailed(check, message))
      },
    }
    this.#checks = new HealthChecks({ nodeName, log, ...this.#listener })
  }

  /**
   * Gives the open ports to the proxy that takes the place of this one. They answer as before until
   * its first pass has ended.
   */
  release(): HealthChecks {
    const { nodeName, log } = this.#options
    const checks = this.#checks
    this.#checks = new HealthChecks({ nodeName, log, ...this.#listener })
    return checks
  }

  /** Takes the ports of the proxy before. */
  adopt(checks: HealthChecks): void {
    this.#checks = checks
  }

  /** The frontend that owns `key` has changed; undefined when no Service claims it any more. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void {
    this.#wanted.frontend(key, frontend)
  }

  /**
   * A pass has ended: the kernel has the frontends that were reported before it. The first one over
   * the tables was over everything.
   */
  passed({ name }: Part): void {
    if (!this.#isReady && name !== TABLES.name) return
    const due = this.#dueChanges()
    if (this.#isReady) return this.#checks.update(due)
    this.#isReady = true
    this.#checks.takeOver(this.#listener, this.#addresses, due, this.#held.keys())
  }

  #dueChanges(): readonly HealthCheckChange[] {
    const nowMs = (this.#options.now ?? monotonic)()
    for (const change of this.#wanted.changes())
      this.#held.set(change.key, { change, sinceMs: this.#held.get(change.key)?.sinceMs ?? nowMs })
    for (const claims of this.#wanted.takeClaims()) this.#reportLosers(claims)
    const due: HealthCheckChange[] = []
    for (const [key, { change, sinceMs }] of this.#held) {
      const { check } = change
      const isMore = check !== undefined && check.localEndpoints > this.#checks.endpointsOf(key)
      if (isMore && this.#options.isPending(check.family) && nowMs - sinceMs < LONGEST_HOLD_MS) continue
      this.#held.delete(key)
      due.push(change)
    }
    return due
  }

  /** Services whose port another Service has. kube-proxy reports them as ports that it cannot open. */
  #reportLosers({ key, services: [winner = '', ...losers] }: HealthCheckClaims): void {
    const { events, nodeName, problems } = this.#options
    const lost: Problem[] = []
    for (const loser of losers.slice(0, MAX_LOSERS)) {
      const [family = '', port = ''] = key.split(' ')
      const [namespace = '', name = ''] = loser.split('/')
      const message = `node ${nodeName} failed to start healthcheck "${loser}" on port ${port}: service ${winner} has it for ${family}`
      lost.push({ ...LOST, subject: `service ${loser}`, message })
      events?.record(healthCheckFailed({ namespace, name }, message))
    }
    problems.report('health check', `port ${key}`, lost)
  }

  /** @param addresses of all interfaces but kube-ipvs0 */
  nodeChanged(addresses: Iterable<InterfaceAddress>, nodeIps: NodeIps): void {
    const known = Array.from(addresses)
    const configured = this.#options.nodePortAddresses()
    // A node has one address at least, so they could not be read yet, and the ports of the proxy
    // before stay where they are.
    if (known.length === 0 && configured.length > 0) return
    this.#addresses = healthCheckAddressesOf(configured, known, nodeIps)
    if (this.#isReady) this.#checks.listenOn(this.#addresses)
  }

  close(): void {
    this.#checks.close()
  }
}
