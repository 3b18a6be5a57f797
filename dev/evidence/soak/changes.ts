/**
 * The changes of the soak, pure and from a seed: rounds of a fixed length that end in the start
 * state, with what seldom changes (mode, firewall, addresses of the node) at the same places of each.
 */
import { Random } from '../fuzz/random.ts'
import { hasRanges, SERVICES, type ServiceState, START } from './cluster.ts'

/** Fields of the configuration that change while the program runs. */
export interface Settings {
  readonly mode: 'ipvs' | 'iptables'
  readonly firewall: 'iptables' | 'nftables'
  readonly virtualAddresses: 'addresses' | 'routes'
  /** Reloads with other values of what may change at any time. */
  readonly reload: number
}
export const START_SETTINGS: Settings = {
  mode: 'ipvs',
  firewall: 'iptables',
  virtualAddresses: 'addresses',
  reload: 0,
}

export type Change =
  /** The state of a Service; undefined where it is not there. */
  | {
      readonly kind: 'service'
      readonly service: number
      readonly from: ServiceState | undefined
      readonly to: ServiceState | undefined
    }
  /** The Node's labels. */
  | { readonly kind: 'zone'; readonly zone: number }
  /** A further address of the node's device, by a number. */
  | { readonly kind: 'address'; readonly address: number; readonly isThere: boolean }
  | { readonly kind: 'settings'; readonly settings: Settings }
  /** The API server ends all watches, or resets all connections. */
  | { readonly kind: 'interruption'; readonly how: 'end' | 'reset' }

/** Rounds differ by what happens in them seldom, in cycles of so many. Each block of the statistics is one cycle. */
export const ROUNDS_A_CYCLE = 4
/**
 * At 100 changes a second at least 16 minutes: the program makes no more than three switches of mode
 * and firewall in a quarter of an hour, and one round has three.
 */
const CHANGES_FROM_SWITCHES_TO_SWITCHES = 96_000

/** What happens at which share of a round, in the order of the shares. */
function scheduled(round: number, length: number): readonly (readonly [share: number, change: Change])[] {
  const settings = (some: Partial<Settings> = {}): Change => ({
    kind: 'settings',
    settings: { ...START_SETTINGS, ...some },
  })
  const place = round % ROUNDS_A_CYCLE
  const cycles = Math.ceil(CHANGES_FROM_SWITCHES_TO_SWITCHES / length / ROUNDS_A_CYCLE)
  const hasSwitches = round % (cycles * ROUNDS_A_CYCLE) === 1
  const [first, second] = hasSwitches
    ? ([{ mode: 'iptables' }, { firewall: 'nftables' }] as const)
    : place === 2
      ? ([{ virtualAddresses: 'routes' }, { virtualAddresses: 'routes', reload: 1 }] as const)
      : ([{ reload: 1 }, { reload: 2 }] as const)
  return [
    [0.05, { kind: 'address', address: round, isThere: true }],
    [0.1, settings(first)],
    [0.2, { kind: 'zone', zone: 1 }],
    [0.3, { kind: 'interruption', how: place === 0 ? 'reset' : 'end' }],
    [0.4, settings(second)],
    [0.5, { kind: 'zone', zone: 0 }],
    [0.55, { kind: 'address', address: round, isThere: false }],
    [0.7, settings()],
  ]
}

const changed = (state: ServiceState): boolean => state.endpoints + state.annotation + state.ranges > 0

export class Changes {
  readonly #random: Random
  readonly #services = new Map<number, ServiceState>()
  /** Numbers of Services that are not in their start state, or only for a while there. */
  readonly #dirty = new Set<number>()
  #serial = 0
  #rounds = 0
  #nextGuest = SERVICES

  constructor(seed: number) {
    this.#random = new Random(seed)
    for (let service = 0; service < SERVICES; service++) this.#services.set(service, START)
  }

  /** All Services, in the state after the changes so far. */
  get services(): ReadonlyMap<number, ServiceState> {
    return this.#services
  }

  /** Changes that lead back to the start state. */
  get left(): number {
    return this.#dirty.size
  }

  /** So many changes, more only where a way back is longer; after the last the state is that of the start. */
  *round(length: number): Generator<Change, void, undefined> {
    const round = this.#rounds++
    const waiting = scheduled(round, length).map(([share, change]) => [Math.floor(share * length), change] as const)
    for (let made = 0; made < length || this.left > 0; made++) {
      const due = waiting[0]
      if (due !== undefined && due[0] <= made) {
        waiting.shift()
        yield due[1]
      } else yield made + waiting.length + this.left >= length ? this.#back() : this.#any()
    }
    for (const [, change] of waiting) yield change
  }

  #any(): Change {
    const roll = this.#random.below(100)
    // A Service that comes and goes, with a name and addresses that were never there before.
    if (roll < 3) return this.#put(this.#nextGuest++, { ...START, life: ++this.#serial })
    const service = roll < 6 ? this.#random.pick([...this.#dirty, 0]) : this.#random.below(SERVICES)
    const state = this.#services.get(service)
    if (state === undefined) return this.#put(service, { ...START, life: ++this.#serial })
    if (roll < 10) return this.#put(service, undefined)
    if (roll < 18) return this.#put(service, { ...state, annotation: ++this.#serial })
    if (roll < 30 && hasRanges(service)) return this.#put(service, { ...state, ranges: ++this.#serial })
    return this.#put(service, { ...state, endpoints: ++this.#serial })
  }

  /** Brings one Service back to where it was at the start, in one change. */
  #back(): Change {
    const [service] = this.#dirty
    if (service === undefined) return this.#any()
    if (service >= SERVICES) return this.#put(service, undefined)
    return this.#put(service, { ...START, life: this.#services.get(service)?.life ?? ++this.#serial })
  }

  #put(service: number, to: ServiceState | undefined): Change {
    const from = this.#services.get(service)
    if (to === undefined) this.#services.delete(service)
    else this.#services.set(service, to)
    const isBack = service >= SERVICES ? to === undefined : to !== undefined && !changed(to)
    if (isBack) this.#dirty.delete(service)
    else this.#dirty.add(service)
    return { kind: 'service', service, from, to }
  }
}
