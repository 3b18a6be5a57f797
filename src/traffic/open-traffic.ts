/**
 * Opens what the counters of a mode are read from.
 * @impure
 */
import { openNetfilter } from '../../native/open.ts'
import { ConntrackConnection } from '../conntrack/connection.ts'
import { chooseBackEnd } from '../modes/iptables-back-end.ts'
import { openIpvs, unlessMissing } from '../modes/ipvs/kernel.ts'
import { answeringMode, type ProxyMode, readModes } from '../modes/modes-in-kernel.ts'
import { ipFamilies } from '../node/host.ts'
import { HostIptables } from '../node/iptables-programs.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type IpvsReadOptions, readIpvs } from './ipvs-reader.ts'
import { readRules } from './rules-reader.ts'
import type { Sample } from './sample.ts'

export interface TrafficReader {
  readonly mode: ProxyMode
  read(options: IpvsReadOptions): Promise<Sample>
  close(): void
}

/**
 * @param mode the mode of the running daemon; undefined: none answers, and the mode is what the kernel shows.
 * Rejects with `no-services` when there is neither, and as the parts do when the kernel cannot be read.
 */
export async function openTraffic(mode: ProxyMode | undefined, signal: AbortSignal): Promise<TrafficReader> {
  switch (mode ?? answeringMode((await readModes(signal)).modes)) {
    case 'ipvs': {
      const ipvs = await openIpvs(signal)
      return { mode: 'ipvs', read: (options) => readIpvs(ipvs, options), close: () => ipvs.close() }
    }
    case 'iptables':
      return openRules(signal)
    case undefined:
      throw new CodedError(
        'no-services',
        'this network namespace has nothing of ipvs mode and no rules of iptables mode: is it that of the node, and has a proxy run?',
      )
  }
}

async function openRules(signal: AbortSignal): Promise<TrafficReader> {
  const { iptables, families } = await openIptables(signal)
  const conntrack = await findConntrack(signal)
  return {
    mode: 'iptables',
    read: (options) =>
      readRules({
        families,
        saveCounters: (family) => iptables.saveCounters(family, 'nat', options.signal),
        conntrack,
        signal: options.signal,
      }),
    close: () => conntrack?.close(),
  }
}

async function openIptables(signal: AbortSignal) {
  const choice = await chooseBackEnd(ipFamilies(), signal, { mayLoadModules: false })
  const families: readonly IpFamily[] = ipFamilies().filter((family) => choice.unusable[family] === undefined)
  return { iptables: new HostIptables(choice), families }
}

/** undefined: the kernel does not list its flows. */
export function findConntrack(signal: AbortSignal): Promise<ConntrackConnection | undefined> {
  return unlessMissing('conntrack-missing', () => ConntrackConnection.open(openNetfilter(), { signal }))
}
