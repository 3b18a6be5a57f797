/** The programs and ways that the measurement over size compares. */
import type { AnyMode, Subject } from './result.ts'

/** What is measured at every size. */
interface SeriesOf extends Pick<Subject, 'program'> {
  readonly mode: AnyMode
  /** Only ours has a choice. */
  readonly virtualAddresses: 'addresses' | 'routes'
}

export const SERIES = {
  'kube-ipvs/addresses': { program: 'kube-ipvs', mode: 'ipvs', virtualAddresses: 'addresses' },
  'kube-ipvs/routes': { program: 'kube-ipvs', mode: 'ipvs', virtualAddresses: 'routes' },
  'kube-ipvs/iptables': { program: 'kube-ipvs', mode: 'iptables', virtualAddresses: 'addresses' },
  'kube-proxy/ipvs': { program: 'kube-proxy', mode: 'ipvs', virtualAddresses: 'addresses' },
  'kube-proxy/iptables': { program: 'kube-proxy', mode: 'iptables', virtualAddresses: 'addresses' },
  'kube-proxy/nftables': { program: 'kube-proxy', mode: 'nftables', virtualAddresses: 'addresses' },
} as const satisfies Readonly<Record<string, SeriesOf>>
export type SeriesName = keyof typeof SERIES
export const SERIES_NAMES = Object.keys(SERIES) as readonly SeriesName[] // the keys of the literal above

export const isSeriesName = (text: string): text is SeriesName => Object.hasOwn(SERIES, text)
