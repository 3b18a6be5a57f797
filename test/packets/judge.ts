/**
 * Sends the same packets into worlds with different firewalls and compares what became of them. A
 * packet that differs is sent again, alone and with more time: a difference counts if every attempt
 * shows it, because a busy machine may lose a packet.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { crowding } from '../support/deadline.ts'
import type { AllowedDifference, Traits } from './differences.ts'
import type { Packet } from './packets.ts'
import type { Scenario } from './scenario.ts'
import type { Observation, World } from './world.ts'

const ASPECTS = ['verdict', 'source', 'mark', 'flow'] as const
type Aspect = (typeof ASPECTS)[number]

export interface Difference {
  readonly packet: Packet
  readonly firewall: string
  readonly aspect: Aspect
  readonly reference: string
  readonly found: string
  /** Of both worlds. */
  readonly verdicts: readonly [reference: string, found: string]
}

export interface Judged {
  /** What became of each packet with the first firewall. */
  readonly reference: readonly (readonly [Packet, Observation])[]
  readonly differences: readonly Difference[]
  /** Differences that another attempt did not show. */
  readonly unsteady: readonly Difference[]
}

/** What the judge needs of a world. */
export type Observed = Pick<World, 'send' | 'observe'> & { readonly firewall: { readonly name: string } }

/** How often a difference must show again, and how long each answer may then take on a fast kernel. */
export interface Patience {
  readonly attempts: number
  readonly withinMs: number
}

/** How long an answer may take at first. */
const FIRST_MS = 700
const PATIENT: Patience = { attempts: 2, withinMs: 2500 }
/** For a look that is repeated many times, and expects differences. */
export const QUICK: Patience = { attempts: 1, withinMs: FIRST_MS }

/**
 * Source ports of a world are used once: two connections from one would be one for IPVS. Servers
 * listen below the first range, and at node ports between the ranges.
 */
export class Ports {
  readonly #ranges = [
    { next: 10_300, end: 30_000 },
    { next: 33_000, end: 65_000 },
  ]

  /** The first of so many ports. */
  take(count: number): number {
    const range = this.#ranges.find(({ next, end }) => next + count <= end)
    if (range === undefined) throw new Error('there are no more source ports')
    range.next += count
    return range.next - count
  }
}

/** The first world is what the others are compared with. */
export async function judge(
  worlds: readonly [Observed, ...Observed[]],
  packets: readonly Packet[],
  ports: Ports,
  { attempts, withinMs } = PATIENT,
): Promise<Judged> {
  const [reference = [], ...others] = await observe(worlds, packets, ports, FIRST_MS)
  const first = differencesOf(worlds, packets, reference, others)
  let lasting = first
  for (let attempt = 0; attempt < attempts && lasting.length > 0; attempt++) {
    const again = [...new Set(lasting.map(({ packet }) => packet))]
    const [expected = [], ...found] = await observe(worlds, again, ports, withinMs)
    const shown = differencesOf(worlds, again, expected, found)
    lasting = lasting.flatMap((one) => shown.find((other) => isSame(one, other)) ?? [])
  }
  return {
    reference: packets.map((packet, index) => [packet, at(reference, index)]),
    differences: lasting,
    unsteady: first.filter((one) => !lasting.some((other) => isSame(one, other))),
  }
}

const isSame = (a: Difference, b: Difference): boolean =>
  a.packet === b.packet && a.firewall === b.firewall && a.aspect === b.aspect

/** For each world what became of each packet. */
async function observe(
  worlds: readonly Observed[],
  packets: readonly Packet[],
  ports: Ports,
  withinMs: number,
): Promise<readonly (readonly Observation[])[]> {
  const firstPort = ports.take(packets.length)
  const limitMs = withinMs * crowding()
  const sent = await Promise.all(worlds.map((world) => world.send(packets, firstPort, limitMs)))
  await sleep(SETTLE_MS)
  return worlds.map((world, index) => world.observe(at(sent, index)))
}

/** For the resets of connections whose answer has arrived. */
const SETTLE_MS = 20

function differencesOf(
  [, ...others]: readonly Observed[],
  packets: readonly Packet[],
  reference: readonly Observation[],
  found: readonly (readonly Observation[])[],
): Difference[] {
  return others.flatMap(({ firewall }, world) =>
    packets.flatMap((packet, index) => {
      const [expected, other] = [at(reference, index), at(at(found, world), index)]
      const about = { packet, firewall: firewall.name, verdicts: [expected.verdict, other.verdict] } as const
      return ASPECTS.filter((aspect) => expected[aspect] !== other[aspect]).map((aspect) => ({
        ...about,
        aspect,
        reference: expected[aspect],
        found: other[aspect],
      }))
    }),
  )
}

function at<Item>(list: readonly Item[], index: number): Item {
  const item = list[index]
  if (item === undefined) throw new Error(`there is no item ${index}`)
  return item
}

/** What the list of allowed differences has patterns for. */
export function traitsOf({ packet, verdicts, ...difference }: Difference, { policies, services }: Scenario): Traits {
  const { kind, from, family, to } = packet
  const { sourceRanges = 'none' } = services[packet.service - 1] ?? {}
  const text = `INPUT ${policies.input} FORWARD ${policies.forward}`
  return {
    ...difference,
    kind,
    from,
    family,
    protocol: to.protocol,
    verdicts: verdicts.join(' -> '),
    ranges: sourceRanges,
    policies: text,
  }
}

/** The differences that no entry allows; `used` receives the entries that were needed. */
export function forbidden(
  differences: readonly Difference[],
  scenario: Scenario,
  allowed: readonly AllowedDifference[],
  used: Set<AllowedDifference>,
): readonly Difference[] {
  return differences.filter((difference) => {
    const entry = allowed.find((one) => one.allows(traitsOf(difference, scenario)))
    if (entry !== undefined) used.add(entry)
    return entry === undefined
  })
}

/** `tcp from client to 10.96.0.1 80 (ClusterIP)` */
export function formatPacket({ kind, from, address, to }: Packet): string {
  const sender = address === undefined ? from : `${from} at ${address}`
  return `${to.protocol} from ${sender} to ${to.address}${to.protocol === 'ping' ? '' : ` ${to.port}`} (${kind})`
}

/** Lines for people: the packets with what became of them in both worlds, then the Services and settings they met. */
export function formatDifferences(differences: readonly Difference[], scenario: Scenario, reference: string): string[] {
  const packets = Map.groupBy(differences, ({ packet }) => packet)
  const numbers = new Set([...packets.keys()].map(({ service }) => service).filter((number) => number > 0))
  const { services, ...settings } = scenario
  return [
    ...[...packets].flatMap(([packet, ones]) => [
      formatPacket(packet),
      ...ones.flatMap(({ firewall, aspect, reference: expected, found }) => [
        `  ${aspect} with ${reference}: ${expected === '' ? 'none' : expected}`,
        `  ${aspect} with ${firewall}: ${found === '' ? 'none' : found}`,
      ]),
    ]),
    ...[...numbers]
      .sort((a, b) => a - b)
      .map((number) => `Service s${number}: ${JSON.stringify(services[number - 1])}`),
    `Settings: ${JSON.stringify(settings)}`,
  ]
}
