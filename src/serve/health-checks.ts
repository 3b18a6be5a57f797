/**
 * The health check ports of Services with external policy Local, where load balancers find out
 * which nodes have endpoints. A port that another program occupies is retried and does not affect
 * the others. A port is closed as soon as no Service wants it, so that load balancers stop sending
 * traffic.
 * @impure
 */
import { getSystemErrorMessage } from 'node:util'
import { formatEndpoint } from '../values/address.ts'
import { backoffMs } from '../values/backoff.ts'
import type { Problem } from '../values/errors.ts'
import { type Log, ObjectName } from '../values/log.ts'
import type { IpFamily } from '../values/protocol.ts'
import { formatHealthCheck } from './health-answers.ts'
import { HttpListener } from './http-listener.ts'
import type { HealthCheck, HealthCheckChange, HealthCheckKey } from './wanted-health-checks.ts'

/** What is asked and told; the next proxy of the process takes the place of the one before. */
export interface HealthChecksListener {
  /** Whether the proxy itself is healthy, as /livez reports; called for each request. If not, every check fails. */
  readonly isProxyHealthy: () => boolean
  /**
   * Called once when a socket (`0.0.0.0:32001`) cannot be opened, and with undefined once it is
   * open or not wanted any more. Attempts continue in between.
   */
  readonly onProblem: (socket: string, problem: Problem | undefined) => void
  /** Called for each failed attempt, with the message of the problem. */
  readonly onFailedAttempt?: (check: HealthCheck, message: string) => void
}

export interface HealthChecksOptions extends HealthChecksListener {
  readonly nodeName: string
  readonly log: Log
}

/** Addresses to listen on by IP family: see healthCheckAddressesOf. */
export type ListenAddresses = Readonly<Record<IpFamily, readonly string[]>>

/**
 * IPv6 duplicate address detection prevents listening on a new address for a second or two, so a
 * missing address is reported only from this attempt on.
 */
const ADDRESS_ATTEMPTS = 4
/** kube-proxy retries at each periodic sync, by default every 30 s. */
const RETRY_MS = { firstMs: 500, maxMs: 30_000 }

export class HealthChecks {
  readonly #options: Pick<HealthChecksOptions, 'nodeName' | 'log'>
  #listener: HealthChecksListener
  readonly #checks = new Map<HealthCheckKey, HealthCheck>()
  readonly #listeners = new Map<HealthCheckKey, Map<string, HttpListener>>()
  readonly #failing = new Map<string, Problem>()
  #addresses: ListenAddresses = { IPv4: [], IPv6: [] }

  constructor(options: HealthChecksOptions) {
    this.#options = options
    this.#listener = options
  }

  /**
   * Another proxy of this process takes the place of the one before, and these are all the checks
   * that it wants. Sockets that both want stay open with their connections.
   * @param later keys of checks that follow by `update`; what is there of them stays
   */
  takeOver(
    listener: HealthChecksListener,
    addresses: ListenAddresses | undefined,
    checks: readonly HealthCheckChange[],
    later: Iterable<HealthCheckKey>,
  ): void {
    const wanted = new Set(checks.flatMap(({ key, check }) => (check === undefined ? [] : [key])))
    for (const key of later) wanted.add(key)
    const gone = Array.from(this.#checks.keys()).filter((key) => !wanted.has(key))
    this.update(gone.map((key) => ({ key, check: undefined })))
    this.#listener = listener
    for (const [socket, problem] of this.#failing) listener.onProblem(socket, problem)
    if (addresses !== undefined) this.#addresses = addresses
    this.update(checks)
  }

  /** Sets the addresses to listen on; nothing is opened before the first call. Sockets that remain wanted stay open. */
  listenOn(addresses: ListenAddresses): void {
    this.#addresses = addresses
    for (const [key, check] of this.#checks) this.#listen(key, check)
  }

  /** The endpoints that a port answers with; 0 while it is closed. */
  endpointsOf(key: HealthCheckKey): number {
    return this.#checks.get(key)?.localEndpoints ?? 0
  }

  /** Opens and closes ports and changes answers. */
  update(changes: readonly HealthCheckChange[]): void {
    const { log } = this.#options
    for (const { key, check } of changes) {
      const before = this.#checks.get(key)
      if (check === undefined) this.#checks.delete(key)
      else this.#checks.set(key, check)
      this.#listen(key, check)
      if ((before === undefined) === (check === undefined)) continue
      log.verbose(2, check === undefined ? 'Closing healthcheck' : 'Opening healthcheck', fieldsOf(check ?? before))
    }
  }

  close(): void {
    for (const [key] of this.#listeners) this.#listen(key, undefined)
    this.#checks.clear()
  }

  #listen(key: HealthCheckKey, check: HealthCheck | undefined): void {
    const listeners = this.#listeners.get(key) ?? new Map<string, HttpListener>()
    const wanted = check === undefined ? [] : this.#addresses[check.family]
    // Closing comes first, because 0.0.0.0 and an address of the node cannot listen on one port at the same time.
    for (const [address, listener] of listeners) {
      if (wanted.includes(address)) continue
      listener.close()
      listeners.delete(address)
      this.#report(address, key, undefined)
    }
    for (const address of wanted) {
      if (check === undefined || listeners.has(address)) continue
      const listener = this.#open(key, check, address)
      listeners.set(address, listener)
      listener.open()
    }
    if (listeners.size === 0) this.#listeners.delete(key)
    else this.#listeners.set(key, listeners)
  }

  #open(key: HealthCheckKey, check: HealthCheck, address: string): HttpListener {
    const { port } = check
    const current = (): HealthCheck => this.#checks.get(key) ?? check
    return new HttpListener({
      address,
      port,
      answer: () => formatHealthCheck(current(), this.#listener.isProxyHealthy()),
      retryMs: (attempts) => backoffMs(RETRY_MS, attempts),
      onOpen: () => this.#report(address, key, undefined),
      onFailure: (error, attempts) => {
        if (error.code === 'EADDRNOTAVAIL' && attempts < ADDRESS_ATTEMPTS) return
        const problem = problemOf(current(), address, error, this.#options.nodeName)
        this.#report(address, key, problem)
        this.#listener.onFailedAttempt?.(current(), problem.message)
      },
    })
  }

  #report(address: string, key: HealthCheckKey, problem: Problem | undefined): void {
    const socket = formatEndpoint(address, Number(key.slice(key.indexOf(' ') + 1)))
    if (this.#failing.get(socket)?.subject === problem?.subject) return
    if (problem === undefined) this.#failing.delete(socket)
    else this.#failing.set(socket, problem)
    this.#listener.onProblem(socket, problem)
  }
}

function fieldsOf(check: HealthCheck | undefined): { readonly [name: string]: unknown } {
  const service = new ObjectName(check?.namespace ?? '', check?.name ?? '')
  return { service, port: check?.port, ipFamily: check?.family }
}

/** The message is the one of kube-proxy's Event FailedToStartServiceHealthcheck. */
function problemOf(check: HealthCheck, address: string, error: NodeJS.ErrnoException, nodeName: string): Problem {
  const { namespace, name, port, family } = check
  const reason = error.errno === undefined ? error.message : getSystemErrorMessage(error.errno)
  const network = family === 'IPv4' ? 'tcp4' : 'tcp6'
  return {
    code: 'health-check-port',
    about: 'object',
    subject: `service ${namespace}/${name}`,
    field: 'spec.healthCheckNodePort',
    message: `node ${nodeName} failed to start healthcheck "${namespace}/${name}" on port ${port}: listen ${network} ${formatEndpoint(address, port)}: bind: ${reason}`,
  }
}
