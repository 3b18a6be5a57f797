/**
 * Opens what the counters of a mode are read from.
 * @impure
 */
import { openLook } from '../modes/look/look.ts'
import { answeringMode, type ProxyMode } from '../modes/modes-in-kernel.ts'
import { CodedError } from '../values/errors.ts'
import { type IpvsReadOptions, readIpvs } from './ipvs-reader.ts'
import { readRules } from './rules-reader.ts'
import type { Sample } from './sample.ts'

export interface TrafficReader {
  readonly mode: ProxyMode
  read(options: IpvsReadOptions): Promise<Sample>
  close(): void
}

/**
 * @param known the mode of the running daemon; undefined: none answers, and the mode is what the
 * kernel shows. Rejects with `no-services` when there is neither, and as the parts do when the
 * kernel cannot be read.
 */
export async function openTraffic(known: ProxyMode | undefined, signal: AbortSignal): Promise<TrafficReader> {
  const look = openLook()
  const close = (): void => look.close()
  try {
    const mode = known ?? answeringMode(await look.modes(signal))
    if (mode === 'ipvs') {
      const ipvs = await look.needIpvs(signal)
      return { mode, read: (options) => readIpvs(ipvs, options), close }
    }
    if (mode === undefined)
      throw new CodedError(
        'no-services',
        'this network namespace has nothing of ipvs mode and no rules of iptables mode: is it that of the node, and has a proxy run?',
      )
    const iptables = await look.iptables(signal)
    const families = look.families.filter((family) => iptables.choice.unusable[family] === undefined)
    const conntrack = await look.conntrack(signal)
    const read = (options: IpvsReadOptions): Promise<Sample> =>
      readRules({
        families,
        saveCounters: (family) => iptables.saveCounters(family, 'nat', options.signal),
        conntrack,
        signal: options.signal,
      })
    return { mode, read, close }
  } catch (error) {
    close()
    throw error
  }
}
