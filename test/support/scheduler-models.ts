/**
 * The schedulers of IPVS that choose by turns or load, as models of one virtual server whose real
 * servers have the weight 1 and keep their connections. `test/kernel/first-connections.test.ts`
 * holds them to the kernel.
 */
import { mayDifferByNode, SCHEDULERS, type SchedulerName } from '../../src/values/schedulers.ts'

/** Neither twos, which takes two at random, nor lblcr, which keeps a set of real servers. */
export const MODELLED = SCHEDULERS.filter((name) => mayDifferByNode(name) && name !== 'twos' && name !== 'lblcr')

export class ModelledServer {
  readonly #scheduler: SchedulerName
  /** The kernel's list: what was added last is the first. */
  readonly #servers: string[] = []
  readonly #connections = new Map<string, number>()
  /** Which one had the last turn; undefined: the head of the list. */
  #turn: string | undefined
  /** The one that lblc keeps for the virtual IP. */
  #kept: string | undefined

  constructor(scheduler: SchedulerName) {
    this.#scheduler = scheduler
  }

  add(server: string): void {
    this.#servers.unshift(server)
    this.#connections.set(server, 0)
    if (this.#scheduler === 'wrr') this.#turn = undefined
  }

  remove(server: string): void {
    const at = this.#servers.indexOf(server)
    if (this.#turn === server) this.#turn = this.#servers[at - 1]
    if (this.#scheduler === 'wrr') this.#turn = undefined
    this.#servers.splice(at, 1)
    this.#connections.delete(server)
    if (this.#kept === server) this.#kept = undefined
  }

  /** Opens a connection that stays open, and returns where it went. */
  connect(): string {
    const chosen = this.#choose()
    this.#turn = chosen
    this.#connections.set(chosen, this.#open(chosen) + 1)
    return chosen
  }

  #choose(): string {
    if (this.#scheduler === 'rr' || this.#scheduler === 'wrr') return this.#next()
    if (this.#scheduler !== 'lblc') return this.#least()
    // It stays until it has more connections than its weight while another has less than half of its own.
    const isOverloaded = this.#kept !== undefined && this.#open(this.#kept) > 1 && this.#open(this.#least()) === 0
    if (this.#kept === undefined || isOverloaded) this.#kept = this.#least()
    return this.#kept
  }

  #next(): string {
    const at = this.#turn === undefined ? -1 : this.#servers.indexOf(this.#turn)
    return this.#servers[(at + 1) % this.#servers.length] ?? ''
  }

  /** The first of those with the fewest connections. */
  #least(): string {
    return this.#servers.reduce((best, server) => (this.#open(server) < this.#open(best) ? server : best))
  }

  #open(server: string): number {
    return this.#connections.get(server) ?? 0
  }
}
