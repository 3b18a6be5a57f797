/** One scenario with its packets in a world for each firewall; the test and the nightly program call it. */
import fc from 'fast-check'
import type { Firewall } from '../support/firewalls.ts'
import type { AllowedDifference } from './differences.ts'
import { type Difference, forbidden, judge, type Judged, Ports, QUICK } from './judge.ts'
import { type Mutant, mutantsOf } from './mutants.ts'
import { chosenPackets, type Packet, packetsOf } from './packets.ts'
import { type Scenario, scenarios } from './scenario.ts'
import { World } from './world.ts'

export interface Trial {
  readonly scenario: Scenario
  readonly packets: readonly Packet[]
}

/** The same for the same numbers. */
export function trialsOf(seed: number, count: number, services: number, packets: number): Trial[] {
  const trials = scenarios(services).chain((scenario) => {
    const all = packetsOf(scenario)
    return fc
      .shuffledSubarray(all, { minLength: all.length })
      .map((shuffled): Trial => ({ scenario, packets: chosenPackets(shuffled, packets) }))
  })
  return fc.sample(trials, { seed, numRuns: count })
}

/** So many of the packets of a scenario that `isWanted`; the same for the same numbers. */
export function packetsFor(
  scenario: Scenario,
  seed: number,
  count: number,
  isWanted: (packet: Packet) => boolean = () => true,
): Packet[] {
  const all = packetsOf(scenario).filter(isWanted)
  const [shuffled = []] = fc.sample(fc.shuffledSubarray(all, { minLength: all.length }), { seed, numRuns: 1 })
  return chosenPackets(shuffled, count)
}

/** Calls `act` with a world for each firewall. */
export async function inWorlds<Result>(
  firewalls: readonly [Firewall, ...Firewall[]],
  scenario: Scenario,
  act: (worlds: readonly [World, ...World[]]) => Promise<Result>,
): Promise<Result> {
  const [first, ...others] = firewalls
  const worlds: [World, ...World[]] = [await World.start(first, scenario)]
  try {
    for (const firewall of others) worlds.push(await World.start(firewall, scenario))
    await Promise.all(worlds.map((world) => world.meet()))
    return await act(worlds)
  } finally {
    for (const world of worlds) world.close()
  }
}

export interface TrialResult extends Judged {
  /** Differences that are not allowed. */
  readonly forbidden: readonly Difference[]
}

export async function runTrial(
  firewalls: readonly [Firewall, ...Firewall[]],
  { scenario, packets }: Trial,
  allowed: readonly AllowedDifference[],
  used: Set<AllowedDifference>,
): Promise<TrialResult> {
  const judged = await inWorlds(firewalls, scenario, (worlds) => judge(worlds, packets, new Ports()))
  return { ...judged, forbidden: forbidden(judged.differences, scenario, allowed, used) }
}

/**
 * The mutants of the second world, those whose name `isWanted`, with the differences that the judge
 * finds while each is in force; last those that it finds when all is mended, which should be none.
 */
export async function judgeMutants(
  [reference, mutated]: readonly [World, World],
  packets: readonly Packet[],
  isWanted: (mutant: Mutant) => boolean,
  ended: (mutant: Mutant, differences: readonly Difference[]) => void,
): Promise<readonly Difference[]> {
  const ports = new Ports()
  for (const mutant of mutantsOf(mutated).filter(isWanted)) {
    mutated.run(mutant.damage)
    const { differences } = await judge([reference, mutated], packets, ports, QUICK)
    mutated.run(mutant.repair)
    ended(mutant, differences)
  }
  return (await judge([reference, mutated], packets, ports)).differences
}
