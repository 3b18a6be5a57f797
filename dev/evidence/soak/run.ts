/**
 * The soak itself, in the guest: makes changes at a steady rate, round by round, and looks at the
 * daemon and the kernel whenever the cluster is back in its start state.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { metricsPage, METRICS_URL } from '../../bench/metrics-page.ts'
import { IpvsTable } from '../../bench/ipvs-table.ts'
import { type Change, Changes, ROUNDS_A_CYCLE } from './changes.ts'
import { probeOf } from './cluster.ts'
import { differences, listKernel, type Listing } from './listing.ts'
import type { Inside, SoakNode } from './node.ts'

const CHANGES_A_SECOND = 100
const CHANGES_A_ROUND = 3_000
const FEWEST_CYCLES = 5
/** Behind the schedule by more than this, the schedule is given up and fewer changes are made. */
const BEHIND_MS = 1_000
const SAMPLE_MS = 2_000
const PROBE_EVERY = 100
const PROBE_MS = 60_000
const PROBE_STEP_MS = 2
/** An audit of a busy guest included. */
const SETTLE_MS = 240_000
const LOOK_MS = 1_000
const SHOWN_DIFFERENCES = 8

/** What was seen when the cluster was back in its start state. */
export interface Checkpoint {
  readonly round: number
  /** Since the start. */
  readonly seconds: number
  readonly changes: number
  /** Means of the samples in the round. */
  readonly anonymousMiB: number
  readonly descriptors: number
  /** Until the kernel was as after a fresh start. */
  readonly settledMs: number
  /** A few of the differences that were left; empty when the kernel is as after a fresh start. */
  readonly differences: readonly string[]
  /** At the end of each cycle, with what `kube-ipvs diff` prints. */
  readonly inside?: Inside & { readonly diff: string }
}

/** Counts of the metrics page, those of the event loop without the moments in which the soak looked inside. */
export interface Counted {
  readonly delays: Readonly<Record<string, number>>
  readonly page: string
}

export interface Soaked {
  readonly checkpoints: readonly Checkpoint[]
  readonly seconds: number
  /** In which changes were made; the rest is waiting for equal states. */
  readonly changingSeconds: number
  readonly changes: Readonly<Record<Change['kind'], number>>
  /** From a write in the API server until the kernel has the endpoint. */
  readonly lagsMs: readonly number[]
  readonly lostProbes: number
  readonly counted: Counted
}

export class Soak {
  readonly #node: SoakNode
  readonly #fresh: Listing
  readonly #say: (text: string) => void
  readonly #changes: Changes
  readonly #made: Record<Change['kind'], number> = { service: 0, zone: 0, address: 0, settings: 0, interruption: 0 }
  readonly #lagsMs: number[] = []
  readonly #delays = new Map<string, number>()
  #delaysBefore = new Map<string, number>()
  #lostProbes = 0
  #probing: Promise<void> = Promise.resolve()
  #isProbing = false
  #isIpvs = true
  #changingMs = 0

  constructor(node: SoakNode, fresh: Listing, seed: number, say: (text: string) => void) {
    this.#node = node
    this.#fresh = fresh
    this.#changes = new Changes(seed)
    this.#say = say
  }

