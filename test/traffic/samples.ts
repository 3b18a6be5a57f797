/** Samples for the tests of rates, rows and lines. */
import type { PlaceSample, Rates, RealServerSample, Sample } from '../../src/traffic/sample.ts'

export function realServer(traffic: readonly number[], more: Partial<RealServerSample> = {}): RealServerSample {
  return { traffic: Float64Array.from(traffic), isDraining: false, active: 0, inactive: 0, ...more }
}

export function place(
  traffic: readonly number[],
  realServers?: Readonly<Record<string, RealServerSample>>,
  more: Partial<PlaceSample> = {},
): PlaceSample {
  return {
    addresses: [],
    traffic: Float64Array.from(traffic),
    isUsed: true,
    realServers: realServers && new Map(Object.entries(realServers)),
    ...more,
  }
}

export function sample(atMs: number, places: Readonly<Record<string, PlaceSample>>): Sample {
  return { mode: 'ipvs', atMs, places: new Map(Object.entries(places)), unread: 0 }
}

export function rates(places: Readonly<Record<string, PlaceSample>>, more: Partial<Rates> = {}): Rates {
  return { ...sample(1000, places), seconds: 1, ...more }
}
