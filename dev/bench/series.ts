/** The programs and ways that the experiment compares, and the sizes of each. */
import type { AnyMode, Subject } from './result.ts'

interface SeriesOf extends Pick<Subject, 'program'> {
  readonly mode: AnyMode
  /** Only ours has a choice. */
  readonly virtualAddresses: 'addresses' | 'routes'
  /** What a client notices is measured, or what the program costs. */
  readonly what: 'traffic' | 'cost'
}

export const SERIES = {
  'traffic/ipvs': { program: 'kube-ipvs', mode: 'ipvs', virtualAddresses: 'addresses', what: 'traffic' },
  'traffic/iptables': { program: 'kube-ipvs', mode: 'iptables', virtualAddresses: 'addresses', what: 'traffic' },
  'kube-ipvs/addresses': { program: 'kube-ipvs', mode: 'ipvs', virtualAddresses: 'addresses', what: 'cost' },
  'kube-ipvs/routes': { program: 'kube-ipvs', mode: 'ipvs', virtualAddresses: 'routes', what: 'cost' },
  'kube-ipvs/iptables': { program: 'kube-ipvs', mode: 'iptables', virtualAddresses: 'addresses', what: 'cost' },
  'kube-proxy/ipvs': { program: 'kube-proxy', mode: 'ipvs', virtualAddresses: 'addresses', what: 'cost' },
  'kube-proxy/iptables': { program: 'kube-proxy', mode: 'iptables', virtualAddresses: 'addresses', what: 'cost' },
  'kube-proxy/nftables': { program: 'kube-proxy', mode: 'nftables', virtualAddresses: 'addresses', what: 'cost' },
} as const satisfies Readonly<Record<string, SeriesOf>>
export type SeriesName = keyof typeof SERIES
export const SERIES_NAMES = Object.keys(SERIES) as readonly SeriesName[] // the keys of the literal above

/** Numbers of Services, unless others are asked for. */
export const SIZES: Readonly<Record<SeriesOf['what'], readonly number[]>> = {
  traffic: [1, 1_000, 5_000, 10_000],
  cost: [100, 1_000, 5_000, 10_000, 50_000],
}

export const isSeriesName = (text: string): text is SeriesName => Object.hasOwn(SERIES, text)