  /** For so long, and at least for a few cycles of very short rounds. */
  async run(seconds: number): Promise<Soaked> {
    const startedMs = performance.now()
    const since = (): number => Math.round((performance.now() - startedMs) / 1000)
    const rounds = Math.floor((seconds * CHANGES_A_SECOND) / CHANGES_A_ROUND)
    const length = Math.min(CHANGES_A_ROUND, Math.floor((seconds * CHANGES_A_SECOND) / FEWEST_CYCLES / ROUNDS_A_CYCLE))
    const checkpoints: Checkpoint[] = []
    const kernel = await IpvsTable.open()
    await this.#countDelays(false)
    try {
      for (let round = 0; since() < seconds || round % ROUNDS_A_CYCLE > 0; round++) {
        const samples = await this.#round(length, kernel)
        const seen = await this.#look(round)
        checkpoints.push({ round, seconds: since(), changes: this.#count, anonymousMiB: mean(samples), ...seen })
        const { anonymousMiB, settledMs, differences: left, inside } = checkpoints.at(-1) ?? { anonymousMiB: 0 }
        this.#say(
          `round ${round + 1} (${rounds}): ${this.#count} changes in ${since()} s, ${anonymousMiB.toFixed(1)} MiB, equal after ${settledMs} ms, ` +
            `${left?.length === 0 ? 'none different' : left?.join('; ')}${inside === undefined ? '' : `, heap ${(inside.heapBytes / 2 ** 20).toFixed(2)} MiB, ${inside.timers} timers`}`,
        )
      }
    } finally {
      kernel.close()
    }
    return {
      checkpoints,
      seconds: since(),
      changingSeconds: Math.round(this.#changingMs / 1000),
      changes: this.#made,
      lagsMs: this.#lagsMs,
      lostProbes: this.#lostProbes,
      counted: { delays: Object.fromEntries(this.#delays), page: await metricsPage(METRICS_URL) },
    }
  }

  get #count(): number {
    return Object.values(this.#made).reduce((sum, one) => sum + one, 0)
  }

  /** Makes the changes of a round; resolves to samples of anonymous memory in MiB. */
  async #round(length: number, kernel: IpvsTable): Promise<number[]> {
    const samples: number[] = []
    const sampling = setInterval(() => samples.push(this.#node.program.memory().rssAnonMiB), SAMPLE_MS)
    const startedMs = performance.now()
    let dueMs = startedMs
    try {
      for (const change of this.#changes.round(length)) {
        if (!this.#node.program.isAlive) throw new Error(`the program ended:\n${this.#node.program.logTail}`)
        dueMs = Math.max(dueMs + 1000 / CHANGES_A_SECOND, performance.now() - BEHIND_MS)
        const earlyMs = dueMs - performance.now()
        if (earlyMs > 0) await sleep(earlyMs)
        await this.#node.apply(change)
        this.#made[change.kind]++
        if (change.kind === 'settings') this.#isIpvs = change.settings.mode === 'ipvs'
        if (change.kind === 'service' && this.#count % PROBE_EVERY < PROBE_EVERY / 2 && !this.#isProbing)
          this.#probing = this.#probe(change, kernel)
      }
    } finally {
      clearInterval(sampling)
    }
    this.#changingMs += performance.now() - startedMs
    await this.#probing
    return samples.length > 0 ? samples : [this.#node.program.memory().rssAnonMiB]
  }

  /** Times a change of endpoints in ipvs mode, unless the Service changes again before. */
  async #probe({ service, from, to }: Change & { readonly kind: 'service' }, kernel: IpvsTable): Promise<void> {
    if (!this.#isIpvs || to === undefined || to.endpoints === 0 || from?.endpoints === to.endpoints) return
    this.#isProbing = true
    const { address, endpoint } = probeOf(service, to.endpoints)
    const expected = { port: '', address, endpoints: new Set<string>() }
    const startedMs = performance.now()
    try {
      while (this.#changes.services.get(service)?.endpoints === to.endpoints && this.#isIpvs) {
        const isThere = await kernel.hasEndpoint(expected, endpoint).catch(() => false)
        const lagMs = performance.now() - startedMs
        if (isThere) {
          this.#lagsMs.push(lagMs)
          return
        }
        if (lagMs > PROBE_MS) {
          this.#lostProbes++
          return
        }
        await sleep(PROBE_STEP_MS)
      }
    } finally {
      this.#isProbing = false
    }
  }

  async #look(round: number): Promise<Pick<Checkpoint, 'descriptors' | 'settledMs' | 'differences' | 'inside'>> {
    const startedMs = performance.now()
    let left: readonly string[]
    let settledMs: number
    do {
      await sleep(LOOK_MS)
      settledMs = Math.round(performance.now() - startedMs)
      left = differences(this.#fresh, listKernel())
    } while (left.length > 0 && settledMs < SETTLE_MS && this.#node.program.isAlive)
    const { descriptors } = this.#node
    const seen = { descriptors, settledMs, differences: left.slice(0, SHOWN_DIFFERENCES) }
    await this.#countDelays(true)
    if (round % ROUNDS_A_CYCLE < ROUNDS_A_CYCLE - 1) return seen
    const diff = await this.#node.diff()
    const inside = { ...(await this.#node.inside()), diff }
    await this.#countDelays(false)
    return { ...seen, inside }
  }

  /** @param counts whether what came since the last reading counts */
  async #countDelays(counts: boolean): Promise<void> {
    const page = await metricsPage(METRICS_URL)
    const now = new Map(
      [...page.matchAll(/^kubeipvs_event_loop_delay_seconds_(?:bucket\{le="([^"]+)"\}|(count)|(sum)) (\S+)$/gm)].map(
        ([, bucket, count, sum, value]) => [bucket ?? count ?? sum ?? '', Number(value)],
      ),
    )
    // A proxy that was replaced has begun to count again.
    const isSame = (now.get('count') ?? 0) >= (this.#delaysBefore.get('count') ?? 0)
    const before = (name: string): number => (isSame ? (this.#delaysBefore.get(name) ?? 0) : 0)
    if (counts)
      for (const [name, value] of now) this.#delays.set(name, (this.#delays.get(name) ?? 0) + value - before(name))
    this.#delaysBefore = now
  }
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
