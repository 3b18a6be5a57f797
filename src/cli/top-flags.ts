/** What the command line of `kube-ipvs top` asks for, checked. */
import { GROUPINGS, type Grouping, SORT_KEYS, type SortKey, type TrafficFilter } from '../traffic/rows.ts'
import { parseAddress } from '../values/address.ts'
import { formatDuration } from '../values/duration.ts'
import { CodedError } from '../values/errors.ts'
import { quote } from '../values/quote.ts'
import type { FlagValues } from '../start/flags.ts'

export interface TopRequest {
  readonly sort: SortKey
  readonly by: Grouping
  readonly filter: TrafficFilter
  readonly intervalMs: number
}

const INTERVAL_MS = { least: 100, default: 1000, most: 3_600_000 } as const

/** Names of namespaces and Services, as Kubernetes permits them. */
const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/

/** Throws `usage` for what is wrong. */
export function topRequest(flags: FlagValues, words: readonly string[]): TopRequest {
  const { interval: intervalMs = INTERVAL_MS.default } = flags
  if (intervalMs < INTERVAL_MS.least || intervalMs > INTERVAL_MS.most)
    throw usage(`--interval must be ${formatDuration(INTERVAL_MS.least)} to ${formatDuration(INTERVAL_MS.most)}`)
  return {
    sort: oneOf('--sort', flags.sort || 'connections', SORT_KEYS),
    by: oneOf('--by', flags.by || 'service', GROUPINGS),
    filter: { ...serviceFilter(words[0]), address: addressFilter(flags.address) },
    intervalMs,
  }
}

function serviceFilter(word: string | undefined): TrafficFilter {
  if (word === undefined) return {}
  const [namespace = '', name, ...more] = word.split('/')
  if (!NAME.test(namespace) || (name !== undefined && !NAME.test(name)) || more.length > 0)
    throw usage(`${quote(word)} is neither a NAMESPACE nor the NAMESPACE/NAME of a Service`)
  return { namespace, name }
}

function addressFilter(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const address = parseAddress(text)
  if (address === undefined) throw usage(`--address: ${quote(text)} is not an IP address`)
  return address
}

function oneOf<Word extends string>(flag: string, given: string, words: readonly Word[]): Word {
  const found = words.find((word) => word === given)
  if (found === undefined) throw usage(`${flag} must be one of ${words.join(', ')}, not ${quote(given)}`)
  return found
}

function usage(message: string): CodedError {
  return new CodedError('usage', message)
}
