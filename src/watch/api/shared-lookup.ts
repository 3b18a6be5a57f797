/**
 * Look-ups of host names for sockets. One that hangs blocks one of the four threads of libuv, which
 * also read files; so requests for the same name share the look-up in progress.
 * @impure
 */
import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns'
import { type LookupFunction, setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'

type FoundAddresses = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void
type LookupAll = (hostname: string, options: LookupAllOptions, callback: FoundAddresses) => void

/**
 * Node gives up the connection to an address after this time where the name has another one, and
 * after 250 ms by default: behind a slow line it would give up all of them but the last.
 */
const ATTEMPT_MS = 3000

/**
 * A look-up function for sockets, through getaddrinfo, which respects /etc/hosts and nsswitch.conf.
 * @param lookupAll resolves a name; tests replace it
 */
export function sharedLookup(lookupAll: LookupAll = lookup): LookupFunction {
  setDefaultAutoSelectFamilyAttemptTimeout(ATTEMPT_MS)
  const waiting = new Map<string, FoundAddresses[]>()
  return (hostname, options, callback) => {
    const answer: FoundAddresses = (error, addresses) => {
      const [first] = addresses
      if (error !== null || first === undefined) callback(error ?? new Error(`${hostname} has no address`), '')
      else if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    }
    const key = JSON.stringify([hostname, options.family, options.hints, options.order])
    const others = waiting.get(key)
    if (others !== undefined) {
      others.push(answer)
      return
    }
    const all = [answer]
    waiting.set(key, all)
    lookupAll(hostname, { ...options, all: true }, (error, addresses = []) => {
      waiting.delete(key)
      for (const each of all) each(error, addresses)
    })
  }
}
